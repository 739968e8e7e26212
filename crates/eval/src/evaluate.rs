//! Models at work on instances: each in a sandbox like any other run, without the tests that decide, and then judged.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use futures_util::StreamExt;
use parking_lot::Mutex;

use crate::instance::{Instance, Prediction};
use crate::judge::{Judge, with_image};
use crate::ledger::{Key, Ledger, Proposal, Row, Used};
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::ui::Ui;
use patchwright_config::Config;
use patchwright_git::patching::files_of;
use patchwright_prompt as prompt;
use patchwright_task::pipeline::{self, RunReport};
use patchwright_task::run::RunEnvironment;
use patchwright_task::world::World;
use patchwright_types::outcome::{Conclusion, Outcome, Spending};
use patchwright_types::task::ExecRequest;

/// Failures one after the other that end an evaluation: what they have in common does not go away by itself.
const MAX_FAILURES: u32 = 3;
/// Bytes of a change.
const MAX_PATCH: u64 = 64 << 20;

/// The ways in which a model's work comes to an end of its own.
const ENDS: &[Conclusion] = &[
    Conclusion::Done,
    Conclusion::NothingToDo,
    Conclusion::NeedsInput,
    Conclusion::Partial,
    Conclusion::Refused,
    Conclusion::Budget,
];

/// A model that takes part.
pub struct Contestant {
    /// As the operator names it.
    pub name: String,
    pub config: Config,
    pub world: World,
}

/// Where the repositories of instances are.
#[derive(Clone, Debug, Default)]
pub struct Repositories {
    /// By `owner/name`.
    pub named: BTreeMap<String, String>,
    /// For all others.
    pub any: Option<String>,
    /// The server of those of which nothing is said.
    pub server: String,
}

impl Repositories {
    /// A folder or a URL.
    pub fn find(&self, repo: &str) -> String {
        let known = self.named.get(repo).or(self.any.as_ref());
        known.cloned().unwrap_or_else(|| format!("{}/{repo}", self.server.trim_end_matches('/')))
    }
}

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Times that each model works on each instance.
    pub trials: u32,
    /// Pieces of work at the same time.
    pub jobs: usize,
    /// Nothing is begun once this many dollars are spent.
    pub budget_usd: Option<f64>,
}

/// An evaluation.
pub struct Evaluation<'a> {
    pub instances: &'a [Instance],
    pub contestants: &'a [Contestant],
    pub judge: Judge<'a>,
    pub repositories: &'a Repositories,
    pub scope: Scope,
    pub ui: Ui,
}

/// What is left when an evaluation has ended.
#[derive(Debug, Default)]
pub struct Left {
    /// Pieces of work that failed, and why: they are tried again by the same command.
    pub failed: Vec<(Key, String)>,
    /// Pieces of work that were not begun.
    pub not_begun: usize,
    /// What has ended all of it before its time.
    pub fatal: Option<Failure>,
}

impl Left {
    pub fn is_nothing(&self) -> bool {
        self.failed.is_empty() && self.not_begun == 0
    }
}

/// One model's work on one instance.
struct Job<'a> {
    key: Key,
    instance: &'a Instance,
    contestant: &'a Contestant,
}

/// Who of the jobs has seen what.
#[derive(Default)]
struct Shared {
    failures_in_a_row: AtomicU32,
    is_ending: AtomicBool,
    left: Mutex<Left>,
}

impl Shared {
    /// Says how it went, and keeps what failed.
    fn note(&self, key: Key, done: Result<Row>, ui: Ui) {
        let name = key.in_words();
        match done {
            Ok(row) => {
                self.failures_in_a_row.store(0, Ordering::Relaxed);
                let cost = row.used.cost_usd;
                let price =
                    if row.used.is_of_a_run() { format!(", ${cost:.2}") } else { String::new() };
                ui.say(&format!("{name}: {}{price}", row.judgement.in_words()));
            }
            Err(failure) => {
                ui.warn(&format!("{name} has no result: {}", failure.message));
                let in_a_row = self.failures_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
                let is_over = matches!(failure.kind, FailureKind::Signal(_));
                let mut left = self.left.lock();
                left.failed.push((key, failure.message.clone()));
                if is_over || in_a_row >= MAX_FAILURES {
                    self.is_ending.store(true, Ordering::Relaxed);
                    left.fatal.get_or_insert(failure);
                }
            }
        }
    }
}

