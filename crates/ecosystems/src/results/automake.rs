//! `make check` of automake: `PASS: name` and `FAIL: name`, and a summary for each folder.

use super::{Counts, Runner, Sink, Status, TestResults, number, regex};

/// Which part of the output a line is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Each test as it ends.
    Results,
    /// The log that `VERBOSE` shows: what the tests printed that did not pass. They may print words like those of results.
    Log,
    /// The counts at the end.
    Summary,
}

/// Folders are tested one after the other, and may have tests of the same name. Where tests are not parallel
/// (`serial-tests`), what a test printed stands before its result.
pub(super) fn parse(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Automake);
    let result = regex!(r"^(PASS|FAIL|SKIP|XFAIL|XPASS|ERROR): (\S.*)$");
    let log = regex!(r"^ +\S.*: \S*test-suite\.log$");
    let count = regex!(r"^# (PASS|SKIP|XFAIL|FAIL|XPASS|ERROR): +(\d+)$");
    let serial = regex!(
        r"^(?:All )?(?:\d+ of )?\d+ tests? (?:passed|failed|behaved as expected|did not behave as expected)\b"
    );
    let is_serial = !lines.iter().any(|line| line.starts_with("# TOTAL:"));
    let mut part = Part::Results;
    let mut counts = Counts::default();
    let mut printed: Vec<&str> = Vec::new();
    let mut open: Option<(String, Vec<&str>)> = None;
    for (at, line) in lines.iter().enumerate() {
        let is_title = || lines.get(at + 1).is_some_and(|next| next.starts_with("==="));
        if log.is_match(line) {
            part = Part::Log;
        } else if line.starts_with("Testsuite summary for ") {
            close(&mut sink, open.take());
            part = Part::Summary;
        } else if let Some(found) =
            result.captures(line).filter(|_| part != Part::Log || is_title())
        {
            close(&mut sink, open.take());
            let (name, status) = (&found[2], status(&found[1]));
            if part == Part::Log {
                open = status.is_bad().then(|| (name.to_owned(), Vec::new()));
            } else {
                sink.test(name, status);
                sink.detail(name, printed.drain(..));
            }
        } else if let (Part::Summary, Some(found)) = (part, count.captures(line)) {
            add(&mut counts, status(&found[1]), number(&found, 2));
            if &found[1] == "ERROR" {
                sink.summary(std::mem::take(&mut counts));
                sink.next_run();
                part = Part::Results;
            }
        } else if is_serial && serial.is_match(line) && is_ruled(lines, at) {
            sink.summary(Counts::default());
            sink.next_run();
        } else if let Some((_, why)) = &mut open {
            why.push(*line);
        } else if line.starts_with("make") || line.starts_with("===") {
            printed.clear();
        } else if is_serial {
            printed.push(*line);
        }
    }
    close(&mut sink, open);
    // Other runners have lines like those of results.
    if sink.results.finished { sink.done() } else { TestResults::default() }
}

/// The output without that log, where it has one: what tests printed in it is known by their results, also where they
/// are run by a runner of another kind, or print TAP.
pub(super) fn without_log<'t>(lines: &[&'t str]) -> Option<Vec<&'t str>> {
    let title = regex!(r"^ +\S.*: \S*test-suite\.log$");
    let is_summary = |line: &str| line.starts_with("Testsuite summary for ");
    if !lines.iter().any(|line| is_summary(line)) || !lines.iter().any(|line| title.is_match(line))
    {
        return None;
    }
    let mut in_log = false;
    let mut out = Vec::new();
    for line in lines {
        in_log = (in_log || title.is_match(line)) && !is_summary(line);
        if !in_log {
            out.push(*line);
        }
    }
    Some(out)
}

/// The line before is a rule.
fn is_ruled(lines: &[&str], at: usize) -> bool {
    at.checked_sub(1).and_then(|at| lines.get(at)).is_some_and(|line| line.starts_with("==="))
}

/// A test of the log, without the rule below its name.
fn close(sink: &mut Sink, open: Option<(String, Vec<&str>)>) {
    if let Some((name, why)) = open {
        sink.detail(&name, why.into_iter().filter(|line| !line.starts_with("===")));
    }
}

/// What is expected to fail and does is as good as skipped; what is expected to fail and passes fails the run.
fn status(word: &str) -> Status {
    match word {
        "PASS" => Status::Passed,
        "SKIP" | "XFAIL" => Status::Skipped,
        "ERROR" => Status::Error,
        _ => Status::Failed,
    }
}

fn add(counts: &mut Counts, status: Status, more: u64) {
    let slot = match status {
        Status::Passed => &mut counts.passed,
        Status::Skipped => &mut counts.skipped,
        Status::Failed => &mut counts.failed,
        Status::Error => &mut counts.errors,
    };
    *slot = slot.saturating_add(more);
}
