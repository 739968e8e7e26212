//! The repository's own checks, before and after. The rows of the evidence table come from here:
//! exit codes that the harness recorded and what the test runners wrote, never what a model says.
//!
//! [`run`] runs the commands in a sandbox, [`compare`] puts base and head side by side, test by test
//! where that is possible. Nothing here decides what a failing check means for the outcome.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use patchwright_base::text;
use patchwright_ecosystems::results::{self, Report};
use patchwright_ecosystems::setup::absent_packages;
use patchwright_guest::protocol::{Exec, MAX_OUTPUT_CAP};
use patchwright_guest::tool::{CommandOutput, KILLED};
use patchwright_sandbox::client::{Client, GuestError};
use patchwright_tools::piped;
use patchwright_types::evidence::{CheckRun, Evidence, EvidenceRow};

/// Bytes of a check's output that are kept.
const TAIL_BYTES: usize = 6 << 10;
/// Bytes of a report that are read, and how long that may take.
const REPORT_BYTES: usize = 16 << 20;
const REPORT_TIMEOUT: Duration = Duration::from_mins(1);
/// Tests that are kept by name, and bytes of their names.
const MAX_TESTS: usize = 5_000;
const MAX_TEST_BYTES: usize = 400 << 10;
/// What the shell says when there is no such program, and when it may not be run.
const COMMAND_NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;
/// Less than this is not worth the start of a check.
pub const LEAST_TIME: Duration = Duration::from_secs(1);

/// A check that is to be run.
#[derive(Clone, Debug)]
pub struct PlannedCheck {
    pub command: String,
    pub timeout: Duration,
    /// Why it has less time than others.
    pub why_short: Option<&'static str>,
    /// How long it took before the change, where it came to its end then.
    pub before: Option<Duration>,
    /// Where its runner can leave a report outside of the workspace.
    pub report: Option<Report>,
    /// The same with what makes its runner go on behind a failure.
    pub whole: Option<String>,
    /// In the local sandbox, whose programs are those of the machine.
    pub is_local: bool,
    /// Why setup failed, where nothing is known of the check but that it could not be run before.
    pub setup_failed: Option<String>,
}

/// Runs the commands one after the other with `sh -lc`, each at most its own time and all of them at most
/// `share` long. A command that cannot be run, or a sandbox that dies, is a row with a note, not an error; of the latter
/// the check that ran then and those after it are marked.
pub async fn run(client: &Client, planned: &[PlannedCheck], share: Duration) -> Vec<CheckRun> {
    let mut runs = Vec::new();
    let mut gone = None;
    let mut left = share;
    for check in planned {
        let timeout = check.timeout.min(left);
        if let Some(why) = &gone {
            let run = CheckRun::not_run(&check.command, why);
            runs.push(CheckRun { sandbox_lost: true, ..run });
            continue;
        }
        if timeout < LEAST_TIME {
            runs.push(CheckRun::not_run(&check.command, out_of_time(share)));
            continue;
        }
        // What an earlier check or setup left there would be taken for what this one says.
        let report = match &check.report {
            Some(report) if is_free(client, report).await => Some(report),
            Some(_) | None => None,
        };
        let whole = check.whole.as_ref().unwrap_or(&check.command);
        let command = report.map_or(whole, |report| &report.command);
        let began = Instant::now();
        match client.exec(exec(command, timeout)).await {
            Ok(output) if output.timed_out && is_cut_off(check, left) => {
                left = left.saturating_sub(Duration::from_millis(output.duration_ms));
                runs.push(cut_off(check, timeout, &output));
            }
            Ok(output) => {
                left = left.saturating_sub(Duration::from_millis(output.duration_ms));
                let report = match report {
                    Some(report) => read(client, report).await,
                    None => None,
                };
                runs.push(of_output(check, timeout, output, report).await);
            }
            Err(error) => {
                let why = text::line(&error.to_string());
                let sandbox_lost = matches!(
                    error,
                    GuestError::Gone(_) | GuestError::Protocol(_) | GuestError::Words(_)
                );
                if sandbox_lost {
                    gone = Some(format!("not run: {why}"));
                }
                let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                let run = CheckRun::not_run(&check.command, why);
                runs.push(CheckRun { sandbox_lost, duration_ms, ..run });
            }
        }
    }
    runs
}

/// With so little time left it may not have come to its end whatever the code is like.
fn is_cut_off(check: &PlannedCheck, left: Duration) -> bool {
    left < check.timeout && check.before.is_none_or(|before| left < before.saturating_mul(2))
}

/// Its exit code says nothing about the code.
fn cut_off(check: &PlannedCheck, timeout: Duration, output: &CommandOutput) -> CheckRun {
    let note = format!("stopped after {} s, all that was left for checks", timeout.as_secs());
    let tail = results::digest(&output.output, TAIL_BYTES);
    let run = CheckRun::not_run(&check.command, note);
    CheckRun { duration_ms: output.duration_ms, tail, ..run }
}

