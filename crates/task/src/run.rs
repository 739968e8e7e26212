//! READ FIRST: a task from beginning to end.
//!
//! [`run_task`] is the whole flow. Each line is a phase with a file of its own; each phase journals
//! what it did before the next one starts, so that a killed run goes on where it was.

use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::admit::{self, Admitted};
use super::agent_phase::{self, Phase, Worked};
use super::brief::Brief;
use super::checks::Checks;
use super::folder::RunFolder;
use super::network::NetworkAccess;
use super::progress::Progress;
use super::settle::Settled;
use super::signals::Cause;
use super::workspace::{Rules, Workspace};
use super::{decide, publish, salvage, signals};
use crate::world::World;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, FailureKind, Hint, Result};
use patchwright_base::ui::Ui;
use patchwright_config::{Config, file, merge};
use patchwright_forge::Repository;
use patchwright_git::Oid;
use patchwright_git::clone::Repo;
use patchwright_git::stop::Stop;
use patchwright_journal::Entry;
use patchwright_sandbox::PreparedImage;
use patchwright_sandbox::packed::Packed;
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::published::Published;
use patchwright_types::task::{Task, TaskKind};

/// Commits of history that the model can look at.
pub(super) const DEPTH: u32 = patchwright_git::clone::DEFAULT_DEPTH;

/// What surrounds a run besides the world: where it prints, where it writes, who may stop it.
#[derive(Clone, Debug)]
pub struct RunEnvironment {
    pub ui: Ui,
    /// Fixed folder for the run's files.
    pub out: Option<PathBuf>,
    /// Page of the workflow run.
    pub run_url: Option<String>,
    /// Cancelled by SIGINT and SIGTERM, or for the reason that `why` has.
    pub cancel: CancellationToken,
    pub why: signals::Why,
    /// What was asked for beside what the issue says: a person's words, or the plan that they approved.
    pub asked: Option<String>,
    pub claim: Claim,
}

/// What keeps two machines from doing the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The comment of the run that began first, as long as it gives signs of life.
    Comment,
    /// The lease of the job.
    Lease,
}

impl RunEnvironment {
    pub fn new(ui: Ui, env: &Env) -> RunEnvironment {
        RunEnvironment {
            ui,
            out: None,
            run_url: env.run_url(),
            cancel: signals::watch(),
            why: signals::Why::default(),
            asked: None,
            claim: Claim::Comment,
        }
    }
}

/// A run that came to an end with an outcome (which may be a refusal or a used-up budget).
#[derive(Debug)]
pub struct Ended {
    /// What the run was about.
    pub subject: String,
    pub outcome: Outcome,
    pub published: Option<Published>,
    /// What to do about an end that is not good.
    pub hints: Vec<String>,
    /// Where journal, patch, plan and report are.
    pub folder: PathBuf,
    /// The bare repository that holds the change.
    pub repo: Repo,
}

/// Everything that the phases share.
pub struct Run<'a> {
    pub world: &'a World,
    pub config: Config,
    pub task: Task,
    pub folder: RunFolder,
    pub around: RunEnvironment,
    pub started: Instant,
    /// Title of the issue, as it stood at the trigger.
    pub issue_title: Option<String>,
    /// See [`Run::egress`].
    pub reach: NetworkAccess,
}

/// Runs a task: admit → open the workspace → check → agent → collect → check again → judge → publish.
///
/// # Errors
/// A [`Failure`] when there is no outcome to report: access refused, nothing to do, no sandbox, no
/// forge. An outcome that is not good is not an error; its conclusion says how the run ended.
pub async fn run_task(
    world: &World,
    config: Config,
    task: Task,
    around: RunEnvironment,
) -> Result<Ended> {
    let started = world.clock.instant();
    for note in world.model.notes(&world.clock.now().format("%Y-%m-%d").to_string()) {
        around.ui.say(&format!("note: {note}"));
    }
    let admitted = match &task.kind {
        TaskKind::Issue { repository, number, trigger } => {
            Some(admit::admit(world, &config, repository, *number, trigger.as_ref()).await?)
        }
        TaskKind::Review { .. }
        | TaskKind::Respond { .. }
        | TaskKind::Exec { .. }
        | TaskKind::Campaign { .. } => None,
    };
    let folder = RunFolder::begin(world, &task, around.out.as_deref())?;
    let issue_title = admitted.as_ref().map(|admitted| admitted.snapshot.title.clone());
    let reach = NetworkAccess::default();
    let mut run = Run { world, config, task, folder, around, started, issue_title, reach };
    run.catch_up().await?;
    let progress = Progress::start(&run, admitted.as_ref()).await?;
    let ended = Box::pin(work(&mut run, admitted.as_ref(), &progress)).await;
    let ended = match interrupted(&run.around) {
        Some(failure) => Err(failure.hint(run.kept())),
        None => ended,
    };
    match ended {
        Ok(ended) => {
            run.conclude(&ended.outcome, &ended.hints);
            progress.finish(&ended.outcome, ended.published.as_ref()).await;
            run.around.ui.event(&salvage::result(&run, &ended.outcome, ended.published.as_ref()));
            run.end(&ended.outcome)?;
            Ok(ended)
        }
        Err(failure) => {
            progress.fail(&failure).await;
            Err(failure)
        }
    }
}

