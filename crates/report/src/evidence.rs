//! The evidence: what the harness ran before and after the change, with the exit codes that it recorded
//! and what became of the tests.

use std::fmt::Write as _;

use super::sections::html;
use patchwright_base::duration::format_milliseconds;
use patchwright_base::text::{self, code, code_cell, inline};
use patchwright_types::evidence::{
    CheckRun, Comparison, Evidence, EvidenceRow, Names, Standing, newly_failing,
};

/// Rows of the table.
const MAX_ROWS: usize = 60;
/// Tests of one list that are named, and checks whose tests are.
const MAX_NAMES: usize = 15;
const MAX_LISTED: usize = 8;
/// Bytes of a name, a place or a note.
const MAX_NAME: usize = 400;
/// Outputs that are shown, and bytes of one.
const MAX_OUTPUTS: usize = 3;
const OUTPUT_BYTES: usize = 3_000;

/// The table of checks with what stands behind it.
pub fn evidence(evidence: &Evidence) -> String {
    if evidence.rows.is_empty() {
        return none(evidence);
    }
    let mut out = String::from("| Command | Before | After | Duration |\n|---|---|---|---|\n");
    for row in evidence.rows.iter().take(MAX_ROWS) {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            code_cell(&text::one_line(&row.command)),
            verdict(row.base.as_ref(), Standing::NotRun),
            verdict(row.head.as_ref(), row.standing()),
            row.head
                .as_ref()
                .map_or_else(|| "–".to_owned(), |run| format_milliseconds(run.duration_ms)),
        );
    }
    for row in evidence.rows.iter().filter(|row| row.tests.is_some()).take(MAX_LISTED) {
        tests(&mut out, row, evidence.rows.len());
    }
    broken(&mut out, evidence);
    outputs(&mut out, evidence);
    let found: Vec<&str> = evidence.rows.iter().filter_map(|row| row.found.as_deref()).collect();
    let source = match found.as_slice() {
        [place] if evidence.rows.len() == 1 => {
            format!("found in {}", code(&text::cut(place, MAX_NAME)))
        }
        _ => inline(&evidence.source),
    };
    if !source.is_empty() {
        let _ = writeln!(
            out,
            "\nRun by Patchwright in fresh sandboxes, not by the model. Commands from: {source}."
        );
    }
    notes(&mut out, evidence);
    out
}

/// Why there is no table.
fn none(evidence: &Evidence) -> String {
    let mut out = match evidence.left_out {
        0 if evidence.notes.is_empty() => {
            "No checks ran: none are configured and none were found.\n".to_owned()
        }
        0 => "No checks ran: none are configured, and none were found that count.\n".to_owned(),
        1 => "No checks ran: the one that was found was left out.\n".to_owned(),
        count => format!("No checks ran: the {count} that were found were left out.\n"),
    };
    notes(&mut out, evidence);
    out
}

fn notes(out: &mut String, evidence: &Evidence) {
    for note in evidence.notes.iter().take(5) {
        let _ = writeln!(out, "\n{}.", inline(&text::cut(note, MAX_NAME)));
    }
}

/// How many checks are against the change that were not, or not like this, before.
fn broken(out: &mut String, evidence: &Evidence) {
    let (mut anew, mut unknown, mut changed, mut flaky) = (0, 0, 0, 0);
    for row in newly_failing(evidence) {
        match &row.base {
            None => unknown += 1,
            Some(base) if base.exit_code.is_none() || base.unrunnable => unknown += 1,
            Some(base) if base.is_flaky() => flaky += 1,
            Some(base) if base.has_failed_once() => changed += 1,
            Some(_) => anew += 1,
        }
    }
    let rows = [
        (anew, "check fails", "checks fail", "that did not fail before"),
        (unknown, "check fails", "checks fail", "of which nobody knows how it went before"),
        (
            changed,
            "check that failed before fails",
            "checks that failed before fail",
            "in another way",
        ),
        (flaky, "check fails", "checks fail", "each time that failed once of two times before"),
    ];
    for (count, one, many, words) in rows.into_iter().filter(|(count, ..)| *count > 0) {
        let these = if count == 1 { one } else { many };
        let _ = writeln!(out, "\n**{count} {these} {words}.**");
    }
}

