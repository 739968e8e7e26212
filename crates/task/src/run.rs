//! One run of a task: what all of its phases share. [`crate::pipeline`] says what the phases are.

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::basis::OpenedBasis;
use super::events::Watcher;
use super::folder::{RESUMED, RunFolder};
use super::lfs::Contents;
use super::network::NetworkAccess;
use super::packing::Packing;
use super::publish::Origin;
use super::resumption::{AbandonedRun, RequestedWork};
use super::review::admit::AdmittedReview;
use super::services::RunServices;
use super::signals::{self, Cause};
use super::submodules::Submodules;
use super::workspace::{Additions, Rules, Workspace};
use crate::world::World;
use patchwright_agent::budget::SharedBudget;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, FailureKind, Hint, Result};
use patchwright_base::ui::Ui;
use patchwright_config::{Config, Mode, file, merge, renamed_settings};
use patchwright_git::stop::Stop;
use patchwright_git::{Oid, helper};
use patchwright_journal::Entry;
use patchwright_sandbox::egress::Egress;
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::setup::SetupReport;
use patchwright_types::task::{Task, TaskKind};

/// Commits of history that the model can look at.
pub(super) const DEPTH: u32 = patchwright_git::clone::DEFAULT_DEPTH;

/// What a run needs besides the world: where it prints, where it writes, who may stop it.
#[derive(Clone, Debug)]
pub struct RunEnvironment {
    pub ui: Ui,
    /// Is told what happens, beside stdout.
    pub watcher: Option<Watcher>,
    /// Fixed folder for the run's files.
    pub out: Option<PathBuf>,
    /// Page of the workflow run.
    pub run_url: Option<String>,
    /// Cancelled by SIGINT and SIGTERM, or for the cause that `cancellation` has.
    pub cancel: CancellationToken,
    pub cancellation: signals::Cancellation,
    /// An instruction beside the issue's own text: a person's words, or the plan that they approved.
    pub asked: Option<String>,
    pub claim: Claim,
}

/// What keeps two machines from working on the same issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The progress comment of the run that began first, as long as it is edited from time to time.
    Comment,
    /// The lease of the job.
    Lease,
}

impl RunEnvironment {
    pub fn new(ui: Ui, env: &Env) -> RunEnvironment {
        RunEnvironment {
            ui,
            watcher: None,
            out: None,
            run_url: env.run_url(),
            cancel: if ui.actions { signals::watch_runner() } else { signals::watch() },
            cancellation: signals::Cancellation::default(),
            asked: None,
            claim: Claim::Comment,
        }
    }
}

/// Everything that the phases share. It never changes: [`Run::configured`] makes another one.
#[derive(Clone)]
pub struct Run<'a> {
    pub world: &'a World,
    /// The operator's configuration; in a run that was made by [`Run::configured`] with the repository's
    /// own laid over it.
    pub config: Config,
    pub task: Task,
    /// Shared, because the lock in it is held until the last of the run is gone.
    pub folder: Arc<RunFolder>,
    pub environment: RunEnvironment,
    pub started: Instant,
    /// Title of what is worked on (of an issue as it stood at the trigger), for the commit and the report.
    pub title: Option<String>,
    /// See [`Run::egress`].
    pub network: Arc<NetworkAccess>,
    /// How the dependencies were installed, by the newest setup; empty before.
    pub setup: Arc<Mutex<SetupReport>>,
    /// What its sandboxes are based on, once that is known.
    pub(super) basis: Arc<OnceLock<OpenedBasis>>,
    /// Servers beside its sandboxes.
    pub services: Arc<RunServices>,
    /// What of other repositories is in its sandboxes.
    pub(super) submodules: Arc<Submodules>,
    /// What Git LFS keeps of its files.
    pub(super) contents: Arc<Contents>,
    /// It is one of several attempts at the work of a run.
    pub attempt: Option<AttemptContext>,
    /// What people have said that its model was not told before it was cut off.
    pub(super) news: Vec<super::asked::News>,
}