async fn work(
    run: &mut Run<'_>,
    admitted: Option<&Admitted>,
    progress: &Progress,
) -> Result<Ended> {
    progress.phase("Cloning the repository");
    let workspace = run.unless_interrupted(run.open_workspace(admitted)).await?;
    let branch = match admitted.filter(|_| !run.config.dry_run) {
        Some(admitted) => {
            let named = publish::branch_for(run, admitted);
            Some((admitted, run.unless_interrupted(named).await?))
        }
        None => None,
    };
    let Made { workspace, worked, settled, outcome } =
        make(run, admitted, admitted.map(|it| &it.repository), workspace, progress).await?;
    let published = match (&branch, settled.commit) {
        (Some((admitted, branch)), Some(commit)) if publish::is_publishable(&outcome) => {
            progress.phase("Publishing");
            let (outcome, settled) = (&outcome, &settled);
            let proposal =
                publish::Proposal { workspace: &workspace, commit, outcome, settled, branch };
            let published = publish::publish(run, admitted, &proposal);
            let published = run.unless_interrupted(published).await?;
            salvage::write_report(run, outcome, Some(&published));
            Some(published)
        }
        _ => None,
    };
    Ok(Ended {
        subject: run.subject(),
        outcome,
        published,
        hints: worked.stopped.reason.hints(),
        folder: run.folder.path.clone(),
        repo: workspace.repo,
    })
}

/// What a run came to, before anything is published.
pub(super) struct Made {
    pub workspace: Workspace,
    pub worked: Worked,
    pub settled: Settled,
    pub outcome: Outcome,
}

/// Checks, agent, checks, judgement; the files of the run are written by then.
pub(super) async fn make(
    run: &mut Run<'_>,
    admitted: Option<&Admitted>,
    repository: Option<&Repository>,
    workspace: Workspace,
    progress: &Progress,
) -> Result<Made> {
    let tree = run.pack(&workspace).await?;
    let rules = workspace.rules(run.world, &run.config, repository);
    let rules = run.unless_interrupted(rules).await?;
    run.tighten(&rules).await?;
    let checks = Checks::find(&run.config, &rules).await?;
    progress.phase("Preparing the sandbox");
    let packed = (rules.workspace().base == workspace.base).then_some(&tree);
    let image = run.unless_interrupted(run.prepare_image(&rules, packed)).await?;
    run.opened(&workspace, &image)?;
    let baseline = if run.wants_words_only() {
        Vec::new()
    } else {
        progress.phase("Running the repository's checks on the base");
        checks.run_fresh(run, &image, &tree, "base").await?
    };
    let brief = Brief::new(run, admitted, rules.workspace(), &checks).await?;
    if let Some(admitted) = admitted {
        progress.must_be_alone(run, admitted).await?;
    }
    progress.phase("Working on it");
    let worked = if let Some(worked) = agent_phase::recorded(run, &baseline, &brief) {
        worked
    } else {
        let phase = Phase {
            run,
            workspace: &workspace,
            tree: tree.into(),
            image: &image,
            checks: &checks,
            baseline: &baseline,
            progress,
        };
        agent_phase::work(&phase, brief).await?
    };
    let settled = Settled::new(run, &workspace, &worked, &[])?;
    let evidence = match &settled.commit {
        Some(commit) if settled.judgement.violations.is_empty() && !run.is_interrupted() => {
            progress.phase("Running the repository's checks on the change");
            checks.evidence_on(run, &image, &baseline, &workspace.at(*commit)).await?
        }
        _ => checks.without_change(&baseline),
    };
    run.journal_reached()?;
    let mut outcome = decide::decide(run, &workspace, &image, &worked, &settled, evidence);
    salvage::write(run, &workspace, &mut outcome, &settled)?;
    salvage::write_report(run, &outcome, None);
    Ok(Made { workspace, worked, settled, outcome })
}

