//! How a run ended, decided from recorded facts: what the agent's stop, the change, the checks and the
//! policy say, never what the model claims.

use super::agent_phase::AgentResult;
use super::changed_tests::without_changed_tests;
use super::job::{Baseline, Job};
use super::run::Run;
use super::settle::{BlobsOf, JudgedChange};
use super::structured::Output;
use super::workspace::Workspace;
use patchwright_agent::{StopKind, budget};
use patchwright_base::text;
use patchwright_config::Mode;
use patchwright_policy::{Judgement, own_checks};
use patchwright_sandbox::PreparedImage;
use patchwright_types::attempts::Attempts;
use patchwright_types::evidence::{CheckRun, Evidence, Standing};
use patchwright_types::outcome::{Conclusion, Outcome, Provenance, Spending};
use patchwright_types::plan::Plan;
use patchwright_types::publish_notes::PublishNotes;
use patchwright_types::setup::SetupReport;

/// Decides how the run ended.
pub(super) fn decide(
    run: &Run<'_>,
    job: &Job<'_>,
    image: &PreparedImage,
    worked: &AgentResult,
    judged: &JudgedChange,
    evidence: Evidence,
) -> Outcome {
    let evidence = match &judged.change {
        Some(change) => {
            without_changed_tests(&job.checkout.workspace.repo, &change.files, evidence)
        }
        None => evidence,
    };
    // A plan is an answer, too.
    let words_are_enough = job.answer_suffices || run.config.mode == Mode::Plan;
    let (conclusion, reason) = conclude(words_are_enough, worked, judged, &evidence);
    let reason = limit_reached(run, worked).or(reason);
    let reason = reason.map(|reason| after_setup(reason, &evidence, &run.setup.lock()));
    let is_question = judged.change.is_none()
        && job.baseline != Baseline::None
        && run.config.mode == Mode::Execute
        && worked.stopped.ends_in_question();
    let (conclusion, reason) = match conclusion {
        Conclusion::Done | Conclusion::NothingToDo if is_question => {
            let why = "the model ended with a question, and changed nothing".to_owned();
            (Conclusion::NeedsInput, Some(why))
        }
        _ => (conclusion, reason),
    };
    let (conclusion, reason) = match (&worked.output, conclusion) {
        (Output::Unfit(why), Conclusion::Done | Conclusion::NothingToDo) => {
            (Conclusion::Partial, Some(format!("the result does not fit its schema: {why}")))
        }
        _ => (conclusion, reason),
    };
    Outcome {
        run: run.folder.id.clone(),
        conclusion,
        reason,
        final_message: worked.stopped.final_message.clone(),
        output: worked.output.value().cloned(),
        plan: worked.stopped.plan.clone(),
        change: judged.change.clone(),
        judgement: with_own_checks(&job.checkout.workspace, judged, &evidence),
        evidence,
        spending: spending(run, worked),
        provenance: provenance(run, &job.checkout.workspace, image, worked),
        attempts: Attempts::default(),
        publish_notes: PublishNotes::default(),
    }
}

/// What the policy says, and what it could not know: which files of the change the checks themselves are.
fn with_own_checks(workspace: &Workspace, judged: &JudgedChange, evidence: &Evidence) -> Judgement {
    let mut judgement = judged.judgement.clone();
    if let Some(change) = &judged.change {
        let ran = evidence.rows.iter().filter(|row| row.head.is_some());
        let commands = ran.map(|row| row.command.as_str());
        judgement.flags.extend(own_checks::flags(
            &change.files,
            &commands,
            &BlobsOf(&workspace.repo),
        ));
    }
    judgement
}

/// How a run ended in which no agent worked on a checkout: it has words, and no change.
pub(super) fn without_work(run: &Run<'_>, conclusion: Conclusion, message: &str) -> Outcome {
    Outcome {
        run: run.folder.id.clone(),
        conclusion,
        reason: None,
        final_message: message.to_owned(),
        output: None,
        plan: Plan::default(),
        change: None,
        evidence: Evidence::default(),
        judgement: Judgement::default(),
        spending: Spending::default(),
        provenance: Provenance {
            tool: format!("patchwright {}", patchwright_base::VERSION),
            run_url: run.environment.run_url.clone(),
            ..Provenance::default()
        },
        attempts: Attempts::default(),
        publish_notes: PublishNotes::default(),
    }
}

