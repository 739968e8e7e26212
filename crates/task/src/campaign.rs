//! One repository of a campaign: the phases of [`super::run`] without those that publish. It ends with a
//! change to be stored, an answer, nothing, or a trouble that says what to do about it.
//!
//! Called by `patchwright_fleet::batch::target`, which records the result in the store and then closes the
//! attempt. Until it is closed its journal has no last line, so that a process which is killed in between
//! finds it and takes its result over without asking the model again.

mod book;
mod ended;
mod target_error;

use std::path::Path;

use serde_json::json;

pub use self::ended::{Ended, Stored, Told};
pub use self::target_error::{RetryDecision, TargetError};

use super::folder::RunFolder;
use super::network::NetworkAccess;
use super::progress::Progress;
use super::run::{DEPTH, Made, Run, RunEnvironment, interrupted, make};
use super::signals::Cause;
use super::workspace::Workspace;
use crate::world::World;
use patchwright_agent::state::State;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_config::{Config, Mode};
use patchwright_forge::{ForgeError, Repository, RepositoryId};
use patchwright_git::blocking;
use patchwright_git::clone::mirror;
use patchwright_journal::{self as journal, Entry};
use patchwright_types::campaign::ErrorClass;
use patchwright_types::outcome::{Outcome, Spending};
use patchwright_types::task::{Limits, Task, TaskKind};

/// A run that has its folder and may start.
pub struct Begun<'a> {
    run: Run<'a>,
}

/// A run that has come to an end, with its folder still open.
pub struct Attempt {
    pub ended: std::result::Result<Ended, TargetError>,
    /// What the run has used over all its attempts, as its journal has it.
    pub spending: Spending,
    folder: RunFolder,
    /// How it ended, when there is an outcome.
    outcome: Option<Outcome>,
}

/// Takes the run's lock and its folder: the one of an attempt that died on this machine, or a fresh one.
/// `title` stands for the commit where the model's own words do not read like one.
pub fn begin<'a>(
    world: &'a World,
    config: Config,
    task: Task,
    around: RunEnvironment,
    title: &str,
) -> Result<Begun<'a>> {
    let TaskKind::Campaign { answer, .. } = &task.kind else {
        return Err(Failure::internal("this is not a campaign's task"));
    };
    let mode = if *answer { Mode::Plan } else { Mode::Execute };
    let config = Config { mode, ..config };
    let folder = match RunFolder::begin(world, &task, None) {
        Err(failure) if failure.kind == FailureKind::NothingToDo => RunFolder::begin_beside(world)?,
        folder => folder?,
    };
    let started = world.clock.instant();
    let issue_title = Some(title.to_owned());
    let reach = NetworkAccess::default();
    Ok(Begun { run: Run { world, config, task, folder, around, started, issue_title, reach } })
}

impl Begun<'_> {
    /// The run's id.
    pub fn id(&self) -> &str {
        &self.run.folder.id
    }

    /// Works until there is something to say about the repository.
    pub async fn work(mut self) -> Attempt {
        let made = Box::pin(self.make()).await;
        let run = self.run;
        let (ended, outcome) = match stopped(&run) {
            Some(trouble) => (Err(trouble), None),
            None => match made {
                Ok(made) => {
                    let outcome = made.outcome.clone();
                    (ended::of(&run, made), Some(outcome))
                }
                Err(trouble) => (Err(trouble), None),
            },
        };
        if let Err(trouble) = &ended {
            // For whoever opens the folder; nothing depends on it.
            let text = trouble.failure.to_string();
            let _ = run.journal(&Entry::Note { text });
        }
        let spending = spent(run.folder.journal.path()).unwrap_or_else(|failure| {
            run.around.ui.failure(&failure.to_string());
            most(&run.config.limits)
        });
        Attempt { ended, spending, folder: run.folder, outcome }
    }

    async fn make(&mut self) -> std::result::Result<Made, TargetError> {
        let run = &mut self.run;
        let replies = run.folder.recorded.iter().map(|line| line.entry.replies().len());
        run.world.provider.resume_at(None, replies.sum());
        run.journal_start()?;
        let (workspace, repository) = tokio::select! {
            biased;
            () = run.around.cancel.cancelled() => return Err(cancelled(run)),
            opened = open(run) => opened?,
        };
        let progress = Progress::start(run, None).await?;
        let made = make(run, None, Some(&repository), workspace, &progress).await?;
        run.around.ui.event(&json!({ "is": "made", "run": run.folder.id }));
        Ok(made)
    }
}