impl Run<'_> {
    /// Goes on where a killed attempt was, or begins the journal.
    pub(super) async fn catch_up(&self) -> Result<()> {
        self.sweep().await;
        let replies = self.folder.recorded.iter().map(|line| line.entry.replies().len());
        self.world.provider.resume_at(None, replies.sum());
        self.journal_start()
    }

    /// Appends to the journal.
    pub fn journal(&self, entry: &Entry) -> Result<()> {
        self.folder.journal.append(entry).map(drop)
    }

    /// What the run is about, for titles: `acme/web#7`, or the prompt's beginning.
    pub fn subject(&self) -> String {
        match &self.task.kind {
            TaskKind::Issue { repository, number, .. }
            | TaskKind::Review { repository, number, .. }
            | TaskKind::Respond { repository, number, .. } => format!("{repository}#{number}"),
            TaskKind::Exec { prompt, .. } => prompt.chars().take(60).collect(),
            TaskKind::Campaign { campaign, repository, .. } => format!("{campaign}: {repository}"),
        }
    }

    /// Nothing is to be changed, so there is nothing to check.
    fn wants_words_only(&self) -> bool {
        matches!(self.task.kind, TaskKind::Campaign { answer: true, .. })
    }

    /// Time that is left of the wall-clock budget.
    pub fn remaining(&self) -> Duration {
        self.config.limits.timeout.saturating_sub(self.started.elapsed())
    }

    /// When long work on threads of its own is to end: with the run's time, or the run.
    pub fn stop(&self) -> Stop {
        let deadline = Some(self.started + self.config.limits.timeout);
        Stop { cancel: self.around.cancel.clone(), deadline }
    }

    /// SIGINT or SIGTERM has arrived.
    pub fn is_interrupted(&self) -> bool {
        self.around.cancel.is_cancelled()
    }

    /// Work that ends with the first signal. What it leaves half done, the next run finds: containers
    /// are swept, and writes to the forge are looked up before they are repeated.
    pub async fn unless_interrupted<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let stopped = || {
            interrupted(&self.around)
                .unwrap_or_else(|| Failure::internal("the run was cancelled without a signal"))
        };
        tokio::select! {
            biased;
            () = self.around.cancel.cancelled() => Err(stopped()),
            done = work => done,
        }
    }

    /// Says how the run ended, when that is not plain from what else was said. What failed is said
    /// whatever the verbosity.
    pub(super) fn conclude(&self, outcome: &Outcome, hints: &[String]) {
        let ui = self.around.ui;
        let Some(reason) = &outcome.reason else { return };
        let redact = |text: &str| self.world.redactor.redact(text);
        match outcome.conclusion {
            Conclusion::Done => {}
            Conclusion::NothingToDo | Conclusion::NeedsInput | Conclusion::Partial => {
                ui.say(&redact(&format!("{}: {reason}", outcome.conclusion.word())));
            }
            Conclusion::Refused
            | Conclusion::Budget
            | Conclusion::Provider
            | Conclusion::Sandbox => {
                let mut failure = Failure::internal(reason.as_str());
                failure.hints.extend(hints.iter().cloned().map(Hint::from));
                ui.failure(&redact(&failure.hint(self.kept()).to_string()));
            }
        }
    }

    pub(super) fn kept(&self) -> Hint {
        let place = self.folder.path.display();
        Hint::on_this_machine(format!("the files of the run so far are in {place}"))
    }

    /// The same for a change that nobody wants any more.
    pub(super) fn change_kept(&self) -> Hint {
        let place = self.folder.path.display();
        Hint::on_this_machine(format!("the change is kept in {place}"))
    }

    /// Removes what an earlier, killed attempt left running.
    pub(super) async fn sweep(&self) {
        let left = match self.world.sandbox.sweep(None).await {
            Ok(left) => left,
            // `start` reports a sandbox that does not answer, with its next step.
            Err(err) => {
                tracing::debug!(%err, "the sweep failed");
                return;
            }
        };
        for name in left {
            self.around.ui.detail(&format!("removed {name}, left by a run that was killed"));
        }
    }

    pub(super) fn journal_start(&self) -> Result<()> {
        if !self.folder.recorded.is_empty() {
            self.around.ui.say(&format!("going on with run {}", self.folder.id));
            return self.journal(&Entry::Note { text: "resumed".to_owned() });
        }
        self.around.ui.say(&format!("run {}", self.folder.id));
        self.around.ui.event(&json!({ "is": "run", "run": self.folder.id }));
        self.journal(&Entry::RunStarted {
            run: self.folder.id.clone(),
            version: patchwright_base::VERSION.to_owned(),
            task: self.task.clone(),
            config: serde_json::to_value(&self.config).unwrap_or_default(),
        })
    }

    pub(super) fn opened(&self, workspace: &Workspace, image: &PreparedImage) -> Result<()> {
        self.journal(&Entry::WorkspaceOpened {
            base: workspace.base.to_string(),
            branch: workspace.base_branch.clone(),
            image: image.reference.clone(),
            repository: workspace.repo.path().display().to_string(),
        })
    }

    /// Lays the repository's own configuration over the operator's.
    pub(super) async fn tighten(&mut self, rules: &Rules) -> Result<()> {
        if let Some(text) = rules.workspace().text_file(file::REPOSITORY_FILE).await? {
            merge::tighten(&mut self.config, file::parse(file::REPOSITORY_FILE, &text)?);
        }
        for note in &self.config.notes {
            self.around.ui.say(&format!("note: {note}"));
        }
        Ok(())
    }

    /// A tree as sandboxes take it.
    pub(super) async fn pack(&self, workspace: &Workspace) -> Result<Packed> {
        workspace.pack(&self.config.container).await
    }

    /// The repository at the base commit: the one that a killed attempt had pinned, or the branch's
    /// newest.
    async fn open_workspace(&self, admitted: Option<&Admitted>) -> Result<Workspace> {
        let workspace = match (&self.task.kind, admitted) {
            (TaskKind::Exec { repository, base, .. }, _) => {
                let remote = self.world.remote(repository)?;
                let base = base.as_deref();
                Workspace::open_remote(&self.world.state, remote, repository, base, DEPTH).await?
            }
            (TaskKind::Issue { .. }, Some(admitted)) => {
                let repository = &admitted.repository;
                let base = self.config.publish.base.as_deref();
                let base = base.unwrap_or(&repository.default_branch);
                Workspace::open(self.world, repository, base, DEPTH).await?
            }
            (TaskKind::Issue { .. }, None) => {
                return Err(Failure::internal("an issue task was not admitted"));
            }
            (TaskKind::Review { .. } | TaskKind::Respond { .. } | TaskKind::Campaign { .. }, _) => {
                return Err(Failure::internal("this task has a flow of its own"));
            }
        };
        self.pinned(workspace)
    }

    /// At the base commit that a killed attempt had pinned, when it is still there.
    ///
    /// # Errors
    /// When the journal names none readably: on another commit its conversation would be about a tree
    /// that is not there.
    pub(super) fn pinned(&self, workspace: Workspace) -> Result<Workspace> {
        let recorded = self.folder.find(|entry| match entry {
            Entry::WorkspaceOpened { base, .. } => Some(base.clone()),
            _ => None,
        });
        let Some(recorded) = recorded else { return Ok(workspace) };
        let base = recorded.parse::<Oid>().map_err(|_| {
            let why = format!("the journal names `{recorded}` as its base, which is no commit");
            Failure::machine(why).hint("move the run's folder away to begin anew")
        })?;
        Ok(if workspace.has(base) { workspace.at(base) } else { workspace })
    }

    /// The last line of the journal. A run that the provider, the sandbox or a signal stopped is not
    /// at its end: running the command again goes on with it.
    pub(super) fn end(&self, outcome: &Outcome) -> Result<()> {
        if matches!(outcome.conclusion, Conclusion::Provider | Conclusion::Sandbox)
            || self.around.cancel.is_cancelled()
        {
            return Ok(());
        }
        self.journal(&Entry::RunEnded { outcome: Box::new(outcome.clone()) })?;
        self.folder.finish();
        Ok(())
    }
}

/// What ends a run from outside ends it with this failure once its work is saved.
pub fn interrupted(around: &RunEnvironment) -> Option<Failure> {
    match around.why.cause() {
        Some(Cause::Lost) => {
            return Some(Failure::refused("another worker has taken this job over"));
        }
        Some(Cause::Drained) => {
            return Some(Failure::new(FailureKind::Signal(15), "the worker is ending"));
        }
        None => {}
    }
    let signal = signals::received(&around.cancel)?;
    Some(
        Failure::new(FailureKind::Signal(signal), "interrupted; the work so far is kept")
            .hint("run the same command again to go on"),
    )
}
