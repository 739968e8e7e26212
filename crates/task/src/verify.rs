//! The repository's own checks, before and after. The rows of the evidence table come from here:
//! exit codes that the harness recorded, never what a model says about them.
//!
//! [`detect`] guesses the commands from the repository's kind when nobody configured them, [`run`]
//! runs them in a sandbox, [`compare`] puts base and head side by side. Nothing here decides what a
//! failing check means for the outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use patchwright_base::text;
use patchwright_guest::protocol::Exec;
use patchwright_sandbox::client::{Client, GuestError};
use patchwright_types::evidence::CheckRun;
use patchwright_types::evidence::Evidence;
use patchwright_types::evidence::EvidenceRow;

/// Bytes of a check's output that are kept, and lines.
const TAIL_BYTES: usize = 6 << 10;
const TAIL_LINES: usize = 80;
/// What the shell says when there is no such program.
const COMMAND_NOT_FOUND: i32 = 127;

/// The check commands of a repository, from the names in its root folder, files and folders. Empty when
/// unknown. `read` gives the content of a file.
pub fn detect(names: &[String], read: &dyn Fn(&str) -> Option<Vec<u8>>) -> Vec<String> {
    patchwright_ecosystems::checks::by_kind(names, read)
}

/// Runs the commands one after the other with `sh -lc`, each at most `timeout` long. A command that
/// cannot be run, or a sandbox that dies, is a row with a note, not an error.
pub async fn run(client: &Client, commands: &[String], timeout: Duration) -> Vec<CheckRun> {
    let mut runs = Vec::new();
    let mut gone = None;
    for command in commands {
        if let Some(why) = &gone {
            runs.push(CheckRun::not_run(command, why));
            continue;
        }
        match client.exec(exec(command, timeout)).await {
            Ok(output) => runs.push(CheckRun {
                command: command.clone(),
                exit_code: Some(output.exit_code),
                timed_out: output.timed_out,
                duration_ms: output.duration_ms,
                tail: tail(&output.output),
                note: note(output.exit_code, output.timed_out, timeout),
            }),
            Err(error) => {
                let why = text::line(&error.to_string());
                if matches!(error, GuestError::Gone(_) | GuestError::Protocol(_)) {
                    gone = Some(format!("not run: {why}"));
                }
                runs.push(CheckRun::not_run(command, why));
            }
        }
    }
    runs
}

fn exec(command: &str, timeout: Duration) -> Exec {
    Exec {
        argv: vec!["sh".to_owned(), "-lc".to_owned(), command.to_owned()],
        cwd: None,
        env: BTreeMap::from([("CI".to_owned(), "true".to_owned())]),
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        output_cap: 64 << 10,
    }
}

fn note(exit_code: i32, timed_out: bool, timeout: Duration) -> Option<String> {
    match exit_code {
        _ if timed_out => Some(format!("stopped after {} s", timeout.as_secs())),
        COMMAND_NOT_FOUND => Some("command not found in the image".to_owned()),
        126 => Some("not executable".to_owned()),
        137 => Some("killed, perhaps for want of memory".to_owned()),
        _ => None,
    }
}

/// The end of an output: colours removed, control characters visible, bounded.
pub fn tail(output: &str) -> String {
    let clean = text::visible(&text::without_ansi(output));
    let clean = clean.trim_end();
    let start = clean.rmatch_indices('\n').nth(TAIL_LINES - 1).map_or(0, |(at, _)| at + 1);
    let mut from = start.max(clean.len().saturating_sub(TAIL_BYTES));
    while !clean.is_char_boundary(from) {
        from += 1;
    }
    match from {
        0 => clean.to_owned(),
        cut => format!("[{} earlier bytes left out]\n{}", cut, &clean[cut..]),
    }
}

/// Base and head side by side, in the order of head; what ran only on base comes last.
pub fn compare(base: Vec<CheckRun>, head: Vec<CheckRun>, source: impl Into<String>) -> Evidence {
    let mut base: Vec<Option<CheckRun>> = base.into_iter().map(Some).collect();
    let mut rows = Vec::new();
    for run in head {
        let same = |slot: &&mut Option<CheckRun>| {
            slot.as_ref().is_some_and(|before| before.command == run.command)
        };
        let before = base.iter_mut().find(same).and_then(Option::take);
        rows.push(EvidenceRow { command: run.command.clone(), base: before, head: Some(run) });
    }
    for run in base.into_iter().flatten() {
        rows.push(EvidenceRow { command: run.command.clone(), base: Some(run), head: None });
    }
    Evidence { rows, source: source.into() }
}

/// The checks that failed before and still do, as far as a change can help: not those whose program is
/// missing, or that never end.
pub fn still_failing(evidence: &Evidence) -> Vec<&EvidenceRow> {
    let failed = |run: &CheckRun| {
        let code = run.exit_code.filter(|code| *code != 0 && *code != COMMAND_NOT_FOUND);
        code.is_some() && !run.timed_out
    };
    let still = |row: &&EvidenceRow| {
        row.head.as_ref().is_some_and(failed) && row.base.as_ref().is_some_and(failed)
    };
    evidence.rows.iter().filter(still).collect()
}
