//! One attempt: a run inside the run, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::super::folder::attempt_folder;
use super::choose;
use super::spent::used;
use crate::agent_phase;
use crate::brief::Brief;
use crate::job::Job;
use crate::pipeline::{self, FinishedJob, PreparedJob};
use crate::progress::Progress;
use crate::run::{AttemptContext, Run, RunEnvironment};
use crate::salvage;
use crate::settle::JudgedChange;
use crate::world::World;
use patchwright_agent::StopKind;
use patchwright_agent::budget::{LimitKind, SharedBudget};
use patchwright_base::error::{Failure, Result};
use patchwright_base::text;
use patchwright_config::Config;
use patchwright_journal::{self as journal, Entry};
use patchwright_types::attempts::{AttemptEnd, AttemptReport};
use patchwright_types::evidence::Verdict;
use patchwright_types::outcome::{Conclusion, Outcome, Spending};

/// Bytes of a reason in the report.
const REASON: usize = 600;

/// What the attempts of a run are made of.
pub(super) struct AttemptRunner<'a> {
    pub run: &'a Run<'a>,
    pub count: u32,
    /// What all of them may use together.
    pub budget: Arc<SharedBudget>,
    /// Ends those that are at work; the run itself goes on.
    pub stop: CancellationToken,
    /// By the attempts' numbers, from 1.
    models: Vec<AttemptModel>,
}

/// What one attempt asks.
struct AttemptModel {
    /// As the operator named it.
    name: String,
    world: World,
    config: Config,
}

/// An attempt that is over, or will not begin.
pub(super) struct Attempt {
    pub report: AttemptReport,
    pub spending: Spending,
    /// What it came to, where it came to an outcome.
    pub finished: Option<FinishedJob>,
    pub failure: Option<Failure>,
}

impl Attempt {
    /// There is nothing that another attempt could do better, as far as anything can show it.
    pub(super) fn is_clearly_done(&self) -> bool {
        self.finished.as_ref().is_some_and(|finished| {
            let Outcome { conclusion, change, evidence, .. } = &finished.outcome;
            *conclusion == Conclusion::Done
                && change.is_some()
                && matches!(evidence.verdict(), Verdict::Passed(_))
        })
    }
}

impl Attempt {
    /// What it has left too little of for any other attempt: all of them share it.
    pub(super) fn used_up(&self) -> Option<LimitKind> {
        match self.finished.as_ref()?.worked.stopped.reason {
            StopKind::Budget(which @ (LimitKind::Dollars | LimitKind::Tokens)) => Some(which),
            _ => None,
        }
    }
}

