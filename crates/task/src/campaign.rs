//! One repository of a campaign: the phases of [`super::pipeline`] without those that publish. It ends with a
//! change to be stored, an answer, nothing, or an error that says what to do about it.
//!
//! Called by `patchwright_fleet::batch::target`, which records the result in the store and then closes the
//! attempt. Until it is closed its journal has no last line, so that a process which is killed in between
//! finds it and takes its result over without asking the model again. The same happens for a while after it was closed,
//! should the store have lost the result.

mod result;
mod target_error;
mod usage_report;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use self::result::{ChangeReport, StoredChange, TargetResult};
pub use self::target_error::{RetryDecision, TargetError};

use super::admit;
use super::attempts;
use super::earlier;
use super::folder::{RunFolder, given_up};
use super::guard;
use super::job::Job;
use super::pipeline;
use super::progress::Progress;
use super::respond::fix;
use super::run::{DEPTH, Run, RunEnvironment, Start, interrupted, interruption};
use super::signals::Cause;
use super::workspace::{Checkout, Workspace};
use crate::world::World;
use patchwright_agent::budget;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_config::{Config, Mode};
use patchwright_forge::{ForgeError, Repository, same_repository};
use patchwright_git::clone::mirror;
use patchwright_git::{blocking, helper};
use patchwright_journal::Entry;
use patchwright_types::campaign::{ErrorClass, millis_of};
use patchwright_types::outcome::{Outcome, Spending};
use patchwright_types::run_facts::RunFacts;
use patchwright_types::task::{CampaignRequest, Limits, Task};

/// A run that has its folder and may start.
pub struct StartedRun<'a> {
    run: Run<'a>,
    request: CampaignRequest,
    /// `None` where nothing is to be proposed.
    branch: Option<OwnBranch>,
    /// The store had lost its result, which is taken again.
    pub is_recovered: bool,
}

/// The branch that a campaign has in each repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnBranch {
    /// A change is proposed on it when the run is over.
    Proposed(String),
    /// A change is only stored for it: it may be published with another token and another configuration.
    Stored(String),
}

impl OwnBranch {
    fn name(&self) -> &str {
        match self {
            OwnBranch::Proposed(name) | OwnBranch::Stored(name) => name,
        }
    }

    /// Its name, where a change is proposed on it.
    fn proposed(&self) -> Option<&str> {
        match self {
            OwnBranch::Proposed(name) => Some(name),
            OwnBranch::Stored(_) => None,
        }
    }
}

/// A run that has come to an end, with its folder still open.
pub struct Attempt {
    pub result: std::result::Result<TargetResult, TargetError>,
    /// What the run has used over all its attempts, as its journal has it.
    pub spending: Spending,
    folder: Arc<RunFolder>,
    /// How it ended, when there is an outcome.
    outcome: Option<Outcome>,
    lasted: Duration,
}

/// Takes the run's lock and its folder: the one of an attempt that died on this machine, or whose result the store has
/// lost, or a fresh one. `title` stands for the commit where the model's own words do not read like one, `branch` is
/// what the change is for, where there will be one, and `known` is how many tokens the store has for the target.
///
/// # Errors
/// When the folder cannot be written.
pub fn start<'a>(
    world: &'a World,
    config: Config,
    request: CampaignRequest,
    environment: RunEnvironment,
    title: &str,
    branch: Option<OwnBranch>,
    known: i64,
) -> Result<StartedRun<'a>> {
    let mode = if request.answer { Mode::Plan } else { Mode::Execute };
    let start = Start::silently(world, Config { mode, ..config }, environment);
    let task = Task { kind: request.clone().into(), limits: start.config.limits.clone() };
    let recovered =
        RunFolder::recover(world, &task, |folder| usage_report::is_lost(folder, known))?;
    let folder = match RunFolder::begin(world, &task, None, None) {
        // A worker that was stopped for so long that its job was given to us still holds the lock.
        Err(failure) if failure.kind == FailureKind::NothingToDo => RunFolder::begin_beside(world)?,
        folder => folder?,
    };
    let run = start.run_in(folder, task, Some(title.to_owned()));
    Ok(StartedRun { run, request, branch, is_recovered: recovered.is_some() })
}

