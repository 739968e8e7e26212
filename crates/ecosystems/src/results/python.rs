//! pytest and unittest.

use std::collections::BTreeSet;

use super::{Counts, Runner, Sink, Status, TestResults, regex, titles};

/// Progress with names (`-v`), the lines of the short summary (`-r`), and the sections of failures. A
/// plain `-q` names what failed only. Each run ends with its counts, and another one, in another folder, may have tests of
/// the same name.
pub(super) fn pytest(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Pytest);
    let is_end = |line: &&str| pytest_summary(line).is_some();
    for run in lines.split_inclusive(is_end) {
        pytest_run(&mut sink, run);
        if breaks_off(run) {
            sink.break_off();
        }
        sink.results.stopped_early |= stops_early(run);
        if let Some(counts) = run.last().and_then(|line| pytest_summary(line)) {
            sink.summary(counts);
            sink.next_run();
        }
    }
    sink.done()
}

fn pytest_run(sink: &mut Sink, lines: &[&str]) {
    let mut bad: BTreeSet<String> = BTreeSet::new();
    let mut test = |sink: &mut Sink, name: &str, word: &str| {
        let status = status(word);
        sink.test(name, status);
        if status.is_bad() {
            bad.insert(name.to_owned());
        }
    };
    let verbose = regex!(
        r"^(\S+?\.\w+(?:::.+?)?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?: \(.*\))?(?: +\[ *\d+%\])?$"
    );
    let parallel =
        regex!(r"^\[gw\d+\] \[ *\d+%\] (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (.+?)\s*$");
    let short = regex!(r"^(FAILED|ERROR|PASSED|XFAIL|XPASS) (\S+\.\w+(?:::.*?)?)(?: - (.*))?$");
    for line in lines {
        if let Some(found) = verbose.captures(line) {
            test(sink, &found[1], &found[2]);
        } else if let Some(found) = parallel.captures(line) {
            test(sink, &found[2], &found[1]);
        } else if let Some(found) = short.captures(line) {
            test(sink, &found[2], &found[1]);
        }
    }
    // Settings of a project may leave them out of the short summary.
    if let Some(counts) =
        lines.last().and_then(|line| pytest_summary(line)).filter(|_| bad.is_empty())
    {
        for (name, status) in titles::failed(lines, counts) {
            bad.insert(sink.another(&name, status));
        }
    }
    // The reasons of the short summary are cut to the terminal; the sections have the assertion.
    sections(sink, lines, &bad);
    for found in lines.iter().filter_map(|line| short.captures(line)) {
        if let Some(why) = found.get(3) {
            sink.detail(&found[2], [why.as_str()]);
        }
    }
}

/// pytest died in itself, or was interrupted (exit codes 3 and 2), and sums up the tests that it had run. After an error in
/// itself it names none of them. What a failed test printed stands before the short summary.
pub(super) fn breaks_off(lines: &[&str]) -> bool {
    let interrupted = regex!(r"^!+ (KeyboardInterrupt|(\S+\.)?Exit: .*) !+$");
    let says = |line: &&str| line.starts_with("INTERNALERROR> ") || interrupted.is_match(line);
    behind_failures(lines).iter().any(says)
}

/// pytest ended at a failure (`-x`, `--maxfail`), or ran nothing because a file could not be loaded (exit code 2): what
/// failed is named, and of the other tests nothing is known.
pub(super) fn stops_early(lines: &[&str]) -> bool {
    let stopped = regex!(
        r"^!+ (\S*Interrupted: )?(stopping after \d+ failures|\d+ errors? during collection) !+$"
    );
    behind_failures(lines).iter().any(|line| stopped.is_match(line))
}

/// From the short summary on.
fn behind_failures<'a, 't>(lines: &'a [&'t str]) -> &'a [&'t str] {
    let is_summary =
        |line: &&str| line.starts_with("====") && line.contains(" short test summary info ");
    &lines[lines.iter().rposition(is_summary).unwrap_or(0)..]
}

fn status(word: &str) -> Status {
    match word {
        "FAILED" => Status::Failed,
        "ERROR" => Status::Error,
        "SKIPPED" | "XFAIL" => Status::Skipped,
        _ => Status::Passed,
    }
}

/// `3 failed, 3 passed, 1 skipped in 0.07s`, with or without the rule around it.
fn pytest_summary(line: &str) -> Option<Counts> {
    let inner = line.trim_matches('=').trim();
    let (counted, rest) = inner.rsplit_once(" in ")?;
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut counts = Counts::default();
    for part in counted.split(", ") {
        let (number, what) = part.split_once(' ')?;
        let number: u64 = if part == "no tests ran" { 0 } else { number.parse().ok()? };
        match what {
            "passed" | "xpassed" => counts.passed += number,
            "failed" => counts.failed += number,
            "error" | "errors" => counts.errors += number,
            "skipped" | "xfailed" => counts.skipped += number,
            "tests ran" | "deselected" | "warning" | "warnings" | "rerun" | "subtests passed" => {}
            _ => return None,
        }
    }
    Some(counts)
}

