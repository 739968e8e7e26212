//! Commands of setup, run one after the other by a guest: the same in every sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::client::{Client, GuestError};
use crate::docker::USER;
use crate::egress::ledger::HostUse;
use crate::{ImageSpec, SandboxError};
use patchwright_base::credentials;
use patchwright_base::redact::Redactor;
use patchwright_base::text;
use patchwright_guest::protocol::Exec;
use patchwright_guest::tool::OutOfMemory;

/// Bytes of a command's output that are read: the first error is in them, as a rule, and the end.
const OUTPUT: usize = 32 << 10;
/// What install steps of CI take for granted. The sandbox is thrown away, so packages may go beside those of its system,
/// and nobody reads what a step says to those after it.
const USUAL: [(&str, &str); 4] = [
    ("PIP_BREAK_SYSTEM_PACKAGES", "1"),
    ("GITHUB_ENV", "/dev/null"),
    ("GITHUB_OUTPUT", "/dev/null"),
    ("GITHUB_PATH", "/dev/null"),
];
/// Bytes of the output of all failed commands that are kept.
const KEPT: usize = 64 << 10;
/// Bytes of a secret that is looked for in files.
const SHORTEST: usize = 6;
/// Hosts of a command whose failure is told.
const MAX_UNREACHED: usize = 5;
/// Least time that a command is given: with less it would say nothing but that it was stopped.
const LEAST: Duration = Duration::from_secs(1);

/// How one command of setup went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SetupRun {
    /// `None` when it did not run: the time for setup was up, or its disk was full.
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// It was ended, or did not run, because setup had written more than it may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filled_disk: bool,
    /// Processes of it were ended, because memory ran out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<OutOfMemory>,
    pub duration_ms: u64,
    /// What it printed, when it failed: its end, or for reports the first error and the end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// Hosts that it asked for and that setup may not reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Why hosts that it may reach gave it no answer, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<String>,
    /// What held a secret of setup when all commands had ended, in a file or in its name, and was removed; of the last
    /// command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purged: Vec<String>,
}

/// Where something may be left of what setup has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetupExtent {
    /// Everywhere; the workspace is given to the user of the sandbox.
    WholeImage,
    /// In the workspace and in the home folder.
    Folders,
}

impl SetupRun {
    /// It failed, or did not run.
    pub fn has_failed(&self) -> bool {
        self.exit_code != Some(0) || self.timed_out || self.filled_disk
    }

    /// How it ended, in a few words.
    pub fn verdict(&self) -> String {
        match (self.exit_code, self.timed_out) {
            (Some(_), _) if self.filled_disk => {
                "stopped: setup had written more than it may".to_owned()
            }
            (None, _) if self.filled_disk => {
                "not run: setup had written more than it may".to_owned()
            }
            (_, true) => "stopped: the time for setup was up".to_owned(),
            (Some(0), _) => "done".to_owned(),
            (Some(code), _) => {
                format!("failed with exit code {code}{}", memory(code, self.out_of_memory))
            }
            (None, _) => "not run: the time for setup was up".to_owned(),
        }
    }
}

/// Why processes of a command with this exit code were ended, behind a colon; empty when memory did not run out.
pub(crate) fn memory(exit_code: i32, ran_out: Option<OutOfMemory>) -> String {
    ran_out.map(|ran_out| format!(": {}", ran_out.words(exit_code))).unwrap_or_default()
}

/// Which setting lets setup reach what it could not; `None` when nothing was refused.
pub fn network_hint(refused: &[String], is_offline: bool) -> Option<String> {
    const SETTING: &str =
        "`network.setup-allow` in `--config`, `--setup-allow` or the input `setup-allow`";
    if !refused.is_empty() {
        let hosts: Vec<String> = refused.iter().take(5).map(|host| format!("`{host}`")).collect();
        let inner = if refused.iter().any(|host| host.contains('=')) {
            " (a name that leads to an address that is not public is allowed together with the address)"
        } else {
            ""
        };
        let hosts = hosts.join(", ");
        return Some(format!("setup may not reach {hosts}: allow it with {SETTING}{inner}"));
    }
    is_offline.then(|| format!("setup has no network: name the hosts that it needs with {SETTING}"))
}