/// The repository at the base commit of the target, and as the forge has it.
async fn open(run: &Run<'_>) -> std::result::Result<(Workspace, Repository), TargetError> {
    let TaskKind::Campaign { repository, base_branch, base_sha, answer, .. } = &run.task.kind
    else {
        return Err(Failure::internal("this is not a campaign's task").into());
    };
    let found = look_up(run, repository, *answer).await?;
    let (state, url) = (run.world.state.clone(), found.clone_url.clone());
    let repo = blocking(move || mirror(&state, &url))
        .await
        .map_err(|err| super::workspace::failure(err, "cannot open the clone cache"))?;
    let forge = run.world.forge()?;
    let refs = [base_sha.clone()];
    match forge.fetch(&found, repo.path(), &refs, DEPTH).await {
        Ok(()) => {}
        Err(ForgeError::NotFound { .. }) => return Err(lost_base(run, &found).await),
        Err(err) => return Err(target_error::of_fetch(repository, err)),
    }
    let mut workspace = Workspace::pin(repo, base_sha, DEPTH).await?;
    workspace.base_branch.clone_from(base_branch);
    Ok((workspace, found))
}

async fn look_up(
    run: &Run<'_>,
    id: &RepositoryId,
    answer: bool,
) -> std::result::Result<Repository, TargetError> {
    let found = run.world.forge()?.repository(id).await;
    let found = found.map_err(|err| target_error::of_lookup(id, err))?;
    if found.archived && !answer {
        let failure =
            Failure::forge(format!("`{}` is archived, so nothing can be pushed to it", found.id))
                .hint("unarchive it, or leave it out with `select.exclude`");
        return Err(TargetError {
            class: ErrorClass::Access,
            failure,
            decision: RetryDecision::Final,
        });
    }
    if found.id != *id {
        run.around.ui.detail(&format!("`{id}` is called `{}` now", found.id));
    }
    Ok(found)
}

/// The base commit can no longer be fetched: is it the commit, or the branch?
async fn lost_base(run: &Run<'_>, repository: &Repository) -> TargetError {
    let TaskKind::Campaign { base_branch, base_sha, .. } = &run.task.kind else {
        return Failure::internal("this is not a campaign's task").into();
    };
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
    let failure = interrupted(&run.around)?;
    let decision = match run.around.why.cause() {
        Some(Cause::Lost) => RetryDecision::Lost,
        Some(Cause::Drained) | None => RetryDecision::Released,
    };
    Some(TargetError { class: ErrorClass::Lost, failure, decision })
}

fn cancelled(run: &Run<'_>) -> TargetError {
    stopped(run)
        .unwrap_or_else(|| Failure::internal("the run was cancelled without a cause").into())
}

/// What a journal says was used, whichever attempt used it.
fn spent(journal: &Path) -> Result<Spending> {
    let mut state = State::default();
    for line in journal::read(journal)? {
        state.apply(&line.entry);
    }
    Ok(state.total())
}

/// What a run counts as when nobody can read any more what it has used: all that it may.
fn most(limits: &Limits) -> Spending {
    Spending { cost_usd: limits.max_cost_usd, cost_is_estimate: true, ..Spending::default() }
}

/// Dollars and tokens of a task's run that is given up before its end.
pub fn used_by_unfinished(world: &World, task: &Task) -> (f64, i64) {
    let spending = match RunFolder::unfinished_journal(world, task) {
        Ok(None) => return (0.0, 0),
        Ok(Some(journal)) => spent(&journal),
        Err(failure) => Err(failure),
    };
    let spending = spending.unwrap_or_else(|failure| {
        tracing::warn!(%failure, "a journal cannot be read: its run counts with its whole budget");
        most(&task.limits)
    });
    (spending.cost_usd, i64::try_from(spending.usage.total()).unwrap_or(i64::MAX))
}

impl Attempt {
    /// The run's id.
    pub fn run(&self) -> &str {
        &self.folder.id
    }

    /// Where journal, patch, plan and report are.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Dollars and tokens that the store does not know of yet. `known` is what it has for the target, in
    /// tokens, by which a result that was recorded before a crash is told from one that was not.
    pub fn unaccounted(&self, known: i64) -> (f64, i64) {
        book::unaccounted(&self.folder, &self.spending, known)
    }

    /// The result is recorded. A run that came to its end gets its last line, so that working on the
    /// repository again starts afresh; a run stopped by a transient error is resumed.
    pub fn close(self) -> Result<()> {
        let passing = matches!(
            &self.ended,
            Err(TargetError {
                decision: RetryDecision::Retry(_)
                    | RetryDecision::PauseCampaign
                    | RetryDecision::Released
                    | RetryDecision::Lost,
                ..
            })
        );
        let Some(outcome) = self.outcome.filter(|_| !passing) else { return Ok(()) };
        self.folder.journal.append(&Entry::RunEnded { outcome: Box::new(outcome) })?;
        self.folder.finish();
        Ok(())
    }
}