impl StartedRun<'_> {
    /// The run's id.
    pub fn id(&self) -> &str {
        &self.run.folder.id
    }

    /// Works until there is something to say about the repository.
    pub async fn work(self) -> Attempt {
        let StartedRun { run, request, branch, .. } = self;
        let worked = Box::pin(work(&run, &request, branch.as_ref())).await;
        let (result, outcome) = match (stopped(&run), worked) {
            (Some(error), _) | (None, Err(error)) => (Err(error), None),
            (None, Ok(AttemptOutcome { result, outcome })) => (result, Some(outcome)),
        };
        if let Err(error) = &result {
            // For whoever opens the folder; nothing depends on it.
            let text = error.failure.to_string();
            let _ = run.journal(&Entry::Note { text });
        }
        let spending = attempts::spent(&run.folder.path).unwrap_or_else(|failure| {
            run.environment.ui.failure(&failure.to_string());
            most(&run.config.limits)
        });
        let lasted = run.lasted();
        Attempt { result, spending, folder: run.folder, outcome, lasted }
    }
}

/// What a run that was carried out came to.
struct AttemptOutcome {
    outcome: Outcome,
    result: std::result::Result<TargetResult, TargetError>,
}

/// Open, carry out, and decide what the result means for the repository. The worker has swept.
async fn work(
    run: &Run<'_>,
    request: &CampaignRequest,
    branch: Option<&OwnBranch>,
) -> std::result::Result<AttemptOutcome, TargetError> {
    run.resume_or_begin()?;
    let proposed = branch.and_then(OwnBranch::proposed);
    let (checkout, repository) = tokio::select! {
        biased;
        () = run.environment.cancel.cancelled() => return Err(cancelled(run)),
        opened = open(run, request, proposed) => opened?,
    };
    let mut run = run.configured(&checkout.rules).await?;
    if let Some(branch) = proposed {
        let guarded =
            async { Ok(guard::refusal(&run, &repository, guard::Branch::Ours(branch)).await) };
        run.unless_interrupted(guarded).await?.map_err(target_error::of_guard)?;
    }
    let mut checkout = checkout.sparse(&run).await?;
    let earlier = match branch {
        Some(branch) => {
            let name = branch.name();
            let found = earlier::of_campaign(&run, &repository, name, &checkout.workspace);
            let (earlier, note) = run.unless_interrupted(found).await?;
            run.config.notes.extend(note);
            earlier
        }
        None => Vec::new(),
    };
    let run = &run;
    let beside = earlier::branch_in_sandbox(&earlier, &checkout.workspace.base_branch);
    checkout.workspace = checkout.workspace.with_beside(beside);
    let job = Job { earlier: &earlier, ..Job::campaign(request, &checkout)? };
    let finished = pipeline::carry_out(run, &job, &Progress::on_terminal(run)).await?;
    let outcome = finished.outcome.clone();
    let result = result::of(run, request, checkout.workspace, finished);
    Ok(AttemptOutcome { outcome, result })
}

/// The repository, and what it holds at the base commit of the target.
async fn open(
    run: &Run<'_>,
    request: &CampaignRequest,
    branch: Option<&str>,
) -> std::result::Result<(Checkout, Repository), TargetError> {
    let CampaignRequest { repository, base_branch, base_sha, .. } = request;
    helper::make_ready();
    let found = look_up(run, request).await?;
    if branch.is_some() {
        permitted(run, &found).await?;
    }
    let (state, url) = (run.world.state.clone(), found.clone_url.clone());
    let repo = blocking(move || mirror(&state, &url))
        .await
        .map_err(|err| super::workspace::failure(err, "cannot open the clone cache"))?;
    let forge = run.world.forge()?;
    let refs = [base_sha.clone()];
    match forge.fetch(&found, repo.path(), &refs, DEPTH).await {
        Ok(()) => {}
        Err(ForgeError::NotFound { .. }) => return Err(lost_base(run, request, &found).await),
        Err(err) => return Err(target_error::of_fetch(repository, err)),
    }
    let mut workspace = Workspace::pin(repo, base_sha, DEPTH).await?;
    workspace.address = Some(found.clone_url.clone());
    workspace.base_branch.clone_from(base_branch);
    let rules = workspace.rules(run.world, &run.config, &found).await?;
    Ok((Checkout { workspace, rules }, found))
}