/// What the run used, with the time of all of it.
pub(super) fn spending(run: &Run<'_>, worked: &AgentResult) -> Spending {
    let wall_seconds = run.lasted().as_secs_f64();
    Spending { wall_seconds, ..worked.stopped.spending.clone() }
}

/// Where the result comes from.
pub(super) fn provenance(
    run: &Run<'_>,
    workspace: &Workspace,
    image: &PreparedImage,
    worked: &AgentResult,
) -> Provenance {
    let mut input_notes = worked.notes.clone();
    input_notes.extend(run.config.notes.iter().cloned());
    input_notes.extend(worked.stopped.notes.iter().cloned());
    Provenance {
        tool: format!("patchwright {}", patchwright_base::VERSION),
        model: models(run, worked),
        sandbox: run.world.sandbox.name().to_owned(),
        image: image.description.clone(),
        enforced: worked.enforced.clone(),
        base_branch: workspace.base_branch.clone(),
        base_sha: workspace.base.to_string(),
        run_url: run.environment.run_url.clone(),
        input_notes,
        instruction_files: worked.instruction_files.clone(),
        reached: run.reached(),
        setup: setup(run),
    }
}

/// The models that answered.
fn models(run: &Run<'_>, worked: &AgentResult) -> String {
    let models = &worked.stopped.spending.models;
    let used: Vec<&str> = models.iter().map(|used| used.model.as_str()).collect();
    if used.is_empty() { run.world.model.slug.clone() } else { used.join(", ") }
}

/// How the dependencies were installed, and what became of the services.
fn setup(run: &Run<'_>) -> SetupReport {
    SetupReport { services: run.services.report(), ..run.setup.lock().clone() }
}

/// How the run ended because of the agent's stop alone; `None` when the model finished.
pub(super) fn of_stop(stop: &StopKind) -> Option<Conclusion> {
    match stop {
        StopKind::Finished => None,
        StopKind::Cancelled => Some(Conclusion::Interrupted),
        StopKind::Provider(_) => Some(Conclusion::Provider),
        StopKind::Sandbox(_) | StopKind::Machine(_) => Some(Conclusion::Sandbox),
        StopKind::Refused | StopKind::Filtered | StopKind::EmptyReply | StopKind::CutOff => {
            Some(Conclusion::Provider)
        }
        StopKind::Budget(_)
        | StopKind::Unanswered(_)
        | StopKind::DoomLoop
        | StopKind::FormatErrors
        | StopKind::ContextExhausted
        | StopKind::NewSandbox => Some(Conclusion::Budget),
    }
}

/// Why a run ended at one of its limits, with the figures.
pub(super) fn limit_reached(run: &Run<'_>, worked: &AgentResult) -> Option<String> {
    let StopKind::Budget(which) = worked.stopped.reason else { return None };
    Some(match &run.attempt {
        // Where attempts share a limit, theirs together have reached it.
        Some(attempt) => attempt.budget.reached(which),
        None => budget::reached(which, &run.config.limits, &worked.stopped.spending),
    })
}