/// What makes an attempt one of several.
#[derive(Clone, Debug)]
pub struct AttemptContext {
    /// From 1.
    pub number: u32,
    /// What all of them may use together.
    pub budget: Arc<SharedBudget>,
}

/// How long a run that was ended from outside may take to say so: whoever ends it waits about ten seconds before it
/// is killed.
const GRACE: Duration = Duration::from_secs(4);

/// What a run starts with.
pub(super) struct Start<'a> {
    pub world: &'a World,
    pub config: Config,
    pub environment: RunEnvironment,
    /// When work on the task began, which is before its `admit`: the time limit counts from here.
    pub started: Instant,
    /// The unfinished run that is not resumed.
    pub abandoned: Option<String>,
}

impl<'a> Start<'a> {
    /// Prints the notes about the model before anything else is done.
    pub(super) fn new(world: &'a World, config: Config, environment: RunEnvironment) -> Start<'a> {
        for note in world.model.notes(&world.clock.now().format("%Y-%m-%d").to_string()) {
            environment.ui.say(&format!("note: {note}"));
        }
        Start::silently(world, config, environment)
    }

    /// Begins one of many runs, or an answer to a comment: nothing is said about the model.
    pub(super) fn silently(
        world: &'a World,
        config: Config,
        environment: RunEnvironment,
    ) -> Start<'a> {
        let started = world.clock.instant();
        Start { world, config, environment, started, abandoned: None }
    }

    /// As [`Run::unless_interrupted`], before there is a run.
    pub(super) async fn unless_interrupted<T>(
        &self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        unless_interrupted(&self.environment, work).await
    }

    /// Looks at the run that a killed attempt left: where it is not what is asked for now, it is not resumed. Returns
    /// what the server said of its change, where that was refused.
    pub(super) async fn abandons(&mut self, origin: Origin<'_>) -> Result<Option<String>> {
        let asked = self.environment.asked.as_deref();
        let wanted = RequestedWork { asked, ..RequestedWork::of(origin, &self.config) };
        let abandoned = self.abandoned(wanted, origin.kind()).await?;
        self.abandoned = abandoned.as_ref().map(|it| it.run.clone());
        Ok(abandoned.and_then(|it| it.refusal))
    }

    /// As [`Start::abandons`], for a review.
    pub(super) async fn abandons_review(&mut self, admitted: &AdmittedReview) -> Result<()> {
        let kind = TaskKind::from(admitted.request.clone());
        let abandoned = self.abandoned(RequestedWork::of_review(admitted), kind).await?;
        self.abandoned = abandoned.map(|it| it.run);
        Ok(())
    }

    async fn abandoned(
        &self,
        wanted: RequestedWork<'_>,
        kind: TaskKind,
    ) -> Result<Option<AbandonedRun>> {
        let Start { world, config, environment, .. } = self;
        if environment.out.is_some() {
            return Ok(None);
        }
        let task = Task { kind, limits: config.limits.clone() };
        wanted.abandons(world, environment.ui, &task).await
    }

    /// Takes the task's lock, and its folder: the one that a killed attempt left, or a fresh one.
    pub(super) fn run(self, kind: impl Into<TaskKind>, title: Option<String>) -> Result<Run<'a>> {
        let task = Task { kind: kind.into(), limits: self.config.limits.clone() };
        let out = self.environment.out.as_deref();
        let replaced = out.and_then(|out| RunFolder::replaces(&task, out));
        let folder = RunFolder::begin(self.world, &task, out, self.abandoned.as_deref())?;
        if let Some(run) = replaced {
            self.environment.ui.warn(&format!(
                "warning: `{}` held the run {run} of another task, which had not ended and cannot be resumed \
                 now; its files are set aside as `*.old.*`",
                folder.path.display()
            ));
        }
        Ok(self.run_in(folder, task, title))
    }

    /// The run in a folder of its own choice.
    pub(super) fn run_in(self, folder: RunFolder, task: Task, title: Option<String>) -> Run<'a> {
        let Start { world, config, environment, started, .. } = self;
        Run {
            world,
            config,
            task,
            folder: Arc::new(folder),
            environment,
            started,
            title,
            network: Arc::default(),
            setup: Arc::default(),
            basis: Arc::default(),
            services: Arc::default(),
            submodules: Arc::default(),
            contents: Arc::default(),
            attempt: None,
            news: Vec::new(),
        }
    }
}

