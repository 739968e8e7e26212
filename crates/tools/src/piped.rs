//! Commands of the operator that run in the sandbox beside calls: what they read is given to them, what
//! they print is bounded.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use patchwright_guest::protocol::Exec;
use patchwright_guest::tool::{CommandOutput, ToolError};
use patchwright_sandbox::client::{Client, GRACE, GuestError};

/// A command and what surrounds it.
pub struct Spec<'a> {
    /// For the sandbox's shell.
    pub command: &'a str,
    pub stdin: &'a [u8],
    pub env: BTreeMap<String, String>,
    pub timeout: Duration,
    /// Most bytes of standard output; a command that prints more is ended.
    pub stdout_cap: usize,
    /// Bytes of standard error to keep, head and tail.
    pub stderr_cap: usize,
}

/// A command that came to its end.
#[derive(Debug)]
pub struct Piped {
    pub stdout: Vec<u8>,
    /// How it ended; `output` is its standard error.
    pub command: CommandOutput,
}

/// Runs a command to its end. Dropping the future ends the command with everything that it started.
///
/// # Errors
/// `Tell` when it could not be started, took too long or printed too much; `Broken` when the sandbox is
/// gone.
pub async fn run(client: &Client, spec: Spec<'_>) -> Result<Piped, ToolError> {
    let shell = client.hello().shell.clone();
    let exec = Exec {
        argv: vec![shell, "-c".to_owned(), spec.command.to_owned()],
        cwd: None,
        env: spec.env,
        timeout_ms: u64::try_from(spec.timeout.as_millis()).unwrap_or(u64::MAX),
        output_cap: spec.stderr_cap,
    };
    let mut pipe = client.pipe(exec).await.map_err(failed)?;
    let mut stdout = Vec::new();
    let mut early = None;
    let whole = async {
        let (stdin, ended) = (&mut pipe.stdin, &mut pipe.ended);
        let feed = async {
            // A command that does not read has closed its end, which is its right.
            if stdin.write_all(spec.stdin).await.is_ok() {
                let _ = stdin.shutdown().await;
            }
        };
        let feed = async {
            tokio::select! {
                () = feed => {}
                ended = &mut *ended => early = Some(ended),
            }
        };
        let mut source = (&mut pipe.stdout).take(spec.stdout_cap as u64 + 1);
        // A stream that breaks has an end too, and `ended` says why.
        let drain = async { source.read_to_end(&mut stdout).await.unwrap_or_default() };
        let ((), _) = tokio::join!(feed, drain);
        if stdout.len() > spec.stdout_cap {
            return None;
        }
        Some(match early {
            Some(ended) => ended,
            None => ended.await,
        })
    };
    let ended = tokio::time::timeout(spec.timeout.saturating_add(GRACE), whole).await;
    let late = |_| ToolError::tell(format!("it did not end within {:?}", spec.timeout));
    let Some(ended) = ended.map_err(late)? else {
        return Err(ToolError::tell(format!("it printed more than {} bytes", spec.stdout_cap)));
    };
    let command = ended.map_err(|err| ToolError::Broken(err.to_string()))?.map_err(failed)?;
    Ok(Piped { stdout, command })
}

fn failed(err: GuestError) -> ToolError {
    match err {
        GuestError::Failed(why) => ToolError::Tell(why),
        other => ToolError::Broken(other.to_string()),
    }
}