impl Evaluation<'_> {
    /// Does what is not done yet. All instances come before the second trial at one, and all models before the next
    /// instance, so that what is there when it is cut off can be compared.
    ///
    /// An interruption, or failures that will come again, end it: see [`Left::fatal`].
    pub async fn run(&self, ledger: Ledger) -> (Ledger, Left) {
        let jobs = self.jobs(&ledger);
        let (ledger, shared, all) = (Mutex::new(ledger), Shared::default(), jobs.len());
        let begun = jobs.into_iter().enumerate().map(|(at, job)| {
            let place = format!("{} of {all}", at + 1);
            self.one(job, place, &ledger, &shared)
        });
        let work = futures_util::stream::iter(begun).buffer_unordered(self.scope.jobs.max(1));
        work.collect::<()>().await;
        (ledger.into_inner(), shared.left.into_inner())
    }

    /// A job, if there is still a reason to begin it.
    async fn one(&self, job: Job<'_>, place: String, ledger: &Mutex<Ledger>, shared: &Shared) {
        let spent = ledger.lock().spent();
        let is_used_up = self.scope.budget_usd.is_some_and(|budget| spent >= budget);
        if shared.is_ending.load(Ordering::Relaxed) || is_used_up {
            shared.left.lock().not_begun += 1;
            return;
        }
        self.ui.say(&format!("{place}: {}", job.key.in_words()));
        let done = Box::pin(self.work(&job, ledger)).await;
        shared.note(job.key, done, self.ui);
    }

    fn jobs(&self, ledger: &Ledger) -> Vec<Job<'_>> {
        let mut jobs = Vec::new();
        for trial in 1..=self.scope.trials {
            for instance in self.instances {
                for contestant in self.contestants {
                    let key = Key {
                        instance_id: instance.instance_id.clone(),
                        model: contestant.name.clone(),
                        trial,
                    };
                    if ledger.row(&key).is_none() {
                        jobs.push(Job { key, instance, contestant });
                    }
                }
            }
        }
        jobs
    }

    /// The work, and its judgement. What a killed evaluation had done of it is not done again.
    async fn work(&self, job: &Job<'_>, ledger: &Mutex<Ledger>) -> Result<Row> {
        let known = ledger.lock().proposal(&job.key).cloned();
        let proposal = if let Some(proposal) = known {
            proposal
        } else {
            let folder = ledger.lock().folder_of("runs", &job.key);
            let proposal = self.solve(job, &folder).await?;
            ledger.lock().propose(proposal.clone())?;
            proposal
        };
        let folder = ledger.lock().folder_of("judged", &job.key);
        let repository = self.repositories.find(&job.instance.repo);
        let patch = &proposal.prediction.model_patch;
        let judgement = self.judge.judge(job.instance, &repository, patch, folder).await?;
        let row = Row { key: job.key.clone(), judgement, used: proposal.used };
        ledger.lock().judge(row.clone())?;
        Ok(row)
    }

    /// The model's work.
    async fn solve(&self, job: &Job<'_>, folder: &Path) -> Result<Proposal> {
        let Job { key, instance, contestant } = job;
        // What nobody can judge is not paid for.
        files_of(&instance.test_patch).map_err(|err| {
            Failure::usage(format!("the `test_patch` of `{}` cannot be used", key.instance_id))
                .caused_by(err)
        })?;
        if let Some(proposal) = ended_before(key, folder)? {
            return Ok(proposal);
        }
        let request = ExecRequest {
            repository: self.repositories.find(&instance.repo),
            base: Some(instance.base_commit.clone()),
            prompt: prompt::instance(&instance.problem_statement)?,
            after: None,
        };
        let environment =
            RunEnvironment { out: Some(folder.to_owned()), ..self.judge.environment.clone() };
        let config = with_image(&contestant.config, instance);
        let report =
            Box::pin(pipeline::exec(&contestant.world, config, request, environment)).await?;
        let RunReport { outcome, .. } = &report;
        if outcome.conclusion.is_resumable() {
            let why =
                outcome.reason.clone().unwrap_or_else(|| outcome.conclusion.word().to_owned());
            let kind = outcome.conclusion.failure_kind().unwrap_or(FailureKind::Provider);
            return Err(Failure::new(kind, why));
        }
        let Outcome { conclusion, reason, spending, .. } = outcome;
        let used = used(conclusion.word(), reason.clone(), spending);
        proposal(key, folder, outcome.change.is_some(), used)
    }
}

