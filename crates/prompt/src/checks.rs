//! What a model is told about the repository's checks: before its work, and when they fail on it.

use std::collections::BTreeSet;

use minijinja::{Value, context};

use super::{render, tag_of};
use patchwright_base::error::Result;
use patchwright_types::evidence::{
    CheckRun, Comparison, EvidenceRow, Names, Standing, TestResults,
};

/// Tests of one list that are named.
const MAX_NAMES: usize = 20;
/// Bytes of one check's output before the work, and of all of them.
const MAX_OUTPUT: usize = 2_000;
const MAX_OUTPUTS: usize = 6_000;

/// A check that fails on the change, for the model.
#[derive(Clone, Copy, Debug)]
pub struct FailedCheck<'a> {
    pub row: &'a EvidenceRow,
    /// What it said in the round before.
    pub last: Option<&'a CheckRun>,
}

/// Names under a title.
struct NamedList {
    title: String,
    names: Vec<String>,
    count: usize,
}

impl NamedList {
    fn new(title: &str, names: &Names) -> NamedList {
        NamedList { title: title.to_owned(), names: names.names.clone(), count: names.count }
    }

    fn value(&self) -> Value {
        let names: Vec<String> = self.names.iter().take(MAX_NAMES).cloned().collect();
        let more = self.count.saturating_sub(names.len());
        context! { title => format!("{} ({})", self.title, self.count), names, more }
    }
}

/// The message to a model whose change fails checks. `unknown` are those that say nothing. `tag` is from
/// [`super::fresh_tag`], made for the outputs of the checks.
pub fn check_failed(
    failed: &[FailedCheck<'_>],
    unknown: &[&EvidenceRow],
    tag: &str,
) -> Result<String> {
    let checks: Vec<Value> = failed.iter().filter_map(failed_check).collect();
    let unknown = unknown.iter().filter_map(|row| {
        let why = row.head.as_ref()?.note.clone().unwrap_or_else(|| "it did not run".to_owned());
        Some(context! { command => row.command.as_str(), why })
    });
    let unknown: Vec<Value> = unknown.collect();
    render("task/check_failed.md", context! { checks, unknown, tag })
}

fn failed_check(FailedCheck { row, last }: &FailedCheck<'_>) -> Option<Value> {
    let head = row.head.as_ref()?;
    let since = last.map(|last| since(last, head));
    let is_same = matches!(since, Some(RoundDifference::Same));
    let lists: Vec<Value> = match &since {
        Some(RoundDifference::Same) => Vec::new(),
        Some(RoundDifference::Tests(lists)) => lists.iter().map(NamedList::value).collect(),
        Some(RoundDifference::Other) | None => {
            row.tests.iter().flat_map(lists_of).map(|list| list.value()).collect()
        }
    };
    let since = match since {
        Some(RoundDifference::Same) => "It fails as it did in the last round.",
        Some(RoundDifference::Tests(_)) => "Since the last round:",
        Some(RoundDifference::Other) => "It fails in another way than in the last round.",
        None => "",
    };
    Some(context! {
        command => row.command.as_str(),
        verdict => if row.lost_tests().is_some() { no_tests(row) } else { ending(head) },
        before => before(row),
        since,
        lists,
        output => if is_same { "" } else { head.tail.as_str() },
    })
}

/// How a check ended that ran tests before: without any.
fn no_tests(row: &EvidenceRow) -> String {
    let before = row.tests_before().map_or_else(|| "some".to_owned(), |count| count.to_string());
    format!("exit code 0, but no test was seen to run; before your change there were {before}")
}

/// How it went before the change, where that is known.
fn before(row: &EvidenceRow) -> &'static str {
    match (&row.base, row.standing()) {
        (Some(base), _) if base.passed() => "it passed before your change",
        (Some(base), _) if base.is_flaky() => {
            "before your change it failed once and passed once, so it may not be yours"
        }
        (Some(base), _) if base.failed() && row.runs_no_more_tests() => {
            "it failed before your change too, but its tests ran then, and now none was seen to run"
        }
        (Some(base), Standing::Broken) if base.failed() => {
            "it failed before your change too, but not in this way"
        }
        (Some(base), Standing::Silenced) if base.failed() => {
            "it failed before your change, and passes because tests that failed no longer run; repair \
             what they test, unless they are what you were asked to remove"
        }
        (Some(base), Standing::Altered) if base.failed() => {
            "it failed before your change, and passes because you changed the tests that failed and \
             nothing else; repair what they test, unless correcting these tests is what you were \
             asked to do"
        }
        (Some(base), Standing::Improved) if base.failed() => {
            "it failed before your change too, and in more tests"
        }
        (Some(base), _) if base.failed() => "it failed before your change too",
        (Some(_) | None, _) => "",
    }
}

fn lists_of(tests: &Comparison) -> Vec<NamedList> {
    let new_failing = if tests.is_base_partial {
        "Tests that fail, and that the run before your change did not reach"
    } else {
        "Tests that were not there before and fail"
    };
    let gone = if tests.is_partial {
        "Tests that failed before, and of which this run, which broke off, says nothing"
    } else {
        "Tests that failed before and no longer run"
    };
    let lists = [
        NamedList::new("Tests that passed before your change and fail now", &tests.broke),
        NamedList::new(new_failing, &tests.new_failing),
        NamedList::new(
            "Tests that passed in one of two runs before your change and fail each time now",
            &tests.no_longer_passing,
        ),
        NamedList::new("Tests that failed before your change and still fail", &tests.still_failing),
        NamedList::new(
            "Tests that need a network, which checks do not have, and fail as before",
            &tests.without_network,
        ),
        NamedList::new(gone, &tests.gone),
        NamedList::new("Tests that passed before and no longer run", &tests.dropped),
        NamedList::new("Tests that your change repaired", &tests.fixed),
        NamedList::new(
            "Tests that pass since your change altered the tests themselves, which shows no repair",
            &tests.altered,
        ),
        NamedList::new("Tests that fail once and pass once", &tests.flaky),
    ];
    lists.into_iter().filter(|list| list.count > 0).collect()
}