impl Run<'_> {
    /// Removes the containers that a killed attempt left running, and resumes its journal or begins one.
    pub(super) async fn begin(&self) -> Result<()> {
        helper::make_ready();
        self.sweep().await;
        self.resume_or_begin()
    }

    /// Resumes or begins the run where somebody else removes leftover containers. A scripted provider continues behind
    /// the replies that the journal has.
    pub(super) fn resume_or_begin(&self) -> Result<()> {
        let replies = self.folder.recorded.iter().map(|line| line.entry.replies().len());
        self.world.provider.resume_at(None, replies.sum());
        self.journal_start()
    }

    /// The run with the repository's own configuration laid over the operator's. Everything that the
    /// repository may decide about (setup, checks, limits, hosts, policy) is read from this one.
    pub(super) async fn configured(&self, rules: &Rules) -> Result<Run<'_>> {
        let mut config = self.config.clone();
        if let Some(text) = rules.workspace().text_file(file::REPOSITORY_FILE).await? {
            let (said, warnings) =
                file::parse_with(file::REPOSITORY_FILE, &text, &renamed_settings::names())?;
            merge::tighten(&mut config, said);
            config.notes.extend(warnings);
        }
        // Before checks are run on the base and anything is paid for.
        Egress::check(&config.allow_hosts)?;
        let of_setup = config.setup_hosts();
        if of_setup != ["*"] {
            Egress::check(&of_setup)?;
        }
        for note in &config.notes {
            self.environment.ui.say(&format!("note: {note}"));
        }
        // The hosts may be other ones now, so the ways to them are made anew.
        let (network, setup, services) = (Arc::default(), Arc::default(), Arc::default());
        let run = Run { config, network, setup, services, ..self.clone() };
        let submodules =
            self.unless_interrupted(async { Ok(Submodules::of(&run, rules.workspace()).await) });
        Ok(Run { submodules: Arc::new(submodules.await?), ..run })
    }

    /// Appends to the journal.
    pub fn journal(&self, entry: &Entry) -> Result<()> {
        self.folder.journal.append(entry).map(drop)
    }

    /// What its sandboxes and its conversation are called by: each attempt has its own.
    pub(super) fn own_id(&self) -> String {
        match &self.attempt {
            Some(AttemptContext { number, .. }) => format!("{}-attempt-{number}", self.folder.id),
            None => self.folder.id.clone(),
        }
    }

    /// What the run is about, for titles: `acme/web#7`, or the prompt's beginning.
    pub fn subject(&self) -> String {
        self.task.kind.subject()
    }

    /// Time that is left of the wall-clock budget.
    pub fn remaining(&self) -> Duration {
        self.config.limits.timeout.saturating_sub(self.started.elapsed())
    }

    /// How long it has taken, with what it had taken before it was interrupted.
    pub(super) fn lasted(&self) -> Duration {
        self.folder.lasted_before() + self.started.elapsed()
    }

    /// When long work on threads of its own is to end: with the run's time, or the run.
    pub fn stop(&self) -> Stop {
        let deadline = Some(self.started + self.config.limits.timeout);
        Stop { cancel: self.environment.cancel.clone(), deadline }
    }

    /// SIGINT or SIGTERM has arrived.
    pub fn is_interrupted(&self) -> bool {
        self.environment.cancel.is_cancelled()
    }

    /// The run was ended for a cause that leaves the rest to somebody else.
    pub(super) fn has_lost_its_job(&self) -> bool {
        self.environment.cancellation.cause().is_some()
    }

    /// Work that ends with the first signal. What it leaves half done, the next run finds: containers
    /// are swept, and writes to the forge are looked up before they are repeated.
    pub async fn unless_interrupted<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let work = patchwright_otel::within(&self.folder.id, work);
        unless_interrupted(&self.environment, work).await
    }

    /// What is left to be said at the end, whether or not somebody has ended the run: it is given up
    /// [`GRACE`] after that, or when the runner of a job is about to kill it.
    pub(super) async fn within_grace(&self, work: impl Future<Output = ()>) {
        let over = async {
            self.environment.cancel.cancelled().await;
            tokio::time::sleep(signals::time_left(signals::RUNNER_LETS_TELL, GRACE)).await;
        };
        tokio::select! {
            biased;
            () = Box::pin(work) => {}
            () = over => {
                self.environment.ui.detail("GitHub does not answer; what it was to be told is left out");
            }
        }
    }

    /// The result of a run, or what ended it from outside: whatever came of the work then, it is not
    /// reported as the run's own end.
    pub(super) fn or_interruption<T>(&self, result: Result<T>) -> Result<T> {
        let Some(interruption) = interrupted(&self.environment) else { return result };
        let failure = result.err().map_or(interruption, |failure| self.as_interrupted(failure));
        Err(failure.hint(self.files_hint()))
    }

    /// A failure as that of a run which something has ended from outside. One that says so already also says what had been
    /// done by then.
    pub(super) fn as_interrupted(&self, failure: Failure) -> Failure {
        let interruption = interrupted(&self.environment);
        interruption.filter(|it| it.message != failure.message).unwrap_or(failure)
    }

    /// Says how the run ended, when that is not plain from what else was said. What failed is said
    /// whatever the verbosity.
    pub(super) fn conclude(&self, outcome: &Outcome, hints: &[String]) {
        let ui = self.environment.ui;
        let Some(reason) = &outcome.reason else { return };
        let redact = |text: &str| self.world.redactor.redact(text);
        match outcome.conclusion {
            // The failure of an interrupted run says so, and what to do.
            Conclusion::Done | Conclusion::Interrupted => {}
            Conclusion::NothingToDo | Conclusion::NeedsInput | Conclusion::Partial => {
                ui.say(&redact(&format!("{}: {reason}", outcome.conclusion.word())));
            }
            Conclusion::Refused
            | Conclusion::Budget
            | Conclusion::Provider
            | Conclusion::Sandbox => {
                let mut failure = Failure::internal(reason.as_str());
                failure.hints.extend(hints.iter().cloned().map(Hint::from));
                ui.failure(&redact(&failure.hint(self.files_hint()).to_string()));
            }
        }
    }

    pub(super) fn files_hint(&self) -> Hint {
        let place = self.folder.path.display();
        Hint::on_this_machine(format!("the files of the run so far are in {place}"))
    }

    /// Where the change is kept that nobody wants any more.
    pub(super) fn change_kept(&self) -> Hint {
        let place = self.folder.path.display();
        Hint::on_this_machine(format!("the change is kept in {place}"))
    }

    /// Removes what an earlier, killed attempt left running.
    async fn sweep(&self) {
        let left = match self.world.sandbox.sweep(None).await {
            Ok(left) => left,
            // `start` reports a sandbox that does not answer, with its next step.
            Err(err) => {
                tracing::debug!(%err, "the sweep failed");
                return;
            }
        };
        for name in left {
            self.environment.ui.detail(&format!("removed {name}, left by a run that was killed"));
        }
    }

    pub(super) fn journal_start(&self) -> Result<()> {
        if self.attempt.is_none() {
            self.tell_begun();
        }
        if !self.folder.recorded.is_empty() {
            let began = self.folder.find(|entry| match entry {
                Entry::RunStarted { version, .. } => Some(version.clone()),
                _ => None,
            });
            let began = began.filter(|version| version != patchwright_base::VERSION);
            let began = began.map(|version| format!(", which Patchwright {version} began"));
            let began = began.unwrap_or_default();
            let of = self.attempt.as_ref().map_or("run ", |_| "this attempt of run ");
            self.environment.ui.say(&format!("resuming {of}{}{began}", self.folder.id));
            return self.journal(&Entry::Note { text: RESUMED.to_owned() });
        }
        if self.attempt.is_none() {
            self.environment.ui.say(&format!("run {}", self.folder.id));
        }
        self.journal(&Entry::RunStarted {
            run: self.folder.id.clone(),
            version: patchwright_base::VERSION.to_owned(),
            format: patchwright_journal::FORMAT,
            task: self.task.clone(),
            config: serde_json::to_value(&self.config).unwrap_or_default(),
        })
    }

    /// A tree as sandboxes take it, which is packed in the background. What of it is elsewhere has been fetched.
    pub(super) async fn pack(&self, workspace: &Workspace) -> Result<Packing> {
        // A review is about all that a pull request changes.
        let workspace = match self.config.mode {
            Mode::Review => workspace.clone(),
            Mode::Execute | Mode::Plan => workspace.sparse(&self.config.checkout.sparse).await?,
        };
        let submodules = self.submodules.at(self, &workspace).await;
        let contents = self.contents.of(self, &workspace).await?;
        let limits = self.config.container.clone();
        Ok(Packing::begin(workspace, limits, Additions { submodules, contents }))
    }

    /// Says that the sandbox has a part of the repository only.
    pub(super) async fn say_what_is_sparse(&self, workspace: &Workspace) -> Result<()> {
        for note in workspace.sparse_notes(&self.config.checkout.sparse).await? {
            self.environment.ui.say(&format!("note: {note}"));
        }
        Ok(())
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
    /// at its end: running the command again resumes it.
    pub(super) fn end(&self, outcome: &Outcome) -> Result<()> {
        if outcome.conclusion.is_resumable() || self.environment.cancel.is_cancelled() {
            return Ok(());
        }
        self.journal(&Entry::RunEnded { outcome: Box::new(outcome.clone()) })?;
        self.folder.finish();
        Ok(())
    }
}