/// What helps a command that got no answer from hosts that it may reach; `None` when there were none.
pub fn unreached_hint(unreached: &[String]) -> Option<String> {
    let first = unreached.first()?;
    let more = match unreached.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    Some(format!(
        "setup got no answer: {first}{more}; see whether this machine reaches it, over `HTTPS_PROXY` where it has a proxy"
    ))
}

/// Why there is no result.
pub(crate) enum Failed {
    /// The guest is gone or broken; who started it may know why.
    Guest(GuestError),
    /// A command failed that must not.
    Command(SandboxError),
    /// The disk was full: nothing of what the commands did can be kept.
    Full(Vec<SetupRun>),
}

impl From<GuestError> for Failed {
    fn from(err: GuestError) -> Failed {
        Failed::Guest(err)
    }
}

/// The variables of each command.
fn environment(secrets: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let usual = USUAL.map(|(name, value)| (name.to_owned(), value.to_owned()));
    usual.into_iter().chain(secrets.clone()).collect()
}

/// Runs the commands of `spec` in the tree, each with what is left of the time for all, and takes out again
/// what they did not make. `full` ends when they have written more than they may.
pub(crate) async fn run(
    client: &Client,
    spec: &ImageSpec<'_>,
    shell: &str,
    deadline: Instant,
    kept: SetupExtent,
    full: impl Future<Output = ()>,
) -> Result<Vec<SetupRun>, Failed> {
    let secrets: BTreeMap<String, String> = spec
        .setup_secrets
        .iter()
        .map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))
        .collect();
    let redactor = Redactor::new(parts(&secrets));
    if let Some(tree) = spec.tree {
        tree.upload(client).await?;
    }
    let mut runs: Vec<SetupRun> = Vec::new();
    let mut room = KEPT;
    let mut full = pin!(full);
    for command in spec.setup {
        let left = deadline.saturating_duration_since(Instant::now());
        if left < LEAST && !spec.setup_required && !runs.is_empty() {
            runs.push(SetupRun::default());
            continue;
        }
        let before = used(spec);
        let exec = Exec {
            // Not a login shell: /etc/profile would reset the PATH that the image sets for its
            // toolchain.
            argv: [shell, "-c", command].map(str::to_owned).to_vec(),
            cwd: None,
            env: environment(&secrets),
            timeout_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1),
            output_cap: OUTPUT,
        };
        let ended = tokio::select! {
            biased;
            ended = client.exec(exec) => ended?,
            () = &mut full => return Err(filled(spec, command, runs)),
        };
        let (refused, unreached) = unanswered(&before, used(spec));
        let mut ran = SetupRun {
            exit_code: Some(ended.exit_code),
            timed_out: ended.timed_out,
            duration_ms: ended.duration_ms,
            filled_disk: false,
            out_of_memory: ended.out_of_memory,
            output: String::new(),
            refused,
            unreached,
            purged: Vec::new(),
        };
        if ran.has_failed() {
            // It goes into a label of the image, too.
            ran.output = fitting(redactor.redact(&ended.output), &mut room);
        }
        if ran.has_failed() && spec.setup_required {
            return Err(Failed::Command(error(spec, command, ran)));
        }
        runs.push(ran);
    }
    if let Some(last) = runs.last_mut().filter(|_| !secrets.is_empty()) {
        let texts = written(&secrets);
        let purged = client.purge(kept == SetupExtent::WholeImage, texts.clone()).await?;
        last.purged = purged.into_iter().map(|path| without(&path, &texts, &redactor)).collect();
    }
    client.remove_base((kept == SetupExtent::WholeImage).then_some((USER, USER))).await?;
    Ok(runs)
}