/// What is different from the round before.
enum RoundDifference {
    Same,
    Tests(Vec<NamedList>),
    Other,
}

fn since(last: &CheckRun, now: &CheckRun) -> RoundDifference {
    if let (Some(before), Some(after)) = (&last.tests, &now.tests) {
        let before: BTreeSet<&str> = before.bad().collect();
        let after: BTreeSet<&str> = after.bad().collect();
        if before == after && !after.is_empty() {
            return RoundDifference::Same;
        }
        let listed = |title: &str, names: Vec<&str>| NamedList {
            title: title.to_owned(),
            count: names.len(),
            names: names.into_iter().take(MAX_NAMES).map(str::to_owned).collect(),
        };
        let lists = [
            listed(
                "Tests that fail now and did not then",
                after.difference(&before).copied().collect(),
            ),
            listed("Tests that no longer fail", before.difference(&after).copied().collect()),
            listed("Tests that still fail", after.intersection(&before).copied().collect()),
        ];
        let lists: Vec<NamedList> = lists.into_iter().filter(|list| list.count > 0).collect();
        return if lists.is_empty() {
            RoundDifference::Other
        } else {
            RoundDifference::Tests(lists)
        };
    }
    let is_same = last.exit_code == now.exit_code && plain(&last.tail) == plain(&now.tail);
    if is_same { RoundDifference::Same } else { RoundDifference::Other }
}

/// An output without its numbers: times and addresses differ from run to run.
fn plain(output: &str) -> String {
    output.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// How the checks went before the work, for the model; empty when none ran.
pub fn baseline(runs: &[CheckRun]) -> Result<String> {
    if runs.is_empty() {
        return Ok(String::new());
    }
    let mut room = MAX_OUTPUTS;
    let outputs: Vec<String> = runs
        .iter()
        .map(|run| {
            let output =
                if run.is_clean() { String::new() } else { run.digest(MAX_OUTPUT.min(room)) };
            room = room.saturating_sub(output.len());
            output
        })
        .collect();
    let texts: Vec<&str> = outputs.iter().map(String::as_str).collect();
    let tag = tag_of(&texts);
    let checks = runs.iter().zip(&outputs).map(|(run, output)| {
        let lists = failing_before(run);
        context! { command => run.command.as_str(), verdict => state(run), lists, output }
    });
    let checks: Vec<Value> = checks.collect();
    let text = render("context/baseline.md", context! { checks, tag })?;
    // What was printed cannot end the block.
    let (inside, end) = text.split_at(text.len().saturating_sub("</baseline>".len()));
    Ok(inside.replace("</baseline", "&lt;/baseline") + end)
}

/// The tests that fail before the work, those apart that no work can repair.
fn failing_before(run: &CheckRun) -> Vec<Value> {
    let without_network: BTreeSet<&str> =
        run.tests.iter().flat_map(TestResults::without_network).collect();
    let bad = run.tests.iter().flat_map(TestResults::bad);
    let bad: Vec<&str> = bad.filter(|name| !without_network.contains(name)).collect();
    let listed = |title: &str, names: Vec<&str>| NamedList {
        title: title.to_owned(),
        count: names.len(),
        names: names.into_iter().map(str::to_owned).collect(),
    };
    let lists = [
        listed("Tests that fail", bad),
        listed(
            "Tests that need a network, which checks do not have",
            without_network.into_iter().collect(),
        ),
    ];
    lists.iter().filter(|list| list.count > 0).map(NamedList::value).collect()
}

fn state(run: &CheckRun) -> String {
    let tests = run.tests.as_ref().and_then(|tests| match tests.failures() {
        Some(failures) => Some(format!(", {failures}")),
        None => tests.total().map(|all| format!(", {all} tests")),
    });
    let tests = tests.unwrap_or_default();
    let seconds = run.duration_ms / 1000;
    match run {
        _ if run.is_clean() => format!("passes{tests} ({seconds} s)."),
        _ if run.passed() => format!("ends with exit code 0{tests} ({seconds} s)."),
        _ if run.unrunnable => {
            format!(
                "cannot be run in this sandbox ({}).",
                run.note.as_deref().unwrap_or("no such program")
            )
        }
        _ if run.is_flaky() => {
            format!("{}{tests}; it passed when it was run once more.", ending(run))
        }
        _ => {
            format!("{}{tests}{} ({seconds} s).", ending(run), second(run))
        }
    }
}

/// How the second run of a check that failed went.
fn second(run: &CheckRun) -> String {
    match &run.again {
        None => String::new(),
        Some(again) if ending(again) == ending(run) => ", twice".to_owned(),
        Some(again) => format!("; when it was run once more, {}", ending(again)),
    }
}

/// How it ended, and whether its tests came to their end.
fn ending(run: &CheckRun) -> String {
    let verdict = verdict(run);
    if run.runner_broke_off() {
        format!("{verdict}, its tests broke off before their end")
    } else {
        verdict
    }
}

pub(super) fn verdict(run: &CheckRun) -> String {
    match (run.exit_code, run.timed_out, &run.note) {
        (_, true, _) => format!("timed out after {} seconds", run.duration_ms / 1000),
        (Some(code), false, _) => format!("exit code {code}"),
        (None, false, Some(note)) => format!("could not be run ({note})"),
        (None, false, None) => "could not be run".to_owned(),
    }
}