/// What publishing will take is granted to us, as far as we know.
async fn permitted(run: &Run<'_>, repository: &Repository) -> std::result::Result<(), TargetError> {
    let (forge, needs) = (run.world.forge()?, [guard::PUSH, guard::PULLS]);
    let access = |failure| TargetError::new(ErrorClass::Access, RetryDecision::Final, failure);
    guard::takes_pulls(forge.as_ref(), repository).await.map_err(access)?;
    match guard::missing(forge.as_ref(), &repository.id, &needs).await {
        Ok(None) => Ok(()),
        Ok(Some(failure)) => Err(access(failure)),
        Err(err) => Err(target_error::of_lookup(&repository.id, err)),
    }
}

async fn look_up(
    run: &Run<'_>,
    request: &CampaignRequest,
) -> std::result::Result<Repository, TargetError> {
    let (id, node_id) = (&request.repository, request.repository_id.as_deref());
    let forge = run.world.forge()?;
    let found = same_repository(forge.as_ref(), id, node_id).await;
    let found = found.map_err(|err| target_error::of_lookup(id, err))?;
    if found.archived && !request.answer {
        let failure = admit::archived(&found.id)
            .hint("unarchive it in its settings, or leave it out with `select.exclude`");
        return Err(TargetError::new(ErrorClass::Access, RetryDecision::Final, failure));
    }
    if found.id != *id {
        run.environment.ui.detail(&format!("`{id}` is called `{}` now", found.id));
    }
    Ok(found)
}

/// The base commit can no longer be fetched: is it the commit, or the branch?
async fn lost_base(
    run: &Run<'_>,
    request: &CampaignRequest,
    repository: &Repository,
) -> TargetError {
    let CampaignRequest { base_branch, base_sha, .. } = request;
    let short = base_sha.get(..10).unwrap_or(base_sha);
    let tip = match run.world.forge() {
        Ok(forge) => forge.branch_tip(&repository.id, base_branch).await,
        Err(failure) => return failure.into(),
    };
    let message = match tip {
        Ok(Some(_)) => format!(
            "commit {short} is gone from `{base_branch}` of `{}`: the branch was rewritten",
            repository.id
        ),
        Ok(None) => format!("branch `{base_branch}` of `{}` is gone", repository.id),
        Err(err) => return target_error::of_fetch(&repository.id, err),
    };
    let failure =
        Failure::forge(message).hint("run the campaign again: it looks at the branch anew");
    TargetError { class: ErrorClass::Clone, failure, decision: RetryDecision::Final }
}

/// Why a run that was cancelled ended; `None` for one that was not.
fn stopped(run: &Run<'_>) -> Option<TargetError> {
    interrupted(&run.environment).map(|_| cancelled(run))
}

fn cancelled(run: &Run<'_>) -> TargetError {
    let decision = match run.environment.cancellation.cause() {
        Some(Cause::Lost) => RetryDecision::Lost,
        Some(Cause::Drained | Cause::Withdrawn) | None => RetryDecision::Released,
    };
    TargetError { class: ErrorClass::Lost, failure: interruption(&run.environment), decision }
}

/// What a run counts as when nobody can read any more what it has used: all that it may.
fn most(limits: &Limits) -> Spending {
    Spending { cost_usd: limits.max_cost_usd, cost_is_estimate: true, ..Spending::default() }
}