/// The sections `____ test_name ____`: their `E` lines are the failure. They have no file in their title,
/// so they are told apart by what the known names end with; names that stand for several get none.
fn sections(sink: &mut Sink, lines: &[&str], bad: &BTreeSet<String>) {
    let title = regex!(r"^_{2,} (?:ERROR (?:at setup of|at teardown of|collecting) )?(.+?) _{2,}$");
    let mut known = std::collections::BTreeMap::new();
    for name in bad {
        let short = name.split_once("::").map_or(&**name, |(_, rest)| rest).replace("::", ".");
        known.entry(short).and_modify(|slot| *slot = None).or_insert_with(|| Some(name.clone()));
    }
    let mut open: Option<(String, Vec<&str>)> = None;
    for line in lines {
        let found = title.captures(line);
        if found.is_some() || line.starts_with("====") {
            if let Some((name, why)) = open.take() {
                sink.detail(&name, why);
            }
            let name = found.and_then(|found| known.get(&found[1]).cloned().flatten());
            open = name.map(|name| (name, Vec::new()));
        } else if let (Some((_, why)), Some(rest)) = (&mut open, line.strip_prefix('E'))
            && rest.starts_with([' ', '\t'])
            && why.len() < super::MAX_DETAIL_LINES
        {
            why.push(rest.strip_prefix("       ").unwrap_or(rest.trim_start()).trim_end());
        }
    }
    if let Some((name, why)) = open {
        sink.detail(&name, why);
    }
}

/// `test_a (module.Class.test_a) ... ok` of `-v`, and the blocks of failures, which are always there.
pub(super) fn unittest(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Unittest);
    let titled = regex!(r"^\s*(\S+) \((\S+)\)(?: [\[(].*[\])])*(?: \.\.\. (.*))?$");
    let block = regex!(r"^(FAIL|ERROR|UNEXPECTED SUCCESS): (\S+) \((\S+)\)");
    let ended =
        regex!(r"^(?:.* )?\.\.\. (ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$");
    let mut pending: Option<String> = None;
    let mut open: Option<(String, Vec<&str>)> = None;
    let mut ran = None;
    for line in lines {
        let is_rule = line.starts_with("=====") || line.starts_with("-----");
        if let Some(found) = block.captures(line) {
            let name = unittest_name(&found[2], &found[3]);
            let word = if &found[1] == "ERROR" { Status::Error } else { Status::Failed };
            sink.test(&name, word);
            open = Some((name, Vec::new()));
        } else if let Some((name, why)) = &mut open {
            let is_end = line.starts_with("=====") || line.starts_with("Ran ");
            if is_end {
                sink.detail(name, last_lines(why));
                open = None;
            } else if !is_rule {
                why.push(*line);
            }
        } else if let Some(found) = titled.captures(line) {
            let name = unittest_name(&found[1], &found[2]);
            match found.get(3).and_then(|word| unittest_status(word.as_str())) {
                Some(status) => sink.test(&name, status),
                None => pending = Some(name),
            }
        } else if let (Some(name), Some(found)) = (&pending, ended.captures(line)) {
            if let Some(status) = unittest_status(&found[1]) {
                sink.test(name, status);
            }
            pending = None;
        }
        if let Some(found) = regex!(r"^Ran (\d+) tests? in ").captures(line) {
            ran = Some(super::number(&found, 1));
        }
        if let (Some(all), true) = (ran, line.starts_with("OK") || line.starts_with("FAILED (")) {
            sink.summary(unittest_summary(line, all));
            sink.next_run();
            ran = None;
        }
    }
    sink.done()
}

/// What the standard library says about a failure stands at the end of the traceback.
fn last_lines<'t>(why: &[&'t str]) -> Vec<&'t str> {
    let end = why.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1);
    let from_error =
        why[..end].iter().rposition(|line| line.starts_with("  ")).map_or(0, |at| at + 1);
    if from_error < end { why[from_error..end].to_vec() } else { why[..end].to_vec() }
}

/// Newer versions have the method in the path, older ones do not.
fn unittest_name(method: &str, path: &str) -> String {
    if path.starts_with("unittest.loader._FailedTest") {
        // A module that does not load: its own name, so that its tests belong to it.
        return method.to_owned();
    }
    if path.rsplit('.').next() == Some(method) {
        path.to_owned()
    } else {
        format!("{path}.{method}")
    }
}

fn unittest_status(word: &str) -> Option<Status> {
    match word {
        "ok" => Some(Status::Passed),
        "FAIL" | "unexpected success" => Some(Status::Failed),
        "ERROR" => Some(Status::Error),
        "expected failure" => Some(Status::Skipped),
        _ => word.starts_with("skipped").then_some(Status::Skipped),
    }
}

fn unittest_summary(line: &str, all: u64) -> Counts {
    let of = |what: &str| {
        let from = line.find(&format!("{what}=")).map(|at| at + what.len() + 1);
        let digits = from.map(|at| line[at..].split(|c: char| !c.is_ascii_digit()).next());
        digits.flatten().and_then(|digits| digits.parse().ok()).unwrap_or(0)
    };
    let failed: u64 = of("failures") + of("unexpected successes");
    let (errors, skipped) = (of("errors"), of("skipped") + of("expected failures"));
    let passed = all.saturating_sub(failed + errors + skipped);
    Counts { passed, failed, errors, skipped }
}