/// A path that may have a secret in a name, in any of the ways in which secrets are written.
fn without(path: &str, texts: &[String], redactor: &Redactor) -> String {
    let path = texts.iter().fold(path.to_owned(), |path, text| path.replace(text, "***"));
    redactor.redact(&path)
}

/// What of the values is secret.
fn parts(secrets: &BTreeMap<String, String>) -> Vec<(String, SecretString)> {
    let mut parts = Vec::new();
    for (name, value) in secrets {
        let of_value = credentials::secret_parts(value).unwrap_or_else(|| vec![value.clone()]);
        parts.extend(of_value.into_iter().map(|part| (name.clone(), SecretString::from(part))));
    }
    parts
}

/// The secrets as files have them: as they are, as in addresses, and within texts in base64.
fn written(secrets: &BTreeMap<String, String>) -> Vec<String> {
    let mut texts = BTreeSet::new();
    for (_, part) in parts(secrets) {
        let part = part.expose_secret().trim();
        // Shorter ones are in many files that have nothing to do with them.
        if part.len() < SHORTEST {
            continue;
        }
        texts.insert(part.to_owned());
        texts.insert(url::form_urlencoded::byte_serialize(part.as_bytes()).collect());
        for shift in 0..3_usize {
            let mut shifted = vec![0; shift];
            shifted.extend(part.as_bytes());
            let encoded = STANDARD_NO_PAD.encode(&shifted);
            // The first and the last digits have bits of what stands around it.
            let (first, last) =
                ([0, 2, 3][shift], encoded.len() - usize::from(shifted.len() % 3 != 0));
            if let Some(inner) = encoded.get(first..last).filter(|inner| inner.len() >= SHORTEST) {
                texts.insert(inner.to_owned());
            }
        }
    }
    texts.into_iter().collect()
}

/// What became of each host so far.
fn used(spec: &ImageSpec<'_>) -> Vec<HostUse> {
    spec.setup_egress.iter().flat_map(|egress| egress.used()).collect()
}

/// What was asked in vain between the one look and the other: hosts that setup may not reach, as the setting that allows them
/// has them, and why others were not reached.
fn unanswered(before: &[HostUse], after: Vec<HostUse>) -> (Vec<String>, Vec<String>) {
    let known = |host: &str| before.iter().find(|it| it.host == host).map_or(0, |it| it.refused);
    let (mut refused, mut unreached) = (BTreeSet::new(), Vec::new());
    for host in after.into_iter().filter(|it| it.refused > known(&it.host)) {
        let reason = host.reason.as_deref().map(text::line);
        match entry(host) {
            Some(entry) => {
                refused.insert(entry);
            }
            None => unreached.extend(reason),
        }
    }
    unreached.dedup();
    unreached.truncate(MAX_UNREACHED);
    (refused.into_iter().collect(), unreached)
}

/// What has to be in the list, when it was refused for want of that.
fn entry(used: HostUse) -> Option<String> {
    let Some(address) = used.address else { return used.is_unlisted.then_some(used.host) };
    // Of the usual ports, none has to be written.
    let name = [":443", ":80"].iter().find_map(|port| used.host.strip_suffix(port));
    Some(format!("{}={address}", name.unwrap_or(&used.host)))
}

/// How many commands ran, for the description of what they left.
pub(crate) fn counted(runs: &[SetupRun]) -> String {
    let commands = if runs.len() == 1 { "setup command" } else { "setup commands" };
    match runs.iter().filter(|ran| ran.has_failed()).count() {
        0 => format!("{} {commands}", runs.len()),
        failed => format!("{} {commands}, {failed} failed", runs.len()),
    }
}

/// As much of an output as there is room for: its end.
fn fitting(output: String, room: &mut usize) -> String {
    let mut from = output.len().saturating_sub(*room);
    while !output.is_char_boundary(from) {
        from += 1;
    }
    *room -= output.len() - from;
    if from == 0 { output } else { output[from..].to_owned() }
}

