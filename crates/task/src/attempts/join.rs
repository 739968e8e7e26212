//! From several attempts to one result: the choice, written down once, and what the whole run has used.

use super::choose::{self, Choice, DraftPolicy};
use super::fork::Attempt;
use super::judge::{self, JudgeChoice};
use super::{chosen_before, spent};
use crate::authorship;
use crate::job::{Job, Subject};
use crate::pipeline::{FinishedJob, PreparedJob};
use crate::progress::Progress;
use crate::run::{Run, interruption};
use crate::settle;
use patchwright_agent::budget::SharedBudget;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_journal::Entry;
use patchwright_provider::item::Usage;
use patchwright_types::attempts::{AttemptEnd, AttemptReport, Attempts};
use patchwright_types::outcome::{ModelUse, Outcome, Spending};

/// The best attempt as the result of the run.
///
/// # Errors
/// When none came to an outcome: why the first did not.
pub(super) async fn join(
    run: &Run<'_>,
    job: &Job<'_>,
    prepared: &PreparedJob,
    budget: &SharedBudget,
    progress: &Progress,
    mut all: Vec<Attempt>,
) -> Result<FinishedJob> {
    let attempts = match chosen_before(run) {
        Some(attempts) => attempts,
        None => selected(run, job, prepared, budget, &all).await?,
    };
    run.environment.ui.say(&format!("attempt {} is chosen: {}", attempts.chosen, attempts.why));
    let models = models(&all);
    let chosen = all.iter_mut().find(|attempt| attempt.report.attempt == attempts.chosen);
    let Some(mut finished) = chosen.and_then(|attempt| attempt.finished.take()) else {
        return Err(without_any(run, all));
    };
    progress.plan(&finished.outcome.plan);
    let FinishedJob { worked, judged, outcome } = &mut finished;
    if let (Some(change), None, false) = (&judged.change, judged.commit, judged.judgement.leaks()) {
        let requester = authorship::requester(run).await;
        judged.commit = Some(settle::make_commit(
            run,
            job,
            change,
            &worked.stopped.final_message,
            requester.as_deref(),
        )?);
    }
    // Its own tools say how it was made; the rest is what the whole run was.
    outcome.spending = Spending {
        wall_seconds: run.lasted().as_secs_f64(),
        tools: outcome.spending.tools.clone(),
        models,
        ..spent(&run.folder.path)?
    };
    outcome.spending.price_is_unknown =
        attempts.all.iter().any(|it| it.price_is_unknown && it.turns > 0);
    outcome.attempts = attempts;
    Ok(finished)
}

/// Chooses, and writes the choice down where it is the run's last word.
async fn selected(
    run: &Run<'_>,
    job: &Job<'_>,
    prepared: &PreparedJob,
    budget: &SharedBudget,
    all: &[Attempt],
) -> Result<Attempts> {
    let mut attempts = Attempts {
        all: all.iter().map(|attempt| attempt.report.clone()).collect(),
        ..Attempts::default()
    };
    let finished: Vec<(u32, &FinishedJob)> = all
        .iter()
        .filter_map(|attempt| Some((attempt.report.attempt, attempt.finished.as_ref()?)))
        .collect();
    let outcomes: Vec<(u32, &Outcome)> =
        finished.iter().map(|(number, finished)| (*number, &finished.outcome)).collect();
    let drafts = match job.subject {
        Subject::Campaign(_) => DraftPolicy::Dropped,
        Subject::Issue(_)
        | Subject::Exec(_)
        | Subject::Prompt(_)
        | Subject::Command(..)
        | Subject::Triage(_) => DraftPolicy::Published,
    };
    let Some(Choice { mut chosen, tied, mut why }) = choose::choose(&outcomes, drafts) else {
        return Ok(attempts);
    };
    let of = |number: u32| finished.iter().find(|(it, _)| *it == number).map(|(_, it)| *it);
    let conclusion = of(chosen).map(|finished| finished.outcome.conclusion);
    // What an outage or a signal has cut is resumed when the command is run again, and the choice with it.
    let is_final = !run.is_interrupted() && conclusion.is_some_and(|it| !it.is_resumable());
    let mut usage = Usage::default();
    if is_final && !tied.is_empty() {
        let compared: Vec<(u32, &FinishedJob)> =
            tied.iter().filter_map(|number| Some((*number, of(*number)?))).collect();
        let judged = judge::ask(run, job, prepared, budget, &compared).await?;
        usage = judged.usage;
        (chosen, why) = by_judge(chosen, &why, &judged);
        attempts.judge = Some(judged.report);
    } else if all.iter().any(Attempt::is_clearly_done) {
        why = first_done(why, all);
    }
    (attempts.chosen, attempts.why) = (chosen, why);
    if is_final {
        let cost_usd = attempts.judge.as_ref().map_or(0.0, |judge| judge.cost_usd);
        let entry = Entry::Selected { attempts: attempts.clone(), usage, cost_usd };
        run.journal(&entry)?;
        budget.count(&entry);
    }
    Ok(attempts)
}

fn by_judge(smallest: u32, why: &str, judged: &JudgeChoice) -> (u32, String) {
    match judged.chosen {
        Some(chosen) => {
            let others = judged.report.compared.len();
            (
                chosen,
                format!("the judge preferred it among {others} that are equal by their checks"),
            )
        }
        None => (smallest, format!("{why}; the judge did not decide")),
    }
}

/// Others were stopped, or not started, for one.
fn first_done(why: String, all: &[Attempt]) -> String {
    let is_without = |it: &AttemptReport| {
        matches!(it.end, AttemptEnd::StoppedEarly | AttemptEnd::NotStarted) && it.reason.is_none()
    };
    let ended = all.iter().filter(|it| it.finished.is_some()).count();
    if all.iter().any(|it| is_without(&it.report)) && ended == 1 {
        return "all checks pass, and it was done first".to_owned();
    }
    why
}

/// Why there is no result at all.
fn without_any(run: &Run<'_>, all: Vec<Attempt>) -> Failure {
    if run.is_interrupted() {
        return interruption(&run.environment).hint(run.files_hint());
    }
    let why = all.iter().find_map(|attempt| attempt.report.reason.clone());
    let failure = all.into_iter().find_map(|attempt| attempt.failure);
    failure.unwrap_or_else(|| {
        let why = why.unwrap_or_else(|| "its files are gone".to_owned());
        Failure::new(FailureKind::Budget, format!("no attempt came to a result: {why}"))
            .hint("raise the limit, or move the run's folder away to begin anew")
    })
}

/// What each model was used for, where there was more than one.
fn models(all: &[Attempt]) -> Vec<ModelUse> {
    let mut models: Vec<ModelUse> = Vec::new();
    let uses = all.iter().flat_map(|attempt| {
        let own = attempt.finished.as_ref().map(|it| it.worked.stopped.spending.models.clone());
        own.filter(|models| !models.is_empty()).unwrap_or_else(|| {
            let Spending { turns, usage, cost_usd, .. } = attempt.spending;
            vec![ModelUse { model: attempt.report.model.clone(), turns, usage, cost_usd }]
        })
    });
    for used in uses.filter(|used| used.turns > 0 || used.usage.total() > 0) {
        match models.iter_mut().find(|known| known.model == used.model) {
            Some(known) => known.add(&used),
            None => models.push(used),
        }
    }
    if models.len() > 1 { models } else { Vec::new() }
}