/// The agent's stop decides first, then the policy, then whether anything was changed, then the checks.
fn conclude(
    words_are_enough: bool,
    worked: &AgentResult,
    judged: &JudgedChange,
    evidence: &Evidence,
) -> (Conclusion, Option<String>) {
    let why = Some(worked.stopped.reason.sentence());
    if let Some(conclusion) = of_stop(&worked.stopped.reason) {
        return (conclusion, why);
    }
    if let Some(question) = worked.stopped.needs_input() {
        return (Conclusion::NeedsInput, Some(format!("the model needs an answer: {question}")));
    }
    if let Some(first) = judged.judgement.violations.first() {
        let place = first.path.as_deref().map(|path| format!("`{path}`: ")).unwrap_or_default();
        return (Conclusion::Refused, Some(format!("{place}{} ({})", first.message, first.rule)));
    }
    match (&judged.change, judged.judgement.held_back.first()) {
        (None, None) if words_are_enough => (Conclusion::Done, None),
        (None, None) => {
            (Conclusion::NothingToDo, Some(patchwright_report::answer::NO_CHANGE.to_owned()))
        }
        (None, Some(held)) => (
            Conclusion::Refused,
            Some(format!("`{}` may not be published ({})", held.file.path, held.rule)),
        ),
        (Some(_), Some(held)) => (
            Conclusion::Partial,
            Some(format!(
                "`{}` was kept back and is handed over as a patch ({})",
                held.file.path, held.rule
            )),
        ),
        (Some(change), None) if !change.refused.is_empty() => (
            Conclusion::Partial,
            Some(format!("`{}` cannot be published: {}", change.refused[0].0, change.refused[0].1)),
        ),
        // Nothing but what it put where git does not look: that is not what anybody waits for.
        (Some(change), None) if change.files.is_empty() && !change.ignored.is_empty() => (
            Conclusion::Partial,
            Some(format!("`{}` cannot be published: `.gitignore` ignores it", change.ignored[0])),
        ),
        (Some(_), None) => match red(evidence).or_else(|| unchecked(evidence)) {
            Some(why) => (Conclusion::Partial, Some(why)),
            None => (Conclusion::Done, None),
        },
    }
}

/// A check that came to its end before and did not have the time for it with the change.
fn unchecked(evidence: &Evidence) -> Option<String> {
    let ran = |run: &CheckRun| run.exit_code.is_some() && !run.timed_out && !run.unrunnable;
    let open = evidence.standing(&[Standing::NotRun]);
    // Where none ran on the change, that is another matter.
    let is_any = evidence.rows.iter().any(|row| row.head.is_some());
    let row = open.iter().find(|row| is_any && row.base.as_ref().is_some_and(ran))?;
    let command = text::code(&text::one_line(&row.command));
    Some(format!("{command} was run before the change, and not to its end with it"))
}

/// What the checks have against the change.
fn red(evidence: &Evidence) -> Option<String> {
    let red = evidence.red();
    let row = red.iter().find(|row| row.standing() == Standing::Broken).or(red.first())?;
    let command = text::code(&text::one_line(&row.command));
    let more = match red.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let tests = row.tests.as_ref().map(|tests| format!(" ({})", tests.line())).unwrap_or_default();
    let before = row.base.as_ref();
    Some(match row.standing() {
        Standing::Broken if row.head.as_ref().is_some_and(|head| head.sandbox_lost) => {
            format!(
                "{command} ran before the change, and its sandbox does not survive it now{more}"
            )
        }
        Standing::Broken if row.broke_off() && row.tests.is_some() => {
            format!(
                "the tests of {command} break off with the change, and did not before{tests}{more}"
            )
        }
        Standing::Broken if before.is_some_and(CheckRun::passed) => {
            format!("{command} passed before the change and fails with it{tests}{more}")
        }
        Standing::Broken if before.is_some_and(CheckRun::is_flaky) => {
            format!(
                "{command} fails with the change each time, and did once of two times before{tests}{more}"
            )
        }
        Standing::Broken => format!("{command} fails with the change{tests}{more}"),
        Standing::Altered => {
            format!(
                "{command} passes because the tests that failed are changed, and nothing else{tests}{more}"
            )
        }
        Standing::Silenced => {
            format!("{command} passes because tests that failed before no longer run{tests}{more}")
        }
        _ => format!("{command} still fails, as it did before the change{tests}{more}"),
    })
}