impl<'a> AttemptRunner<'a> {
    pub(super) fn new(
        run: &'a Run<'a>,
        count: u32,
        budget: Arc<SharedBudget>,
        stop: CancellationToken,
    ) -> AttemptRunner<'a> {
        let models = (1..=count).map(|number| AttemptModel::of(run, number)).collect();
        AttemptRunner { run, count, budget, stop, models }
    }

    fn model(&self, number: u32) -> &AttemptModel {
        // There are as many as attempts, and at least one.
        let at = (number.max(1) as usize - 1).min(self.models.len() - 1);
        &self.models[at]
    }

    pub(super) fn model_name(&self, number: u32) -> &str {
        &self.model(number).name
    }

    /// Prepared replies go on behind those that the journals of the attempts have.
    pub(super) fn resume_prepared_replies(&self) {
        let mut said: BTreeMap<&str, (usize, &World)> = BTreeMap::new();
        for number in 1..=self.count {
            let path = attempt_folder(&self.run.folder.path, number).join(journal::FILE);
            let AttemptModel { name, world, .. } = self.model(number);
            let (lines, _) = journal::read_until_damage(&path);
            let replies: usize = lines.iter().map(|line| line.entry.replies().len()).sum();
            said.entry(name).or_insert((0, world)).0 += replies;
        }
        for (replies, world) in said.into_values().filter(|(replies, _)| *replies > 0) {
            world.provider.resume_at(None, replies);
        }
    }

    /// The run of one attempt.
    fn fork(&self, number: u32) -> Result<Run<'_>> {
        let AttemptModel { world, config, .. } = self.model(number);
        let run = self.run;
        let environment = RunEnvironment {
            ui: run.environment.ui.of_attempt(number),
            cancel: self.stop.clone(),
            ..run.environment.clone()
        };
        let setup = run.setup.lock().clone();
        Ok(Run {
            world,
            config: config.clone(),
            folder: Arc::new(run.folder.attempt(world, number)?),
            environment,
            setup: Arc::new(Mutex::new(setup)),
            attempt: Some(AttemptContext { number, budget: Arc::clone(&self.budget) }),
            ..run.clone()
        })
    }

    /// The attempts that had come to their end before this process.
    pub(super) async fn ended_before(
        &self,
        job: &Job<'_>,
        prepared: &PreparedJob,
    ) -> Result<BTreeMap<u32, Attempt>> {
        let mut ended = BTreeMap::new();
        for number in 1..=self.count {
            let path = attempt_folder(&self.run.folder.path, number).join(journal::FILE);
            if !path.exists() {
                continue;
            }
            let run = self.fork(number)?;
            if let Some(finished) = taken_over(&run, job, prepared).await? {
                let lasted = run.folder.lasted_before();
                ended.insert(number, self.came_to(number, Ok(finished), lasted));
            }
        }
        Ok(ended)
    }

    /// Makes an attempt, or resumes one that was cut.
    pub(super) async fn attempt(
        &self,
        job: &Job<'_>,
        prepared: &PreparedJob,
        progress: &Progress,
        number: u32,
    ) -> Attempt {
        let begun = Instant::now();
        let mut before = Duration::ZERO;
        let result = match self.fork(number) {
            Ok(run) => {
                before = run.folder.lasted_before();
                let name = format!("Attempt {number} of {}", self.count);
                let progress = progress.of_attempt(run.environment.ui, name);
                Box::pin(work(&run, job, prepared, &progress)).await
            }
            Err(failure) => Err(failure),
        };
        self.came_to(number, result, before + begun.elapsed())
    }

    /// What is said of an attempt that has nothing to choose from: it never began, or was stopped.
    pub(super) fn not_started(&self, number: u32, why: Option<String>) -> Attempt {
        let spending = self.used(number);
        let has_begun = spending.turns > 0 || spending.usage.total() > 0;
        let end = if has_begun { AttemptEnd::StoppedEarly } else { AttemptEnd::NotStarted };
        let report = AttemptReport { reason: why, ..self.report(number, end, &spending) };
        Attempt { report, spending, finished: None, failure: None }
    }

    /// `lasted`: its own time, without that of the attempts before it.
    fn came_to(&self, number: u32, result: Result<FinishedJob>, lasted: Duration) -> Attempt {
        let spending = self.used(number);
        let is_cut = self.stop.is_cancelled() && !self.run.is_interrupted();
        let of = |end| self.report(number, end, &spending);
        match result {
            // Whatever it came to, it has no last line, so it cannot be taken over.
            Ok(_) | Err(_) if is_cut => {
                let report = of(AttemptEnd::StoppedEarly);
                Attempt { report, spending, finished: None, failure: None }
            }
            Ok(finished) => {
                let known =
                    AttemptReport { wall_seconds: lasted.as_secs_f64(), ..of(AttemptEnd::Ended) };
                let report = choose::report(&finished.outcome, known);
                Attempt { report, spending, finished: Some(finished), failure: None }
            }
            Err(failure) => {
                let said = self.run.world.redactor.redact(&failure.message);
                let reason = Some(text::cut(&text::line(&said), REASON));
                let report = AttemptReport { reason, ..of(AttemptEnd::Failed) };
                Attempt { report, spending, finished: None, failure: Some(failure) }
            }
        }
    }

    fn report(&self, number: u32, end: AttemptEnd, spending: &Spending) -> AttemptReport {
        let begun_with = self.run.folder.find(|entry| match entry {
            Entry::AttemptStarted { attempt, model } if *attempt == number => Some(model.clone()),
            _ => None,
        });
        AttemptReport {
            attempt: number,
            model: begun_with.unwrap_or_else(|| self.model_name(number).to_owned()),
            end,
            turns: spending.turns,
            tokens: spending.usage.total(),
            cost_usd: spending.cost_usd,
            price_is_unknown: spending.price_is_unknown
                || self.model(number).world.model.price.is_none(),
            ..AttemptReport::default()
        }
    }

    /// What an attempt has used, whichever process did.
    fn used(&self, number: u32) -> Spending {
        let folder = attempt_folder(&self.run.folder.path, number);
        used(&folder).unwrap_or_else(|failure| {
            self.run.environment.ui.warn(&format!("attempt {number} is not counted: {failure}"));
            Spending::default()
        })
    }
}