fn out_of_time(share: Duration) -> String {
    format!("not run: the {} s that checks may take at a time are used up", share.as_secs())
}

/// Tests of colours and of editors fail with them, and no CI sets them.
const NOT_IN_CI: &str = "NO_COLOR EDITOR GIT_EDITOR GIT_SEQUENCE_EDITOR VISUAL";

fn exec(command: &str, timeout: Duration) -> Exec {
    Exec {
        argv: vec!["sh".to_owned(), "-lc".to_owned(), format!("unset {NOT_IN_CI}; {command}")],
        cwd: None,
        env: BTreeMap::from([("CI".to_owned(), "true".to_owned())]),
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        output_cap: MAX_OUTPUT_CAP,
    }
}

/// Nothing is where a check is to leave its report, or no longer.
async fn is_free(client: &Client, report: &Report) -> bool {
    let spec = piped::Spec {
        command: &format!("rm -rf -- {}", report.path),
        env: BTreeMap::new(),
        stdin: &[],
        timeout: REPORT_TIMEOUT,
        stdout_cap: 1 << 10,
        stderr_cap: 1 << 10,
    };
    piped::run(client, spec).await.is_ok_and(|removed| removed.command.exit_code == 0)
}

/// The report of a check. Without one the output speaks.
async fn read(client: &Client, report: &Report) -> Option<String> {
    let spec = piped::Spec {
        command: &format!("cat {}", report.path),
        env: BTreeMap::new(),
        stdin: &[],
        timeout: REPORT_TIMEOUT,
        stdout_cap: REPORT_BYTES,
        stderr_cap: 1 << 10,
    };
    let read = piped::run(client, spec).await.ok()?;
    (read.command.exit_code == 0).then(|| String::from_utf8_lossy(&read.stdout).into_owned())
}

async fn of_output(
    check: &PlannedCheck,
    timeout: Duration,
    output: CommandOutput,
    report: Option<String>,
) -> CheckRun {
    let hint = results::runner_of(&check.command);
    let is_told_to_stop = results::is_told_to_stop(&check.command);
    let memory =
        output.memory_words().map(|words| format!("{words}; `container.memory` is the limit"));
    let CommandOutput { exit_code, timed_out, duration_ms, output, omitted_bytes, .. } = output;
    let parsing = move || {
        let files: Vec<&str> = report.iter().map(String::as_str).collect();
        let mut tests = results::parse(hint, &output, &files);
        tests.truncated |= omitted_bytes > 0 && files.is_empty();
        tests.stopped_early |= is_told_to_stop && tests.counts.bad() > 0;
        let tests = tests.bounded(MAX_TESTS, MAX_TEST_BYTES);
        (tests, results::digest(&output, TAIL_BYTES))
    };
    let (tests, tail) = tokio::task::spawn_blocking(parsing).await.unwrap_or_default();
    let tests = Some(tests).filter(|tests| !tests.is_empty());
    let is_judged = timed_out || exit_code == 0 || tests.is_some();
    let missing = || {
        what_is_missing(exit_code, &tail, check.is_local)
            .or_else(|| without_packages(&tail, check.setup_failed.as_deref()?))
    };
    let missing = if is_judged { None } else { missing() };
    let note = match exit_code {
        _ if timed_out => Some(stopped(timeout, check.why_short)),
        0 => missing.clone(),
        _ if memory.is_some() => memory,
        KILLED => Some("killed, perhaps for want of memory".to_owned()),
        _ => missing.clone(),
    };
    CheckRun {
        command: check.command.clone(),
        exit_code: Some(exit_code),
        timed_out,
        duration_ms,
        tail,
        note,
        unrunnable: missing.is_some(),
        sandbox_lost: false,
        tests,
        again: None,
    }
}

fn stopped(timeout: Duration, why_short: Option<&str>) -> String {
    let seconds = timeout.as_secs();
    match why_short {
        Some(why) => format!("stopped after {seconds} s: {why}"),
        None => format!("stopped after {seconds} s"),
    }
}

/// What shows that a check that failed without a test could not do its work here, whatever the code is like.
fn what_is_missing(exit_code: i32, tail: &str, is_local: bool) -> Option<String> {
    let says = |line: &str| {
        // What `make` says of a recipe that the shell could not run.
        let is_make = line.starts_with("make") && line.ends_with("Error 127");
        is_make || line.ends_with("No module named pytest")
    };
    let last = |count| tail.lines().rev().take(count).map(str::trim_end);
    // Cargo goes on with five lines of help.
    let found =
        last(5).find(|line| says(line)).or_else(|| last(8).find(|it| is_absent_in_cargo(it)));
    match exit_code {
        COMMAND_NOT_FOUND => Some(absent_program(tail, is_local)),
        NOT_EXECUTABLE => Some("not executable".to_owned()),
        _ => found.map(|line| {
            let place = place(is_local);
            // Where the interpreter is, which may be below somebody's home folder, says nothing.
            let said = line.find("No module named").map_or(line.trim(), |at| &line[at..]);
            format!("a program is missing {place}: {}", text::cut(said.trim(), 200))
        }),
    }
}

