//! Secrets in what goes out: our own in any form (`secret.own`), and keys of well-known services
//! (`secret.aws-access-key`, …), which would have to be revoked the moment they are published.
//!
//! Keys of others count only in added lines and outside the operator's allow-listed paths. The
//! formats are those that the vendors document for their secret scanning; what is made to be an
//! example (few different characters, `EXAMPLE`, `xxxx`) is not a key.

use std::sync::OnceLock;

use regex::Regex;

use super::content::AddedLines;
use super::{Blobs, Outbound, Unread, Violation};
use patchwright_base::redact::Redactor;
use patchwright_git::tree::{FileChange, Mode};

/// One key format.
#[derive(Clone, Copy, Debug)]
pub struct KeyFormat {
    /// The part of the rule id after `secret.`.
    pub id: &'static str,
    /// A literal that every match contains; texts without it are not searched.
    keyword: &'static str,
    /// The whole match, or its first group, is the key.
    pattern: &'static str,
}

const fn key(id: &'static str, keyword: &'static str, pattern: &'static str) -> KeyFormat {
    KeyFormat { id, keyword, pattern }
}

/// The known key formats.
pub const KEY_FORMATS: &[KeyFormat] = &[
    key("aws-access-key", "A", r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b"),
    key(
        "aws-secret-key",
        "aws",
        r#"(?i)aws[\w.-]{0,20}secret[\w.-]{0,20}['"]?\s*[:=]\s*['"]?([A-Za-z0-9/+]{40})\b"#,
    ),
    key("github-token", "gh", r"\b(gh[pousr]_[A-Za-z0-9]{36,251})\b"),
    key("github-pat", "github_pat_", r"\b(github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b"),
    key("gitlab-token", "gl", r"\b(gl(?:pat|ptt|rt|dt|ft|soat|agent|cbt)-[A-Za-z0-9_.-]{20,})"),
    key("openai-key", "T3BlbkFJ", r"\b(sk-[A-Za-z0-9_-]{20,}T3BlbkFJ[A-Za-z0-9_-]{20,})"),
    key("openai-project-key", "sk-", r"\b(sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,})"),
    key("anthropic-key", "sk-ant-", r"\b(sk-ant-[a-z0-9]{3,12}-[A-Za-z0-9_-]{80,})"),
    key("openrouter-key", "sk-or-", r"\b(sk-or-v1-[0-9a-f]{64})\b"),
    key("google-api-key", "AIza", r"\b(AIza[A-Za-z0-9_-]{35})"),
    key("google-oauth-secret", "GOCSPX-", r"\b(GOCSPX-[A-Za-z0-9_-]{28})"),
    key("google-oauth-token", "ya29.", r"\b(ya29\.[A-Za-z0-9_-]{30,})"),
    key("slack-token", "xox", r"\b(xox[abeprs]-(?:[0-9A-Za-z]+-){1,4}[A-Za-z0-9]{16,})\b"),
    key("slack-app-token", "xapp-", r"\b(xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{32,})\b"),
    key(
        "slack-webhook",
        "hooks.slack.com",
        r"(https://hooks\.slack\.com/(?:services|workflows)/T[A-Za-z0-9]+/[A-Za-z0-9/]{20,})",
    ),
    key(
        "discord-webhook",
        "/api/webhooks/",
        r"(https://discord(?:app)?\.com/api/webhooks/\d{17,20}/[A-Za-z0-9_-]{60,})",
    ),
    key("telegram-token", ":AA", r"\b(\d{8,10}:AA[A-Za-z0-9_-]{33})\b"),
    key("stripe-key", "_live_", r"\b((?:sk|rk)_live_[A-Za-z0-9]{24,})\b"),
    key("stripe-webhook", "whsec_", r"\b(whsec_[A-Za-z0-9+/]{32,})"),
    key("npm-token", "npm_", r"\b(npm_[A-Za-z0-9]{36})\b"),
    key("pypi-token", "pypi-", r"\b(pypi-AgE[A-Za-z0-9_-]{60,})"),
    key("crates-token", "cio", r"\b(cio[A-Za-z0-9]{32})\b"),
    key("rubygems-token", "rubygems_", r"\b(rubygems_[0-9a-f]{48})\b"),
    key("docker-token", "dckr_", r"\b(dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,})"),
    key("sendgrid-key", "SG.", r"\b(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})"),
    key("mailgun-key", "key-", r"\b(key-[0-9a-f]{32})\b"),
    key("twilio-key", "SK", r"\b(SK[0-9a-f]{32})\b"),
    key("shopify-token", "shp", r"\b(shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32})\b"),
    key("digitalocean-token", "_v1_", r"\b(do[opr]_v1_[0-9a-f]{64})\b"),
    key("huggingface-token", "hf_", r"\b(hf_[A-Za-z0-9]{34,})\b"),
    key("databricks-token", "dapi", r"\b(dapi[0-9a-f]{32}(?:-\d)?)\b"),
    key("atlassian-token", "ATATT3", r"\b(ATATT3[A-Za-z0-9_=-]{180,})"),
    key("linear-key", "lin_api_", r"\b(lin_api_[A-Za-z0-9]{40})\b"),
    key("vault-token", "hvs.", r"\b(hvs\.[A-Za-z0-9_-]{90,})"),
    key("age-key", "AGE-SECRET-KEY-", r"(AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58})"),
    key("azure-storage-key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    key("azure-client-secret", "Q~", r"\b([A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34})\b"),
    key(
        "google-service-account",
        "private_key",
        r#""private_key"\s*:\s*"-----BEGIN PRIVATE KEY-----(\\n[A-Za-z0-9+/=\\]{60,})"#,
    ),
    key(
        "private-key",
        "PRIVATE KEY",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----[\s\\n]+(?:[A-Za-z-]+: [^\n]*\n)*\s*([A-Za-z0-9+/=]{40,})",
    ),
    key("jwt", "eyJ", r"\b(eyJ[A-Za-z0-9_-]{14,}\.eyJ[A-Za-z0-9_-]{14,}\.[A-Za-z0-9_-]{27,})"),
    key(
        "url-password",
        "://",
        r"\b(?:https?|ftp|postgres(?:ql)?|mysql|mongodb(?:\+srv)?|redis|amqps?)://[^\s:/@'\x22<>{}$]{1,64}:([^\s:/@'\x22<>{}$]{12,})@",
    ),
];

/// Rule id: one of our own secrets.
pub const OWN: &str = "secret.own";
/// Rule id: the content could not be searched for our own secrets.
pub const UNSEARCHED: &str = "secret.unsearched";

/// Our own secrets anywhere in the new contents of a file, whatever its size.
pub(super) fn check_own(
    file: &FileChange,
    blobs: &dyn Blobs,
    redactor: &Redactor,
) -> Option<Violation> {
    let new = file.new.filter(|new| new.mode != Mode::Gitlink)?;
    // Only the mode or the path changed. The content was published before.
    if file.old.is_some_and(|old| old.oid == new.oid) {
        return None;
    }
    let (rule, message) = match redactor.first_in(&|take| blobs.stream(new.oid, take)) {
        Ok(None) => return None,
        Ok(Some(hit)) => {
            (OWN, format!("line {} contains `{}` ({})", hit.line, hit.secret, hit.encoding))
        }
        Err(Unread) => (UNSEARCHED, "cannot be read to look for our own secrets in it".to_owned()),
    };
    Some(Violation::new(rule, Some(file.path.clone()), message))
}

/// Other people's keys in the added lines.
pub(super) fn check_added(path: &str, added: &AddedLines, out: &mut Vec<Violation>) {
    let mut text = String::new();
    let mut starts = Vec::new();
    // Joined, because some keys span lines: a private key begins with a line that holds no secret.
    for (number, line) in &added.lines {
        starts.push((text.len(), *number));
        text.push_str(line);
        text.push('\n');
    }
    for (format, offset) in find_keys(&text) {
        let after = starts.partition_point(|(start, _)| *start <= offset);
        let line = after.checked_sub(1).and_then(|at| starts.get(at)).map_or(1, |s| s.1);
        let message = format!("line {line} has the form of a {}", format.id);
        let rule = format!("secret.{}", format.id);
        out.push(Violation::new(rule, Some(path.to_owned()), message));
    }
}

/// Everything published besides the blobs: names of files, and the texts in `outbound`.
pub(super) fn check_outbound(
    files: &[FileChange],
    redactor: &Redactor,
    outbound: &[Outbound<'_>],
    out: &mut Vec<Violation>,
) {
    let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let names = names.join("\n");
    for (what, text) in [("name of a file", names.as_str())].iter().chain(outbound) {
        if let Some(hit) = redactor.scan(text.as_bytes()).first() {
            let message = format!("the {what} contains `{}` ({})", hit.secret, hit.encoding);
            out.push(Violation::new(OWN, None, message));
        }
        for (format, _) in find_keys(text) {
            let message = format!("the {what} has the form of a {}", format.id);
            out.push(Violation::new(format!("secret.{}", format.id), None, message));
        }
    }
}

/// The first key of each format, with its offset.
pub fn find_keys(text: &str) -> Vec<(&'static KeyFormat, usize)> {
    static COMPILED: [OnceLock<Option<Regex>>; KEY_FORMATS.len()] =
        [const { OnceLock::new() }; KEY_FORMATS.len()];
    let mut found = Vec::new();
    for (format, compiled) in KEY_FORMATS.iter().zip(&COMPILED) {
        // A substring search is far cheaper than 40 regular expressions on each text.
        if !text.contains(format.keyword) {
            continue;
        }
        let Some(regex) = compiled.get_or_init(|| Regex::new(format.pattern).ok()) else {
            continue;
        };
        let keys = regex.captures_iter(text).filter_map(|captures| captures.get(1));
        if let Some(key) = keys.into_iter().find(|key| !is_placeholder(key.as_str())) {
            found.push((format, key.start()));
        }
    }
    found
}

/// Made to be shown: says so, repeats itself, or counts.
fn is_placeholder(key: &str) -> bool {
    const WORDS: &[&str] =
        &["example", "xxxx", "....", "placeholder", "redacted", "changeme", "your", "dummy"];
    const RUNS: &[&str] = &["0123456789", "1234567890", "abcdefghij", "ABCDEFGHIJ", "qwertyuiop"];
    let lower = key.to_ascii_lowercase();
    // The fixed prefix of a format would raise the entropy of `ghp_aaaa…`.
    let body = key.rsplit_once(['_', '-']).map_or(key, |(_, body)| body);
    let body = if body.len() < 12 { key } else { body };
    WORDS.iter().any(|word| lower.contains(word))
        || RUNS.iter().any(|run| key.contains(run))
        || entropy(body) < 2.5
}

/// Shannon entropy in bits per character.
fn entropy(text: &str) -> f64 {
    let mut counts = [0u32; 256];
    text.bytes().for_each(|b| counts[usize::from(b)] += 1);
    let total = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    let part = |count: u32| f64::from(count) / total;
    counts.iter().filter(|c| **c > 0).map(|c| -part(*c) * part(*c).log2()).sum()
}
