//! A key that a command of the operator prints: a password manager, a secret store, a broker of short-lived
//! tokens. It runs on the host, outside of any sandbox, and only operators can name one.
//!
//! It prints the key alone, or JSON with `key`, `token` or `access_token` and, where the key ends,
//! `expires_in` (seconds) or `expires_at` (a time).

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::SecretString;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{Credential, IssuedCredential, now, refused};
use crate::wire::fault::Fault;
use patchwright_base::env::Env;
use patchwright_base::redact;

/// How long a command may take when nobody says.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that it may print.
const MOST: usize = 64 << 10;

/// How long what it printed is waited for once it has ended: a process that it left behind may keep the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What to check when its key is refused.
pub(super) const HINT: &str = "run the `key-command` of the configuration by hand: it has to print a key that is \
     valid for this endpoint, and nothing else";

/// The command, and how long its keys are used.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyCommand {
    pub argv: Vec<String>,
    pub timeout: Option<Duration>,
    /// For keys that do not say it themselves; `None`: until one is refused.
    pub ttl: Option<Duration>,
}

/// What it prints, when that is JSON.
#[derive(Deserialize)]
struct CommandOutput {
    #[serde(alias = "token", alias = "access_token", alias = "accessToken")]
    key: String,
    #[serde(default)]
    expires_in: Option<u64>,
    #[serde(default, alias = "expiration", alias = "expiresOn")]
    expires_at: Option<DateTime<Utc>>,
}

impl KeyCommand {
    pub(super) fn name(&self) -> String {
        // The arguments may say where a secret lies; the program is enough to know which one it is.
        format!(
            "the key that `{}` prints (`key-command`)",
            self.argv.first().map_or("", String::as_str)
        )
    }

    pub(super) async fn fetch(&self, env: &Env) -> Result<IssuedCredential, Fault> {
        let text = run(&self.argv, self.timeout.unwrap_or(PATIENCE), env).await?;
        let text = text.trim();
        let (key, until) = if text.starts_with('{') {
            let printed: CommandOutput = serde_json::from_str(text)
                .map_err(|_| refused("it printed JSON without `key`, `token` or `access_token`"))?;
            let until = printed.expires_in.map(|it| now() + Duration::from_secs(it.min(1 << 30)));
            (printed.key.trim().to_owned(), until.or(printed.expires_at))
        } else {
            (text.to_owned(), None)
        };
        if key.is_empty() {
            return Err(refused("it printed nothing"));
        }
        if key.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(refused("it printed more than a key"));
        }
        let key = SecretString::from(key);
        redact::learn("the key of `key-command`", &key);
        let until = until.or_else(|| Some(now() + self.ttl?));
        Ok(IssuedCredential::new(Credential::Token(key), until))
    }
}

/// What a program prints. It has the environment without Patchwright's own secrets, no input, and is killed, with what it
/// has started, when it takes too long. What it says on its standard error is shown nowhere: a secret may be in it.
#[expect(clippy::disallowed_methods, reason = "the operator's own program, outside of any sandbox")]
pub(super) async fn run(command: &[String], limit: Duration, env: &Env) -> Result<String, Fault> {
    let Some((program, args)) = command.split_first() else { return Err(refused("it is empty")) };
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .envs(env.for_key_commands())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|err| refused(format!("it cannot be started: {err}")))?;
    let group = ProcessGroup::of(&child);
    let mut printed = Vec::new();
    let ended = timeout(limit, ended(&mut child, &mut printed)).await;
    let Ok(status) = ended else {
        // The rest of the bytes is of no interest.
        drop(group);
        return Err(refused(format!("it did not end within {} s", limit.as_secs_f64())));
    };
    // First: nobody reads the rest, so writing it fails and the command with it.
    if printed.len() > MOST {
        return Err(refused("it printed too much"));
    }
    let status = status.map_err(|err| refused(format!("it cannot be waited for: {err}")))?;
    group.stays();
    if !status.success() {
        return Err(refused(format!("it failed ({status})")));
    }
    String::from_utf8(printed).map_err(|_| refused("it printed something else than text"))
}

/// Waits until it has ended, with what it printed before in `printed`, but for more than it may print.
async fn ended(child: &mut Child, printed: &mut Vec<u8>) -> std::io::Result<ExitStatus> {
    let Some(stdout) = child.stdout.take() else { return child.wait().await };
    let reading = async {
        // One more than may be. After a read error the bytes that were read so far are used.
        let _ = stdout.take(MOST as u64 + 1).read_to_end(printed).await;
    };
    tokio::pin!(reading);
    tokio::select! {
        () = &mut reading => child.wait().await,
        status = child.wait() => {
            let _ = timeout(LAST_WORDS, reading).await;
            status
        }
    }
}

/// A program with what it has started, which is killed together.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(child: &Child) -> ProcessGroup {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        ProcessGroup(id.and_then(Pid::from_raw))
    }

    /// It has ended by itself: what it left running, for example an agent that keeps passwords, may go on.
    fn stays(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