/// What cargo and rustup say of a subcommand and a toolchain that are not installed.
fn is_absent_in_cargo(line: &str) -> bool {
    line.starts_with("error: no such command: `")
        || (line.starts_with("error: toolchain '") && line.ends_with("' is not installed"))
}

/// What shows that it had no packages to work with, after a setup that failed for this reason.
fn without_packages(tail: &str, setup_failed: &str) -> Option<String> {
    let line = absent_packages(tail)?;
    Some(format!(
        "setup failed ({setup_failed}), and packages are missing: {}",
        text::cut(line, 200)
    ))
}

/// The program that a shell did not find, and where.
pub(super) fn absent_program(output: &str, is_local: bool) -> String {
    let name = |line: &str| {
        let line = line.trim_end();
        let before =
            line.strip_suffix(": command not found").or(line.strip_suffix(": not found"))?;
        let name = before.rsplit(": ").next().filter(|name| name.len() < 100)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
        (!name.is_empty() && name.chars().all(is_plain)).then(|| text::code(name))
    };
    let found = output.lines().rev().take(20).find_map(name);
    format!("{} is not {}", found.unwrap_or_else(|| "a program".to_owned()), place(is_local))
}

fn place(is_local: bool) -> &'static str {
    if is_local { "on this machine" } else { "in the image" }
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
        rows.push(EvidenceRow::new(before, Some(run)));
    }
    rows.extend(base.into_iter().flatten().map(|run| EvidenceRow::new(Some(run), None)));
    Evidence { rows, source: source.into(), ..Evidence::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_says_nothing_about_the_code() {
        let rows = [
            (127, "sh: 1: jest: not found", Some("`jest` is not in the image")),
            (127, "sh: line 1: mix: command not found\n", Some("`mix` is not in the image")),
            (127, "gone", Some("a program is not in the image")),
            (126, "permission denied", Some("not executable")),
            (
                2,
                "gcc -c a.c\nmake: gcc: No such file\nmake: *** [Makefile:2: test] Error 127",
                Some("a program is missing in the image: make: *** [Makefile:2: test] Error 127"),
            ),
            (
                1,
                "/home/ann/.pyenv/bin/python: No module named pytest",
                Some("a program is missing in the image: No module named pytest"),
            ),
            (
                101,
                "error: no such command: `hack`\n\nhelp: a command with a similar name exists: `check`\n\n\
                 help: view all installed commands with `cargo --list`\n\
                 help: find a package to install `hack` with `cargo search cargo-hack`",
                Some("a program is missing in the image: error: no such command: `hack`"),
            ),
            (
                1,
                "error: toolchain '1.60-x86_64-unknown-linux-gnu' is not installed",
                Some(
                    "a program is missing in the image: error: toolchain '1.60-x86_64-unknown-linux-gnu' is not installed",
                ),
            ),
            (2, "make: *** [Makefile:2: test] Error 1", None),
            (1, "ModuleNotFoundError: No module named 'app'", None),
        ];
        for (code, tail, expected) in rows {
            assert_eq!(what_is_missing(code, tail, false).as_deref(), expected, "{tail}");
        }
        let local = |code, tail| what_is_missing(code, tail, true);
        assert_eq!(local(127, "sh: 1: mix: not found").unwrap(), "`mix` is not on this machine");
    }

    #[test]
    fn packages_that_setup_could_not_get_are_named_with_its_reason() {
        let go = "a.go:3:8: x.org/y@v1: module lookup disabled by GOPROXY=off\nFAIL";
        let expected = "setup failed (`go mod download`: no answer), and packages are missing: a.go:3:8: x.org/y@v1: \
                        module lookup disabled by GOPROXY=off";
        let found = without_packages(go, "`go mod download`: no answer");
        assert_eq!(found.as_deref(), Some(expected));
        assert_eq!(without_packages("--- FAIL: TestX", "`go mod download`: no answer"), None);
    }

    #[test]
    fn a_check_that_had_less_time_than_it_needs_says_nothing_about_the_code() {
        let second = Duration::from_secs(1);
        let check = |before: Option<u32>| PlannedCheck {
            command: "make test".to_owned(),
            timeout: second * 60,
            why_short: None,
            before: before.map(|seconds| second * seconds),
            report: None,
            whole: None,
            is_local: false,
            setup_failed: None,
        };
        assert!(is_cut_off(&check(Some(10)), second * 15));
        assert!(!is_cut_off(&check(Some(10)), second * 20), "it may never end");
        assert!(!is_cut_off(&check(None), second * 60), "all of its own time");
        assert!(is_cut_off(&check(None), second * 59));
    }
}
