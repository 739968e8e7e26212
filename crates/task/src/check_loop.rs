//! The checks on what the model left, each time in a fresh sandbox, and what the model is told of them.

use super::agent_phase::Phase;
use super::brief::message;
use super::changed_tests::without_changed_tests;
use super::check_runs::{self, CheckTarget};
use super::checks::Checks;
use super::ending::{collect, uncollected};
use super::run::Run;
use super::unpublishable;
use patchwright_agent::{Agent, StopKind, Stopped};
use patchwright_base::error::Result;
use patchwright_config::Mode;
use patchwright_git::Oid;
use patchwright_git::tree::Change;
use patchwright_journal::{Entry, Line};
use patchwright_prompt::{self as prompt, FailedCheck};
use patchwright_provider::item::Role;
use patchwright_sandbox::Running;
use patchwright_types::evidence::{CheckRun, Evidence, EvidenceRow, Standing};

/// What the checks said of a tree.
#[derive(Clone, Debug)]
pub struct CheckedTree {
    /// `None` when a killed attempt checked it and did not live to say which it was.
    pub tree: Option<Oid>,
    pub runs: Vec<CheckRun>,
}

/// The change and its checks when the model has finished.
#[derive(Debug)]
pub(super) struct CheckedWork {
    /// What the model left, when that was collected already.
    pub change: Option<Change>,
    /// The newest run of the checks.
    pub checked: Option<CheckedTree>,
    /// The checks before the change, with those of packages that it touches.
    pub baseline: Vec<CheckRun>,
}

/// Runs the checks on what the model left and gives back those that fail, until they pass or there are
/// no more rounds.
pub(super) async fn with_checks(
    phase: &Phase<'_>,
    sandbox: &Running,
    agent: &mut Agent<'_>,
    recorded: &[Line],
    stopped: &mut Stopped,
) -> Result<CheckedWork> {
    let run = phase.run;
    let rounds = match run.config.mode {
        Mode::Execute => run.config.limits.verify_rounds,
        // There is no change to check.
        Mode::Plan | Mode::Review => 0,
    };
    let mut work = CheckedWork {
        change: None,
        checked: last_round(recorded).map(|runs| CheckedTree { tree: None, runs }),
        baseline: phase.baseline.to_vec(),
    };
    if rounds > 0 {
        unpublishable::give_back(phase, sandbox, agent, recorded, stopped, &mut work).await?;
    }
    for round in rounds_given(recorded)..rounds {
        if !matches!(stopped.reason, StopKind::Finished) || stopped.needs_input().is_some() {
            break;
        }
        match check(phase, sandbox, round, &mut work).await? {
            LoopCheck::Passed => break,
            LoopCheck::Ended(reason) => {
                stopped.reason = reason;
                break;
            }
            LoopCheck::Failed(text) => {
                run.environment.ui.say("giving the failing checks back to the model");
                work.change = None;
                *stopped = agent.continue_with(vec![message(Role::User, text)]).await;
            }
        }
    }
    Ok(work)
}

/// What the checks say about what the model left.
enum LoopCheck {
    /// Nothing to give back.
    Passed,
    /// What the model is told.
    Failed(String),
    /// The run ends here.
    Ended(StopKind),
}

async fn check(
    phase: &Phase<'_>,
    sandbox: &Running,
    round: u32,
    work: &mut CheckedWork,
) -> Result<LoopCheck> {
    let run = phase.run;
    if !phase.checks.is_any() {
        return Ok(LoopCheck::Passed);
    }
    let change = match work.change.take() {
        Some(change) => change,
        None => match collect(phase, sandbox).await {
            Ok(change) => change,
            Err(failure) => return Ok(LoopCheck::Ended(uncollected(failure))),
        },
    };
    let files = change.files.clone();
    let paths = files.iter().map(|file| file.path.clone()).collect();
    let checks = phase.checks.of_change(phase.rules, paths).await?;
    let tree = change.tree;
    let is_changed = !files.is_empty();
    work.change = Some(change);
    if checks.commands.is_empty() || !is_changed {
        return Ok(LoopCheck::Passed);
    }
    let before = work.checked.take();
    let is_same = before.as_ref().is_some_and(|before| before.tree == Some(tree));
    let runs = match &before {
        Some(before) if is_same => again(phase, work, &before.runs)?,
        _ => match run_on(phase, &checks, tree, work).await {
            Err(_) if run.is_interrupted() => return Ok(LoopCheck::Ended(StopKind::Cancelled)),
            // The change may be more than a sandbox takes, which is for the policy to say.
            Err(failure) => {
                run.environment.ui.warn(&format!("the change cannot be checked: {failure}"));
                return Ok(LoopCheck::Passed);
            }
            Ok(runs) => runs,
        },
    };
    work.checked = Some(CheckedTree { tree: Some(tree), runs: runs.clone() });
    let last = before.map(|before| before.runs);
    let asked_of = FailureScope::in_round(round, is_same);
    let evidence = checks.evidence(&work.baseline, runs);
    let evidence = without_changed_tests(&phase.workspace.repo, &files, evidence);
    // Without anything that was installed they would fail so whatever the code is like.
    if run.setup.lock().is_in_vain() && is_all_as_before(&evidence) {
        return Ok(LoopCheck::Passed);
    }
    Ok(match feedback(&evidence, last.as_deref(), asked_of)? {
        Some(text) => LoopCheck::Failed(text),
        None => LoopCheck::Passed,
    })
}