/// What became of the tests of a check: a line, and the names behind it.
fn tests(out: &mut String, row: &EvidenceRow, rows: usize) {
    let Some(tests) = &row.tests else { return };
    let whose = if rows == 1 {
        String::new()
    } else {
        format!(" of {}", code(&text::one_line(&row.command)))
    };
    let passing = passing(row, tests).map(|passing| format!(" · {passing}")).unwrap_or_default();
    let _ = writeln!(out, "\n**Tests**{whose}: {}{passing}", tests.line());
    let lists: Vec<(&str, &Names)> = lists(tests);
    if lists.is_empty() {
        return;
    }
    let mut names = String::new();
    for (title, list) in lists {
        let _ = writeln!(names, "\n{title}:\n");
        for name in list.names.iter().take(MAX_NAMES) {
            let _ = writeln!(names, "- {}", code(&text::cut(name, MAX_NAME)));
        }
        let more = list.count.saturating_sub(list.names.len().min(MAX_NAMES));
        if more > 0 {
            let _ = writeln!(names, "- and {more} more");
        }
    }
    let _ = write!(out, "\n<details><summary>Which tests</summary>\n{names}\n</details>\n");
}

/// How many tests passed before and pass now, where nothing was fixed or broken and both runners said it at their end.
fn passing(row: &EvidenceRow, tests: &Comparison) -> Option<String> {
    if !tests.fixed.is_empty() || !tests.broke.is_empty() {
        return None;
    }
    let passed = |run: &Option<CheckRun>| {
        let tests = run.as_ref().filter(|run| !run.is_flaky())?.tests.as_ref()?;
        let is_told = !tests.runners.iter().any(|runner| runner.may_be_silent());
        (tests.is_whole() && !tests.truncated && is_told).then_some(tests.counts.passed)
    };
    let (before, now) = (passed(&row.base)?, passed(&row.head)?);
    (before != now && before > 0).then(|| format!("{before} → {now} tests pass"))
}

/// For each check that ran tests before the change and none with it, a sentence that says so. Of runners that print only
/// what fails it says nothing where they failed before.
pub fn lost_tests(evidence: &Evidence) -> Vec<String> {
    let is_silent = |row: &EvidenceRow| {
        let tests = row.base.as_ref().and_then(|run| run.tests.as_ref());
        tests.is_some_and(|tests| tests.runners.iter().any(|runner| runner.may_be_silent()))
    };
    let lost = evidence.rows.iter().filter(|row| row.lost_tests().is_some() || !is_silent(row));
    let lost = lost.filter(|row| row.unseen_tests().is_some());
    let lost = lost.map(|row| (&row.command, row.tests_before()));
    lost.map(|(command, count)| {
        let tests = match count {
            Some(1) => "1 test".to_owned(),
            Some(count) => format!("{count} tests"),
            None => "tests".to_owned(),
        };
        let command = code(&text::short_command(command, MAX_NAME));
        format!(
            "{command} ran {tests} before the change and none with it, as far as its output says."
        )
    })
    .collect()
}

/// The tests of which something can be said, by what became of them.
pub(super) fn lists(tests: &Comparison) -> Vec<(&'static str, &Names)> {
    let new_failing =
        if tests.is_base_partial { "Fail, and were not reached before" } else { "New, and fail" };
    let gone = if tests.is_partial {
        "Failed before, and not reached by a run that broke off"
    } else {
        "Failed before, and no longer run"
    };
    let lists = [
        ("Fixed", &tests.fixed),
        ("Pass after a change to the test itself", &tests.altered),
        ("Broke", &tests.broke),
        (new_failing, &tests.new_failing),
        ("Failed once of two times before, and fail each time now", &tests.no_longer_passing),
        ("Fail as before", &tests.still_failing),
        ("Fail for want of a network, as before", &tests.without_network),
        ("Flaky: failed in one of two runs of the same tree", &tests.flaky),
        (gone, &tests.gone),
        ("Passed before, and no longer run", &tests.dropped),
    ];
    lists.into_iter().filter(|(_, names)| !names.is_empty()).collect()
}