/// The change that a run has left.
fn patch_in(folder: &Path) -> Result<String> {
    let path = folder.join("change.patch");
    let bytes = patchwright_base::named_file::read(&path, MAX_PATCH).map_err(|err| {
        Failure::machine(format!("the change in `{}` cannot be read", path.display()))
            .caused_by(err)
    })?;
    // The format of predictions has texts, and a difference in another encoding has bytes that are none.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn proposal(key: &Key, folder: &Path, has_changed: bool, used: Used) -> Result<Proposal> {
    let model_patch = if has_changed { patch_in(folder)? } else { String::new() };
    let prediction = Prediction {
        instance_id: key.instance_id.clone(),
        model_name_or_path: key.model.clone(),
        model_patch,
    };
    Ok(Proposal { prediction, trial: key.trial, used })
}

/// What `result.json` says of a run, as far as it is asked for here.
#[derive(serde::Deserialize)]
struct EndedRun {
    conclusion: String,
    reason: Option<String>,
    files: usize,
    spending: Spending,
}

/// What a run has left that had come to its end when the evaluation was killed: it is paid for.
fn ended_before(key: &Key, folder: &Path) -> Result<Option<Proposal>> {
    let Ok(text) = fs_err::read(folder.join("result.json")) else { return Ok(None) };
    let Ok(ended) = serde_json::from_slice::<EndedRun>(&text) else { return Ok(None) };
    if !ENDS.iter().any(|end| end.word() == ended.conclusion) {
        return Ok(None);
    }
    let used = used(&ended.conclusion, ended.reason, &ended.spending);
    proposal(key, folder, ended.files > 0, used).map(Some)
}

fn used(conclusion: &str, reason: Option<String>, spending: &Spending) -> Used {
    Used {
        conclusion: conclusion.to_owned(),
        reason,
        turns: spending.turns,
        input_tokens: spending.usage.input,
        output_tokens: spending.usage.output,
        cost_usd: spending.cost_usd,
        cost_is_estimate: spending.cost_is_estimate || spending.price_is_unknown,
        seconds: spending.wall_seconds,
    }
}

/// Judges changes that were made elsewhere; those that are judged already are left alone.
///
/// # Errors
/// When one is of no instance, or of one that another of the same model is of. An interruption, or failures that will
/// come again, end it: see [`Left::fatal`].
pub async fn judge_predictions(
    judge: &Judge<'_>,
    instances: &[Instance],
    predictions: Vec<Prediction>,
    repositories: &Repositories,
    ledger: &mut Ledger,
    ui: Ui,
) -> Result<Left> {
    let mut work: Vec<(&Instance, Proposal)> = Vec::new();
    for prediction in predictions {
        let id = &prediction.instance_id;
        let Some(instance) = instances.iter().find(|it| it.instance_id == *id) else {
            return Err(Failure::usage(format!("there is no instance `{id}` for a prediction"))
                .hint("the predictions are made for other instances"));
        };
        let proposal = Proposal { prediction, trial: 1, used: Used::default() };
        if work.iter().any(|(_, known)| known.key() == proposal.key()) {
            let model = &proposal.prediction.model_name_or_path;
            let why =
                format!("there are two predictions of `{model}` for `{}`", instance.instance_id);
            return Err(Failure::usage(why).hint("leave one of them out"));
        }
        work.push((instance, proposal));
    }
    let (shared, all) = (Shared::default(), work.len());
    for (number, (instance, proposal)) in work.into_iter().enumerate() {
        let key = proposal.key();
        if ledger.row(&key).is_some() {
            continue;
        }
        if shared.is_ending.load(Ordering::Relaxed) {
            shared.left.lock().not_begun += 1;
            continue;
        }
        ui.say(&format!("{} of {all}: {}", number + 1, key.in_words()));
        let (folder, repository) =
            (ledger.folder_of("judged", &key), repositories.find(&instance.repo));
        let patch = &proposal.prediction.model_patch;
        let done = Box::pin(judge.judge(instance, &repository, patch, folder)).await;
        let done = done.and_then(|judgement| {
            if ledger.proposal(&key).is_none() {
                ledger.propose(proposal.clone())?;
            }
            let row = Row { key: key.clone(), judgement, used: proposal.used.clone() };
            ledger.judge(row.clone()).map(|()| row)
        });
        shared.note(key, done, ui);
    }
    Ok(shared.left.into_inner())
}