/// Dollars and tokens of a task's run that is given up before its end.
pub fn used_by_unfinished(world: &World, task: &Task) -> (f64, i64) {
    let (_, spending) = unfinished(world, task);
    (spending.cost_usd, i64::try_from(spending.usage.total()).unwrap_or(i64::MAX))
}

/// Id and dollars of a task's run that is given up before its end; no id where none was begun.
pub fn unfinished_run(world: &World, task: &Task) -> (Option<String>, f64) {
    let (run, spending) = unfinished(world, task);
    (run, spending.cost_usd)
}

/// Dollars of the runs whose place `run` has taken: they are in no outcome.
pub fn given_up_before(world: &World, run: &str) -> f64 {
    let folder = world.state.join("runs").join(run);
    let before = given_up::spent_before(&folder).unwrap_or_else(|failure| {
        tracing::warn!(%failure, "a journal cannot be read: what its run has cost is not counted");
        Vec::new()
    });
    before.iter().map(|spending| spending.cost_usd).sum()
}

fn unfinished(world: &World, task: &Task) -> (Option<String>, Spending) {
    let (run, spending) = match RunFolder::unfinished_folder(world, task) {
        Ok(None) => return (None, Spending::default()),
        Ok(Some(folder)) => {
            let run = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            (run, all_spent(&folder))
        }
        Err(failure) => (None, Err(failure)),
    };
    let spending = spending.unwrap_or_else(|failure| {
        tracing::warn!(%failure, "a journal cannot be read: its run counts with its whole budget");
        most(&task.limits)
    });
    (run, spending)
}

/// With the runs whose place it has taken, and the run of the issue that it has begun for a comment.
fn all_spent(folder: &Path) -> Result<Spending> {
    let mut spending = attempts::spent(folder)?;
    let issue_run = fix::issue_run_in(folder);
    for folder in [Some(folder), issue_run.as_deref()].into_iter().flatten() {
        for before in given_up::spent_before(folder)? {
            budget::add(&mut spending, &before);
        }
    }
    if let Some(folder) = issue_run {
        budget::add(&mut spending, &attempts::spent(&folder)?);
    }
    Ok(spending)
}

impl Attempt {
    /// The run's id.
    pub fn run(&self) -> &str {
        &self.folder.id
    }

    /// What is known of it beside its result.
    pub fn facts(&self) -> RunFacts {
        let outcome = self.outcome.as_ref();
        let is_change =
            |outcome: &&Outcome| outcome.change.as_ref().is_some_and(|it| !it.files.is_empty());
        RunFacts {
            checks: outcome.filter(is_change).map(|outcome| outcome.evidence.verdict().into()),
            setup_failed: outcome.map(|outcome| outcome.provenance.setup.failed().next().is_some()),
            run_ms: Some(millis_of(self.lasted)),
        }
    }

    /// Where journal, patch, plan and report are.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Dollars and tokens that the store does not know of yet. `known` is what it has for the target, in
    /// tokens, by which a result that was recorded before a crash is told from one that was not.
    pub fn unaccounted(&self, known: i64) -> (f64, i64) {
        usage_report::unaccounted(&self.folder, &self.spending, known)
    }

    /// The result is recorded. A run that came to its end gets its last line, so that working on the
    /// repository again starts afresh; a run stopped by a transient error is resumed.
    pub fn close(self, world: &World) -> Result<()> {
        let passing = matches!(
            &self.result,
            Err(TargetError {
                decision: RetryDecision::Retry(_)
                    | RetryDecision::Postpone
                    | RetryDecision::PauseCampaign
                    | RetryDecision::Released
                    | RetryDecision::Lost,
                ..
            })
        );
        let Some(outcome) = self.outcome.filter(|_| !passing) else { return Ok(()) };
        self.folder.journal.append(&Entry::RunEnded { outcome: Box::new(outcome) })?;
        self.folder.settle(world)
    }
}