/// Records once more what is known of a tree that has been checked already.
fn again(phase: &Phase<'_>, work: &CheckedWork, runs: &[CheckRun]) -> Result<Vec<CheckRun>> {
    for known in runs {
        check_runs::record_again(phase.run, CheckTarget::Loop(&work.baseline), known)?;
    }
    Ok(runs.to_vec())
}

/// Runs the checks on a tree, and before that, on the base, those that nobody has needed until now.
async fn run_on(
    phase: &Phase<'_>,
    checks: &Checks,
    tree: Oid,
    work: &mut CheckedWork,
) -> Result<Vec<CheckRun>> {
    let run = phase.run;
    phase.progress.phase("Running the repository's checks on the change");
    if phase.has_baseline {
        checks.complete(run, phase.image, phase.workspace, &mut work.baseline).await?;
    }
    let packed = run.pack(&run.with_tree(phase.workspace, tree)?).await?;
    checks.run_fresh(run, phase.image, &packed, CheckTarget::Loop(&work.baseline)).await
}

/// How often a killed attempt had given failing checks back already.
fn rounds_given(recorded: &[Line]) -> u32 {
    let after_check = recorded.windows(2).filter(|pair| {
        is_of_loop(&pair[0].entry).is_some() && matches!(pair[1].entry, Entry::Added { .. })
    });
    u32::try_from(after_check.count()).unwrap_or(u32::MAX)
}

/// What the newest round of a killed attempt said.
fn last_round(recorded: &[Line]) -> Option<Vec<CheckRun>> {
    let mut runs: Vec<CheckRun> = Vec::new();
    let mut is_open = false;
    for line in recorded {
        match is_of_loop(&line.entry) {
            Some(run) if is_open => runs.push(run.clone()),
            Some(run) => runs = vec![run.clone()],
            None => {}
        }
        is_open = is_of_loop(&line.entry).is_some();
    }
    (!runs.is_empty()).then_some(runs)
}

fn is_of_loop(entry: &Entry) -> Option<&CheckRun> {
    match entry {
        Entry::Checked { when, run, .. } if when == "loop" => Some(run),
        _ => None,
    }
}

/// What the checks said of the change that a killed attempt collected, when nothing was asked of the model
/// afterwards.
pub(super) fn recorded(run: &Run<'_>, recorded: &[Line], tree: Option<Oid>) -> Option<CheckedTree> {
    if run.was_elsewhere(recorded, |entry| is_of_loop(entry).is_some()) {
        return None;
    }
    let asked_last = recorded.iter().rposition(|line| matches!(line.entry, Entry::Added { .. }));
    let runs = last_round(&recorded[asked_last.map_or(0, |at| at + 1)..])?;
    Some(CheckedTree { tree, runs })
}

/// Which failing checks are the model's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureScope {
    /// Those that did not fail before.
    Broken,
    /// Those that failed before and in which nothing got better, too: often they are what is to be repaired.
    Red,
    /// All that fail.
    Failing,
}

impl FailureScope {
    /// What failed before is given back as long as the model does something about it: the rest of the
    /// repository may be red for reasons that nobody asked about.
    fn in_round(round: u32, is_same: bool) -> FailureScope {
        match round {
            0 => FailureScope::Failing,
            _ if is_same => FailureScope::Broken,
            _ => FailureScope::Red,
        }
    }

    fn standings(self) -> &'static [Standing] {
        match self {
            FailureScope::Broken => &[Standing::Broken],
            FailureScope::Red => &[Standing::Broken, Standing::StillFailing],
            FailureScope::Failing => {
                // Said once, as that no test runs any more: it may be what was asked for.
                &[
                    Standing::Broken,
                    Standing::StillFailing,
                    Standing::Improved,
                    Standing::Silenced,
                    Standing::Altered,
                ]
            }
        }
    }
}

/// There are checks that fail, and none of them says anything that the model does not know.
fn is_all_as_before(evidence: &Evidence) -> bool {
    let failed = evidence.failed();
    let is_any = !failed.is_empty() && !evidence.has_lost_tests();
    is_any && failed.into_iter().all(is_as_before)
}