/// What ends a run from outside ends it with this failure once its work is saved; `None` for one that
/// nothing has ended.
pub fn interrupted(environment: &RunEnvironment) -> Option<Failure> {
    let has_cause = environment.cancellation.cause().is_some()
        || signals::received(&environment.cancel).is_some();
    has_cause.then(|| interruption(environment))
}

async fn unless_interrupted<T>(
    environment: &RunEnvironment,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        () = environment.cancel.cancelled() => Err(interruption(environment)),
        done = Box::pin(work) => done,
    }
}

/// The failure of a run that was cancelled.
pub(super) fn interruption(environment: &RunEnvironment) -> Failure {
    match environment.cancellation.cause() {
        Some(Cause::Lost) => Failure::refused("another worker has taken this job over"),
        Some(Cause::Withdrawn) => {
            Failure::new(FailureKind::Signal(15), "cancelled; the work so far is kept")
                .hint("ask for the same again to resume")
        }
        Some(Cause::Drained) => Failure::new(FailureKind::Signal(15), "the worker is ending"),
        // Only signals cancel without a cause.
        None => {
            let signal = signals::received(&environment.cancel).unwrap_or(15);
            // Nobody ran a command there.
            let hint = if environment.ui.actions {
                "ask for the same again to resume, or re-run the job"
            } else {
                "run the same command again to resume"
            };
            Failure::new(FailureKind::Signal(signal), "interrupted; the work so far is kept")
                .hint(hint)
        }
    }
}
