//! Several attempts at the work of one run: forked where the workspace is prepared and the checks have run on the
//! base, joined by a choice before anything is published.
//!
//! Each attempt is a run inside the run. It has a folder (`attempts/N`) with a journal, checkpoints and a report of
//! its own, a conversation and sandboxes of its own; it shares setup, the checks before the change, the budget and
//! the deadline. The run's own journal says which attempts were begun and how they ended, and has the choice, which
//! is made once: a run that is resumed takes over what has ended and resumes what was cut.
//!
//! [`choose`] decides by what was verified, [`judge`] asks a model where that leaves several.

mod choose;
mod fork;
mod join;
mod judge;
mod replayed;
mod spent;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use self::fork::{Attempt, AttemptRunner};
pub use self::replayed::conversation;
pub(crate) use self::spent::spent;
use super::job::{Job, Subject};
use super::pipeline::{FinishedJob, PreparedJob};
use super::progress::Progress;
use super::run::Run;
use patchwright_agent::StopKind;
use patchwright_agent::budget::{Decision, SharedBudget};
use patchwright_base::error::Result;
use patchwright_config::{MOST_ATTEMPTS, Mode};
use patchwright_journal::Entry;
use patchwright_types::attempts::{AttemptEnd, AttemptReport, Attempts};

/// How many attempts there are to be; `None` for a run without any. A killed run is resumed as it began.
pub(super) fn wanted(run: &Run<'_>, job: &Job<'_>) -> Option<u32> {
    let begun = run.folder.recorded.iter().filter_map(|line| match &line.entry {
        Entry::AttemptStarted { attempt, .. } => Some((*attempt).min(MOST_ATTEMPTS)),
        _ => None,
    });
    let begun = begun.max().unwrap_or_default();
    let is_of_one = run.folder.find(|entry| matches!(entry, Entry::Prompted { .. }).then_some(()));
    let may_have_several = match job.subject {
        Subject::Issue(_) | Subject::Exec(_) | Subject::Prompt(_) | Subject::Campaign(_) => {
            run.config.mode == Mode::Execute
        }
        Subject::Command(..) | Subject::Triage(_) => false,
    };
    if is_of_one.is_some() || (begun == 0 && !may_have_several) {
        return None;
    }
    let count = if may_have_several { run.config.attempts().max(begun) } else { begun };
    (count > 1 || begun > 0).then_some(count)
}

/// Makes the attempts and chooses one. Its change is committed by the run itself.
pub(super) async fn carry_out(
    run: &Run<'_>,
    job: &Job<'_>,
    prepared: &PreparedJob,
    progress: &Progress,
    count: u32,
) -> Result<FinishedJob> {
    let budget = Arc::new(SharedBudget::new(&run.config.limits));
    budget.start_at(spent(&run.folder.path)?);
    let stop = run.environment.cancel.child_token();
    let forks = AttemptRunner::new(run, count, Arc::clone(&budget), stop.clone());
    forks.resume_prepared_replies();
    // The last moment before money is spent.
    progress.must_be_alone(run).await?;
    let mut all = forks.ended_before(job, prepared).await?;
    if chosen_before(run).is_none() {
        work(&forks, job, prepared, progress, &mut all).await?;
    }
    for number in 1..=count {
        all.entry(number).or_insert_with(|| forks.not_started(number, None));
    }
    run.journal_reached()?;
    let all: Vec<Attempt> = all.into_values().collect();
    join::join(run, job, prepared, &budget, progress, all).await
}

/// The choice that a killed process had made.
fn chosen_before(run: &Run<'_>) -> Option<Attempts> {
    run.folder.find(|entry| match entry {
        Entry::Selected { attempts, .. } => Some(attempts.clone()),
        _ => None,
    })
}

/// Makes those attempts that are not there yet, as many at once as the machine takes, until one is clearly done.
async fn work(
    forks: &AttemptRunner<'_>,
    job: &Job<'_>,
    prepared: &PreparedJob,
    progress: &Progress,
    all: &mut BTreeMap<u32, Attempt>,
) -> Result<()> {
    let (run, stop) = (forks.run, &forks.stop);
    let mut waiting: VecDeque<u32> = (1..=forks.count).filter(|it| !all.contains_key(it)).collect();
    if all.values().any(Attempt::is_clearly_done) {
        waiting.clear();
    }
    let at_once = at_once(run);
    let mut working = FuturesUnordered::new();
    // By an attempt of this process: the limit of an earlier one may have been raised since.
    let mut used_up = None;
    loop {
        while working.len() < at_once && !stop.is_cancelled() {
            let Some(number) = waiting.pop_front() else { break };
            let decision =
                used_up.map_or_else(|| forks.budget.decide(0.0, run.remaining()), Decision::Stop);
            if let Decision::Stop(which) = decision {
                let why = StopKind::Budget(which).sentence();
                run.environment.ui.warn(&format!("attempt {number} is not started: {why}"));
                all.insert(number, forks.not_started(number, Some(why)));
                continue;
            }
            let model = forks.model_name(number).to_owned();
            run.journal(&Entry::AttemptStarted { attempt: number, model })?;
            working.push(forks.attempt(job, prepared, progress, number));
        }
        let Some(attempt) = working.next().await else { break };
        ended(run, &attempt)?;
        used_up = used_up.or(attempt.used_up());
        if attempt.is_clearly_done() && !stop.is_cancelled() {
            waiting.clear();
            end_others(run, stop, attempt.report.attempt, working.len());
        }
        all.insert(attempt.report.attempt, attempt);
    }
    Ok(())
}

/// Writes down how an attempt ended, and says it.
fn ended(run: &Run<'_>, attempt: &Attempt) -> Result<()> {
    let AttemptReport { attempt: number, end, .. } = attempt.report;
    run.environment.ui.say(&format!("attempt {number}: {}", words(&attempt.report)));
    // What a signal has cut is resumed when the command is run again.
    if run.is_interrupted() || end == AttemptEnd::NotStarted {
        return Ok(());
    }
    run.journal(&Entry::AttemptEnded {
        report: attempt.report.clone(),
        usage: attempt.spending.usage,
        cost_usd: attempt.spending.cost_usd,
    })
}

fn words(report: &AttemptReport) -> String {
    let AttemptReport { end, conclusion, checks, files, added, removed, cost_usd, .. } = report;
    match (end, conclusion) {
        (AttemptEnd::Ended, Some(conclusion)) => {
            let word = conclusion.word();
            let plural = if *files == 1 { "" } else { "s" };
            format!(
                "{word}, checks: {checks}, {files} file{plural} +{added} −{removed}, ${cost_usd:.4}"
            )
        }
        (end, _) => {
            let why = report.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{}{why}, ${cost_usd:.4}", end.words())
        }
    }
}

fn end_others(run: &Run<'_>, stop: &CancellationToken, done: u32, others: usize) {
    stop.cancel();
    let others = match others {
        0 => String::new(),
        1 => ", and the other one is stopped".to_owned(),
        count => format!(", and the {count} others are stopped"),
    };
    run.environment.ui.say(&format!("attempt {done} is done, all checks pass{others}"));
}

/// Attempts that are worked on at the same time.
fn at_once(run: &Run<'_>) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    match run.config.attempts_at_once {
        Some(most) => most.clamp(1, MOST_ATTEMPTS) as usize,
        // The model is what an attempt waits for most of the time; its checks are what the machine waits for.
        None => (processors() / 2).clamp(1, MOST_ATTEMPTS as usize),
    }
}