/// What the checks have against the change, with what may be the cause where no test ran: that setup failed.
fn after_setup(reason: String, evidence: &Evidence, setup: &SetupReport) -> String {
    let ran = |run: &Option<CheckRun>| run.as_ref().is_some_and(|run| run.tests.is_some());
    let is_tested = evidence.red().iter().any(|row| ran(&row.base) || ran(&row.head));
    match setup.why_failed() {
        Some(why) if !is_tested && red(evidence).as_ref() == Some(&reason) => {
            format!("{reason}; no test ran, and setup had failed ({why})")
        }
        Some(_) | None => reason,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::decide::{AgentResult, Conclusion, StopKind, after_setup, conclude};
    use crate::settle::JudgedChange;
    use crate::structured::Output;
    use patchwright_agent::Stopped;
    use patchwright_git::Oid;
    use patchwright_git::tree::{Change, FileChange, OverLimit};
    use patchwright_policy::{HeldBack, Judgement, Violation};
    use patchwright_types::evidence::{CheckRun, Evidence, EvidenceRow, TestResults};
    use patchwright_types::outcome::Spending;
    use patchwright_types::plan::Plan;
    use patchwright_types::setup::{SetupReport, SetupStep};

    fn worked(reason: StopKind, final_message: &str) -> AgentResult {
        let stopped = Stopped {
            reason,
            final_message: final_message.to_owned(),
            plan: Plan::default(),
            findings: Vec::new(),
            spending: Spending::default(),
            touched: BTreeSet::new(),
            notes: Vec::new(),
        };
        AgentResult {
            stopped,
            change: None,
            is_salvaged: false,
            checked: None,
            output: Output::NotWanted,
            baseline: Vec::new(),
            notes: Vec::new(),
            instruction_files: Vec::new(),
            enforced: Vec::new(),
            image: None,
        }
    }

    fn change(refused: &[(&str, &str)]) -> Change {
        let zero = Oid(git2::Oid::ZERO_SHA1);
        let owned = |(path, why): &(&str, &str)| ((*path).to_owned(), (*why).to_owned());
        Change {
            base: zero,
            tree: zero,
            files: Vec::new(),
            refused: refused.iter().map(owned).collect(),
            beyond: OverLimit::default(),
            artefacts: Vec::new(),
            ignored: Vec::new(),
        }
    }

    fn held_back() -> HeldBack {
        let file = FileChange {
            path: ".github/workflows/a.yml".to_owned(),
            old: None,
            new: None,
            added_lines: 1,
            removed_lines: 0,
            binary: false,
        };
        HeldBack { file, rule: "path.workflow".to_owned() }
    }

    fn judged(change: Option<Change>, judgement: Judgement) -> JudgedChange {
        JudgedChange { judgement, change, ..JudgedChange::default() }
    }

    fn check(exit_code: i32) -> CheckRun {
        let command = "make test".to_owned();
        CheckRun { command, exit_code: Some(exit_code), ..CheckRun::default() }
    }

    #[test]
    fn a_run_whose_own_check_is_red_is_partly_done() {
        let why = "`make test` still fails, as it did before the change";
        let broke = "`make test` passed before the change and fails with it";
        let rows = [
            ("repaired", check(1), check(0), Conclusion::Done, None),
            ("not repaired", check(1), check(1), Conclusion::Partial, Some(why)),
            ("broken", check(0), check(1), Conclusion::Partial, Some(broke)),
        ];
        for (about, base, head, expected, said) in rows {
            let rows = vec![EvidenceRow::new(Some(base), Some(head))];
            let evidence = Evidence { rows, ..Evidence::default() };
            let judged = judged(Some(change(&[])), Judgement::default());
            let (conclusion, reason) =
                conclude(false, &worked(StopKind::Finished, "Done."), &judged, &evidence);
            assert_eq!((conclusion, reason.as_deref()), (expected, said), "{about}");
        }
    }

    #[test]
    fn a_red_check_without_tests_is_told_with_the_setup_that_failed() {
        let step = SetupStep { name: "npm ci".to_owned(), ..SetupStep::default() };
        let setup = SetupReport { steps: vec![step], ..SetupReport::default() };
        let evidence = |run: &CheckRun| Evidence {
            rows: vec![EvidenceRow::new(Some(run.clone()), Some(run.clone()))],
            ..Evidence::default()
        };
        let said = "`make test` still fails, as it did before the change";
        let with = format!(
            "{said}; no test ran, and setup had failed (`npm ci`: not run: the time for setup was up)"
        );
        let tested = CheckRun { tests: Some(TestResults::default()), ..check(1) };
        for (about, run, setup, reason, expected) in [
            ("setup failed", check(1), &setup, said, with.as_str()),
            ("setup went well", check(1), &SetupReport::default(), said, said),
            ("tests ran", tested, &setup, said, said),
            ("another reason", check(1), &setup, "the limit was met", "the limit was met"),
        ] {
            let told = after_setup(reason.to_owned(), &evidence(&run), setup);
            assert_eq!(told, expected, "{about}");
        }
    }

    #[test]
    fn a_check_that_ran_before_and_not_with_the_change_is_missing() {
        let other = CheckRun { command: "other".to_owned(), ..check(0) };
        let rows = vec![
            EvidenceRow::new(Some(other.clone()), Some(other)),
            EvidenceRow::new(Some(check(0)), None),
        ];
        let evidence = Evidence { rows, ..Evidence::default() };
        let judged = judged(Some(change(&[])), Judgement::default());
        let worked = worked(StopKind::Finished, "Done.");
        let (conclusion, _) = conclude(false, &worked, &judged, &evidence);
        assert_eq!(conclusion, Conclusion::Partial);
    }

    #[test]
    fn a_finished_run_is_done_only_when_all_of_its_change_may_be_published() {
        let held = || Judgement { held_back: vec![held_back()], ..Judgement::default() };
        let none = Judgement::default;
        let nothing = Evidence::default();
        for (about, words_are_enough, change, judgement, expected) in [
            ("an answer", true, None, none(), Conclusion::Done),
            ("no change", false, None, none(), Conclusion::NothingToDo),
            ("a change", false, Some(change(&[])), none(), Conclusion::Done),
            ("all of it held back", false, None, held(), Conclusion::Refused),
            ("all of it, beside an answer", true, None, held(), Conclusion::Refused),
            ("part of it", false, Some(change(&[])), held(), Conclusion::Partial),
            ("a file that no tree may have", true, Some(change(&[("a\\b", "no path")])), none(), {
                Conclusion::Partial
            }),
        ] {
            let worked = worked(StopKind::Finished, "Done.");
            let (conclusion, reason) =
                conclude(words_are_enough, &worked, &judged(change, judgement), &nothing);
            assert_eq!(conclusion, expected, "{about}: {reason:?}");
            assert_eq!(reason.is_none(), expected == Conclusion::Done, "{about}: {reason:?}");
        }
    }

    #[test]
    fn the_stop_decides_before_the_policy_and_the_policy_before_the_change() {
        let violation = Violation {
            rule: "secret.own".to_owned(),
            path: Some("a.txt".to_owned()),
            message: "line 1 contains `token`".to_owned(),
        };
        let broken = Judgement {
            violations: vec![violation],
            held_back: vec![held_back()],
            flags: Vec::new(),
        };
        let refused = judged(Some(change(&[])), broken);
        for (reason, message, expected) in [
            (StopKind::Finished, "Done.", Conclusion::Refused),
            (StopKind::Finished, "NEEDS INPUT: which one?", Conclusion::NeedsInput),
            (StopKind::Cancelled, "Done.", Conclusion::Interrupted),
            (StopKind::DoomLoop, "NEEDS INPUT: which one?", Conclusion::Budget),
            (StopKind::Refused, "Done.", Conclusion::Provider),
        ] {
            let (conclusion, said) =
                conclude(true, &worked(reason, message), &refused, &Evidence::default());
            assert_eq!(conclusion, expected, "{said:?}");
            assert!(said.is_some());
        }
        let (_, said) =
            conclude(true, &worked(StopKind::Finished, "Done."), &refused, &Evidence::default());
        assert_eq!(said.unwrap(), "`a.txt`: line 1 contains `token` (secret.own)");
    }
}