/// What the checks printed that are against the change, those that it broke first.
fn outputs(out: &mut String, evidence: &Evidence) {
    let broken = newly_failing(evidence);
    let still = evidence.standing(&[
        Standing::StillFailing,
        Standing::Improved,
        Standing::Silenced,
        Standing::Altered,
    ]);
    let shown = broken.into_iter().chain(still);
    let shown = shown.filter_map(|row| Some((row, row.head.as_ref()?)));
    for (row, run) in shown.filter(|(_, run)| !run.tail.is_empty()).take(MAX_OUTPUTS) {
        let tail = text::fence(&run.digest(OUTPUT_BYTES), "");
        let command = html(&text::one_line(&row.command));
        let _ = write!(
            out,
            "\n<details><summary>Output of <code>{command}</code></summary>\n\n{tail}\n</details>\n"
        );
    }
}

/// How a side of a check went. `standing` is that of the row for the head.
fn verdict(run: Option<&CheckRun>, standing: Standing) -> String {
    let Some(run) = run else { return "not run".to_owned() };
    let word = word(run, standing);
    match &run.note {
        Some(note) => format!("{word}: {}", inline(note)),
        None => word,
    }
}

/// How a check went, without its note, as plain text.
pub(super) fn word(run: &CheckRun, standing: Standing) -> String {
    let word = plain_word(run, standing);
    let sign = match run.exit_code {
        _ if run.timed_out => "",
        Some(0) if word == "passed" => "✅ ",
        Some(_) if ["flaky", "no test ran", "no network"].iter().any(|it| word.starts_with(it)) => {
            "⚠️ "
        }
        Some(0) if matches!(standing, Standing::Silenced | Standing::Altered) => "⚠️ ",
        _ if word.starts_with("failed") => "❌ ",
        _ => "",
    };
    format!("{sign}{word}")
}

/// How a check went, without a sign, where colours say it.
pub(super) fn plain_word(run: &CheckRun, standing: Standing) -> String {
    let is_broken = standing == Standing::Broken;
    let is_red = |standing| {
        matches!(standing, Standing::Broken | Standing::StillFailing | Standing::Improved)
    };
    match run.exit_code {
        // First, because a check that was ended may have any exit code, or none.
        _ if run.timed_out => "timed out".to_owned(),
        None if run.sandbox_lost => "failed: its sandbox was lost".to_owned(),
        None if run.duration_ms > 0 => "did not end".to_owned(),
        None => "not run".to_owned(),
        Some(0) if is_red(standing) => "failed: its tests say so, with exit code 0".to_owned(),
        Some(0) if standing == Standing::Silenced => "tests that failed no longer run".to_owned(),
        Some(0) if standing == Standing::Altered => {
            "only the tests that failed are changed".to_owned()
        }
        Some(0) if standing == Standing::Unknown => "no test ran, with exit code 0".to_owned(),
        Some(0) if run.has_bad_tests() => "tests of it fail, with exit code 0".to_owned(),
        Some(0) => "passed".to_owned(),
        Some(_) if run.unrunnable && !is_broken => "could not be run here".to_owned(),
        Some(code) if run.is_flaky() => {
            format!("flaky: failed ({code}), passed when run once more")
        }
        Some(code) if standing == Standing::Flaky => {
            format!("flaky: failed ({code}), only in tests that come and go")
        }
        Some(code) if standing == Standing::NoNetwork => {
            format!("no network: failed ({code}), only in tests that need one")
        }
        Some(code) if run.runner_broke_off() => format!("failed ({code}): its tests broke off"),
        Some(code) => format!("failed ({code})"),
    }
}