/// How setup ends whose disk is full while this command runs.
fn filled(spec: &ImageSpec<'_>, command: &str, mut runs: Vec<SetupRun>) -> Failed {
    if spec.setup_required {
        let most = spec.setup_bytes >> 20;
        let message = format!("setup command `{command}` had written more than {most} MiB");
        return Failed::Command(SandboxError::DiskFull(message));
    }
    runs.push(SetupRun { exit_code: Some(137), filled_disk: true, ..SetupRun::default() });
    runs.resize(spec.setup.len(), SetupRun { filled_disk: true, ..SetupRun::default() });
    Failed::Full(runs)
}

/// How setup ends of which is seen only when all commands have ended that they wrote more than they may.
pub(crate) fn filled_by_last(spec: &ImageSpec<'_>, mut runs: Vec<SetupRun>) -> Failed {
    runs.pop();
    let command = spec.setup.get(runs.len()).map_or("", String::as_str);
    filled(spec, command, runs)
}

fn error(spec: &ImageSpec<'_>, command: &str, ran: SetupRun) -> SandboxError {
    let SetupRun { exit_code, timed_out, out_of_memory, output, refused, unreached, .. } = ran;
    let command = command.to_owned();
    if timed_out {
        return SandboxError::SetupTime { command, limit: spec.setup_timeout, output };
    }
    let (exit_code, is_offline) = (exit_code.unwrap_or_default(), spec.setup_hosts.is_empty());
    SandboxError::Setup {
        command,
        exit_code,
        out_of_memory,
        output,
        refused,
        unreached,
        is_offline,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_was_refused_is_named_as_the_setting_has_it() {
        let used = |host: &str, is_unlisted, address: Option<&str>| HostUse {
            host: host.to_owned(),
            refused: 1,
            is_unlisted,
            address: address.map(|address| address.parse().unwrap()),
            ..HostUse::default()
        };
        for (used, expected) in [
            (used("pypi.org:443", true, None), Some("pypi.org:443")),
            (used("pypi.org:443", false, Some("10.0.0.5")), Some("pypi.org=10.0.0.5")),
            (used("pypi.org:8443", false, Some("10.0.0.5")), Some("pypi.org:8443=10.0.0.5")),
            (used("pypi.org:443", false, None), None),
        ] {
            assert_eq!(entry(used).as_deref(), expected);
        }
        let hint = network_hint(&["pypi.org=10.0.0.5".to_owned()], false).unwrap();
        assert!(
            hint.starts_with("setup may not reach `pypi.org=10.0.0.5`: allow it with"),
            "{hint}"
        );
        assert!(hint.ends_with("is allowed together with the address)"), "{hint}");
    }

    #[test]
    fn a_host_that_gave_no_answer_is_told_of_the_command_that_asked_it() {
        let used = |host: &str, refused, is_unlisted| HostUse {
            host: host.to_owned(),
            refused,
            is_unlisted,
            reason: Some(format!("`{host}` cannot be found:\nno such name")),
            ..HostUse::default()
        };
        let before = [used("a:443", 2, false), used("b:443", 1, false)];
        let after = [used("a:443", 3, false), used("b:443", 1, false), used("c:443", 1, true)];
        let (refused, found) = unanswered(&before, after.to_vec());
        assert_eq!(refused, ["c:443"]);
        assert_eq!(found, ["`a:443` cannot be found: no such name"]);
        // Each command that asks in vain has it.
        let again = [used("c:443", 2, true)];
        assert_eq!(unanswered(&after, again.to_vec()).0, ["c:443"]);
        let hint = unreached_hint(&found).unwrap();
        assert!(hint.starts_with("setup got no answer: `a:443` cannot be found"), "{hint}");
        assert_eq!(unreached_hint(&[]), None);
    }
}