impl AttemptModel {
    fn of(run: &Run<'_>, number: u32) -> AttemptModel {
        let names = &run.config.attempt_models;
        let at = (number.max(1) as usize - 1) % names.len().max(1);
        let name = names.get(at).unwrap_or(&run.config.model);
        let other = run.world.others.attempts.iter().find(|other| other.name == *name);
        let (world, config) = match other {
            Some(other) => {
                (run.world.with_model(other), other.config(&run.config, &run.world.model))
            }
            None => (run.world.clone(), run.config.clone()),
        };
        // Its journal is one of a run with one attempt, as far as a replay is concerned.
        let config =
            Config { attempts: 1, attempt_models: Vec::new(), judge_model: None, ..config };
        AttemptModel { name: name.clone(), world, config }
    }
}

/// The work of an attempt, with the files that each run leaves.
async fn work(
    run: &Run<'_>,
    job: &Job<'_>,
    prepared: &PreparedJob,
    progress: &Progress,
) -> Result<FinishedJob> {
    run.journal_start()?;
    let workspace = &job.checkout.workspace;
    let is_opened = |entry: &Entry| matches!(entry, Entry::WorkspaceOpened { .. });
    let recorded = &run.folder.recorded;
    if !recorded.iter().any(|line| is_opened(&line.entry)) || run.was_elsewhere(recorded, is_opened)
    {
        run.opened(workspace, &prepared.image)?;
    }
    let finished = pipeline::attempt(run, job, prepared, None, progress).await?;
    // The run writes its own files from the outcome as it is; remarks about these here stay here.
    let mut told = finished.outcome.clone();
    salvage::write(run, workspace, &mut told, &finished.judged)?;
    salvage::write_report(run, &told, None);
    run.end(&finished.outcome)?;
    Ok(finished)
}

/// An attempt that had come to its end, from its journal.
async fn taken_over(
    run: &Run<'_>,
    job: &Job<'_>,
    prepared: &PreparedJob,
) -> Result<Option<FinishedJob>> {
    let outcome = run.folder.find(|entry| match entry {
        Entry::RunEnded { outcome } => Some(outcome.as_ref().clone()),
        _ => None,
    });
    let Some(outcome) = outcome else { return Ok(None) };
    let reason = run.folder.find(|entry| match entry {
        Entry::Stopped { reason, .. } => StopKind::final_by_word(reason),
        _ => None,
    });
    let reason = reason.unwrap_or(StopKind::Finished);
    let brief = Brief::of_job(run, job, &prepared.checks, &prepared.baseline).await?;
    let left = (reason, outcome.change.clone());
    let worked = agent_phase::rebuilt(run, &prepared.baseline, &brief, left);
    let judged = JudgedChange {
        judgement: outcome.judgement.clone(),
        change: outcome.change.clone(),
        // The run makes its own from the change.
        commit: None,
        held_back_patch: fs_err::read(run.folder.path.join(salvage::HELD_BACK)).ok(),
    };
    Ok(Some(FinishedJob { worked, judged, outcome }))
}