/// It ran no test, on neither side, and prints what it printed before the change.
fn is_as_before(row: &EvidenceRow) -> bool {
    let (Some(base), Some(head)) = (&row.base, &row.head) else { return false };
    let is_testless = base.tests.is_none() && head.tests.is_none();
    // Times and addresses differ from run to run.
    let words = |run: &CheckRun| run.tail.replace(|c: char| c.is_ascii_digit(), "");
    row.standing() == Standing::StillFailing
        && is_testless
        && base.exit_code == head.exit_code
        && words(base) == words(head)
}

/// What the model is told about checks that fail.
fn feedback(
    evidence: &Evidence,
    last: Option<&[CheckRun]>,
    asked_of: FailureScope,
) -> Result<Option<String>> {
    let is_asked_of = |row: &&EvidenceRow| {
        asked_of.standings().contains(&row.standing())
            // Said once: that no test runs any more may be what was asked for.
            || (asked_of == FailureScope::Failing && row.lost_tests().is_some())
    };
    let failing: Vec<&EvidenceRow> = evidence.rows.iter().filter(is_asked_of).collect();
    if failing.is_empty() {
        return Ok(None);
    }
    let failed: Vec<FailedCheck<'_>> = failing
        .into_iter()
        .map(|row| {
            let same = |run: &&CheckRun| run.command == row.command;
            FailedCheck { row, last: last.and_then(|runs| runs.iter().find(same)) }
        })
        .collect();
    let mut unknown = evidence.standing(&[Standing::Unknown]);
    unknown.retain(|row| row.lost_tests().is_none());
    let texts = failed.iter().filter_map(|check| Some(check.row.head.as_ref()?.tail.as_str()));
    let texts: Vec<&str> = texts.collect();
    prompt::check_failed(&failed, &unknown, &prompt::fresh_tag(&texts)).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchwright_types::evidence::TestResults;

    fn run(command: &str, exit_code: i32) -> CheckRun {
        let command = command.to_owned();
        CheckRun { command, exit_code: Some(exit_code), ..CheckRun::default() }
    }

    fn told(base: &[CheckRun], head: &[CheckRun], asked_of: FailureScope) -> Option<String> {
        let evidence = Checks::default().evidence(base, head.to_vec());
        feedback(&evidence, None, asked_of).unwrap()
    }

    #[test]
    fn what_fails_goes_back_and_what_cannot_run_does_not() {
        let base = [run("a", 0), run("b", 1)];
        assert_eq!(told(&base, &[run("a", 0), run("b", 0)], FailureScope::Failing), None);
        let text = told(&base, &[run("a", 1), run("b", 1)], FailureScope::Failing).unwrap();
        assert!(text.contains("2 checks fail"), "{text}");
        let text = told(&base, &[run("a", 1), run("b", 1)], FailureScope::Broken).unwrap();
        assert!(text.contains("`a`: ") && !text.contains("`b`: "), "{text}");
        let missing = CheckRun { unrunnable: true, ..run("b", 127) };
        let before = [run("a", 0), missing.clone()];
        assert_eq!(told(&before, &[run("a", 0), missing.clone()], FailureScope::Failing), None);
        let text = told(&before, &[run("a", 1), missing], FailureScope::Failing).unwrap();
        assert!(text.contains("`b` could not be run here"), "{text}");
    }

    #[test]
    fn what_fails_without_a_test_and_in_the_same_words_is_nothing_new() {
        let said =
            |exit_code, tail: &str| CheckRun { tail: tail.to_owned(), ..run("a", exit_code) };
        let with_tests = CheckRun { tests: Some(TestResults::default()), ..said(1, "down") };
        for (about, base, head, expected) in [
            ("the same", said(1, "down after 3 s"), said(1, "down after 12 s"), true),
            ("other words", said(1, "down"), said(1, "syntax error"), false),
            ("another code", said(1, "down"), said(2, "down"), false),
            ("it passed before", said(0, "down"), said(1, "down"), false),
            ("tests ran", said(1, "down"), with_tests, false),
        ] {
            let evidence = Checks::default().evidence(&[base], vec![head]);
            assert_eq!(is_all_as_before(&evidence), expected, "{about}");
        }
        // One of another kind is given back with all of them.
        let base = [said(1, "down"), run("b", 0)];
        let evidence = Checks::default().evidence(&base, vec![said(1, "down"), run("b", 1)]);
        assert!(!is_all_as_before(&evidence));
    }

    #[test]
    fn what_failed_before_goes_back_while_the_model_works_on_it() {
        assert_eq!(FailureScope::in_round(0, false), FailureScope::Failing);
        assert_eq!(FailureScope::in_round(1, false), FailureScope::Red);
        assert_eq!(FailureScope::in_round(1, true), FailureScope::Broken);
    }
}
