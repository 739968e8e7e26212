//! A key that a command of the operator prints: a password manager, a secret store, a broker of short-lived
//! tokens. It runs on the host, outside of any sandbox, and only operators can name one.
//!
//! It prints the key alone, or JSON with `key`, `token` or `access_token` and, where the key ends,
//! `expires_in` (seconds) or `expires_at` (a time).

use std::process::Stdio;
use std::time::Duration;

use chrono::{DateTime, Utc};
use secrecy::SecretString;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use super::{Credential, IssuedCredential, now, refused};
use crate::wire::fault::Fault;
use patchwright_base::env::Env;
use patchwright_base::redact;

/// How long a command may take when nobody says.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that it may print.
const MOST: usize = 64 << 10;

/// Characters of what it says when it fails.
const SAID: usize = 300;

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

/// What a program prints. It has the environment without Patchwright's own secrets, no input, and is killed
/// when it takes too long.
#[expect(clippy::disallowed_methods, reason = "the operator's own program, outside of any sandbox")]
pub(super) async fn run(command: &[String], limit: Duration, env: &Env) -> Result<String, Fault> {
    let Some((program, args)) = command.split_first() else { return Err(refused("it is empty")) };
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .envs(env.for_key_commands())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|err| refused(format!("it cannot be started: {err}")))?;
    let (printed, said) = (child.stdout.take(), child.stderr.take());
    let ended =
        timeout(limit, async { tokio::join!(bounded(printed), bounded(said), child.wait()) });
    let Ok((printed, said, status)) = ended.await else {
        // The rest of the bytes is of no interest, and dropping the child kills it.
        return Err(refused(format!("it did not end within {} s", limit.as_secs_f64())));
    };
    // First: nobody reads the rest, so writing it fails and the command with it.
    if printed.len() > MOST {
        return Err(refused("it printed too much"));
    }
    let status = status.map_err(|err| refused(format!("it cannot be waited for: {err}")))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&said);
        let said: String = said.trim().chars().take(SAID).collect();
        return Err(refused(format!("it failed ({status}): {said}")));
    }
    String::from_utf8(printed).map_err(|_| refused("it printed something else than text"))
}

/// The first bytes of a stream, one more than may be.
async fn bounded(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // After a read error the bytes that were read so far are used.
        let _ = stream.take(MOST as u64 + 1).read_to_end(&mut bytes).await;
    }
    bytes
}
