//! The one progress comment, edited in place: phases, the plan's steps, the final state.
//!
//! Edits are spaced out, because GitHub limits content writes; the last state is always written. A
//! comment that cannot be written never ends a run that has begun.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::admit::{AdmittedIssue, must_be_same};
use super::events::EventTeller;
use super::respond::stop;
use super::run::{Claim, Run};
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::redact::Redactor;
use patchwright_base::ui::Ui;
use patchwright_forge::{self as forge, Forge, ForgeError, Repository};
use patchwright_report::{self as report, progress};
use patchwright_types::events::Event;
use patchwright_types::outcome::Outcome;
use patchwright_types::plan::Plan;
use patchwright_types::published::Published;
use patchwright_types::task::Trigger;

/// Time between edits during the work.
const SPACING: Duration = Duration::from_secs(10);
/// Time between signs of life while nothing else changes.
const HEARTBEAT: Duration = Duration::from_mins(4);
/// A run whose comment has not been touched for so long is dead, and its work may be taken over.
pub(super) const DEAD_AFTER: chrono::Duration = chrono::Duration::minutes(10);
/// The purpose of the comment's marker.
pub(super) const PURPOSE: &str = "progress";

/// What the comment says at a moment.
#[derive(Clone)]
struct State {
    phase: String,
    plan: Plan,
    run_url: Option<String>,
    /// The pull request of an earlier run, which the comment linked before.
    earlier: Option<u64>,
    run: String,
    marker: String,
    /// Signs of life so far.
    beat: u32,
    /// The last words, when the run has ended.
    ended: Option<String>,
}

/// Tells people how a run goes: on stderr, and in the comment when there is an issue.
pub struct Progress {
    ui: Ui,
    events: EventTeller,
    state: Arc<Mutex<State>>,
    comment: Option<Comment>,
    /// Another run has the work: this one says nothing more in public.
    yielded: AtomicBool,
    /// It speaks for one of several attempts, called so; the comment is the run's.
    attempt: Option<AttemptProgress>,
}

/// What one of several attempts needs to say how it goes.
struct AttemptProgress {
    name: String,
    changed: Option<watch::Sender<u64>>,
}

struct Comment {
    id: u64,
    target: Target,
    changed: watch::Sender<u64>,
    writer: JoinHandle<Option<u64>>,
}

/// Where the comment is.
#[derive(Clone)]
struct Target {
    forge: Arc<dyn Forge>,
    redactor: Arc<Redactor>,
    repository: Arc<Repository>,
    issue: u64,
}

impl Progress {
    /// Tells nobody but the terminal.
    pub(super) fn on_terminal(run: &Run<'_>) -> Progress {
        let state = State {
            phase: "Starting".to_owned(),
            plan: Plan::default(),
            run_url: run.environment.run_url.clone(),
            earlier: None,
            run: run.folder.id.clone(),
            marker: report::marker(PURPOSE, &run.folder.id),
            beat: 0,
            ended: None,
        };
        let state = Arc::new(Mutex::new(state));
        let (ui, events) = (run.environment.ui, run.events());
        let yielded = AtomicBool::new(false);
        Progress { ui, events, state, comment: None, yielded, attempt: None }
    }

    /// For one of several attempts: it names itself with each phase. Plans are not shown, for they would replace
    /// each other.
    pub(super) fn of_attempt(&self, ui: Ui, name: String) -> Progress {
        let changed = self.comment.as_ref().map(|comment| comment.changed.clone());
        Progress {
            ui,
            events: self.events.with_ui(ui),
            state: Arc::clone(&self.state),
            comment: None,
            yielded: AtomicBool::new(false),
            attempt: Some(AttemptProgress { name, changed }),
        }
    }

    /// Says 👀, takes the label off, and posts the comment. Without the permission to comment the
    /// run ends here, before anything is spent. A dry run writes nothing.
    ///
    /// # Errors
    /// When the comment cannot be written, or another run has the work.
    pub(super) async fn on_issue(run: &Run<'_>, issue: &AdmittedIssue) -> Result<Progress> {
        let mut progress = Progress::on_terminal(run);
        if run.config.dry_run {
            return Ok(progress);
        }
        let target = Target {
            forge: Arc::clone(run.world.forge()?),
            redactor: Arc::clone(&run.world.redactor),
            repository: Arc::new(issue.repository.clone()),
            issue: issue.issue.number,
        };
        if let Some(other) = other_at_work(run, &issue.comments, None) {
            return Err(taken(&target, other));
        }
        progress.state.lock().earlier = earlier_pull(&issue.comments);
        let ui = run.environment.ui;
        greet(&target, issue.request.trigger.as_ref(), ui).await;
        let state = progress.state.lock().clone();
        match target.write(None, &state).await {
            Ok(id) => {
                progress.comment = Some(Comment::keep(target, id, Arc::clone(&progress.state)));
            }
            Err(ForgeError::State { message, .. }) => {
                ui.say(&format!("no progress comment: {message}"));
            }
            Err(err) => return Err(Failure::from(err)),
        }
        if let Err(failure) = progress.must_be_alone(run).await {
            // The comment must not say for good that the run is starting.
            progress.fail(&failure).await;
            return Err(failure);
        }
        Ok(progress)
    }

    /// Looks again: another machine may have begun at the same time, and neither saw the other. The older
    /// comment has the work; the younger one goes, with its run. Without a comment there is nobody to meet.
    ///
    /// # Errors
    /// When another run has the work.
    pub(super) async fn must_be_alone(&self, run: &Run<'_>) -> Result<()> {
        let Some(Comment { id, target, writer, .. }) = &self.comment else { return Ok(()) };
        if run.environment.claim == Claim::Lease {
            return Ok(());
        }
        let (repository, issue) = (&target.repository.id, target.issue);
        let comments = target.forge.comments(repository, issue, stop::MAX_COMMENTS).await;
        let comments = comments.map_err(Failure::from)?;
        let Some(other) = other_at_work(run, &comments, Some(*id)) else {
            return Ok(());
        };
        self.yielded.store(true, Ordering::Relaxed);
        writer.abort();
        if other.id != *id
            && let Err(err) = target.forge.delete_comment(repository, *id).await
        {
            self.ui.warn(&format!("the second progress comment could not be deleted: {err}"));
        }
        Err(taken(target, other))
    }

    /// A new phase begins.
    pub fn phase(&self, name: &str) {
        self.ui.say(&name.to_lowercase());
        self.events.tell(&Event::Phase { phase: name });
        let shown = match &self.attempt {
            Some(attempt) => format!("{}: {name}", attempt.name),
            None => name.to_owned(),
        };
        self.edit(|state| state.phase = shown);
    }

    /// The plan as the model has it now.
    pub fn plan(&self, plan: &Plan) {
        self.events.tell(&Event::plan(plan));
        if self.attempt.is_none() {
            self.edit(|state| state.plan = plan.clone());
        }
    }

    /// The final state, with the link.
    pub async fn finish(
        self,
        outcome: &Outcome,
        published: Option<&Published>,
        held_back: Option<&str>,
    ) {
        self.edit(|state| {
            state.ended = Some(progress::finished(&progress::Finished {
                outcome,
                pull_request: published.map(|p| (p.pull_request, p.url.as_str())),
                readiness: match published {
                    Some(published) if published.draft => progress::Readiness::Draft,
                    Some(_) | None => progress::Readiness::Ready,
                },
                earlier: state.earlier,
                compare_url: None,
                held_back_patch: held_back,
                marker: &state.marker,
            }));
        });
        self.close().await;
    }

    /// The run ended without an outcome. In a repository that has taken the name over, nothing is said of it.
    pub async fn fail(self, failure: &Failure) {
        if let Some(Comment { target, writer, .. }) = &self.comment {
            // Boxed, as every run's future has room for it.
            let same = Box::pin(must_be_same(target.forge.as_ref(), &target.repository)).await;
            if same.is_err_and(|other| other.kind == FailureKind::Refused) {
                writer.abort();
                return;
            }
        }
        self.edit(|state| {
            let run_url = state.run_url.as_deref();
            state.ended = Some(progress::failed(failure, run_url, state.earlier, &state.marker));
        });
        self.close().await;
    }

    fn edit(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        let own = self.comment.as_ref().map(|comment| &comment.changed);
        let of_run = self.attempt.as_ref().and_then(|attempt| attempt.changed.as_ref());
        if let Some(changed) = own.or(of_run) {
            changed.send_modify(|version| *version += 1);
        }
    }

    /// Stops the background edits and writes the last state.
    async fn close(self) {
        let Some(Comment { target, changed, writer, .. }) = self.comment else { return };
        if self.yielded.into_inner() {
            return;
        }
        drop(changed);
        let known = writer.await.ok().flatten();
        let state = self.state.lock().clone();
        if let Err(err) = target.write(known, &state).await {
            self.ui.warn(&format!("the progress comment could not be brought up to date: {err}"));
        }
    }
}

impl Comment {
    /// Edits the comment in the background whenever the state has changed, but not too often.
    fn keep(target: Target, id: u64, state: Arc<Mutex<State>>) -> Comment {
        let (changed, mut versions) = watch::channel(0);
        let background = target.clone();
        let writer = tokio::spawn(async move {
            let mut known = Some(id);
            loop {
                match tokio::time::timeout(HEARTBEAT, versions.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => break,
                    Err(_) => state.lock().beat += 1,
                }
                // The space between edits; the end of the run cuts it short.
                let ended = async { while versions.changed().await.is_ok() {} };
                if tokio::time::timeout(SPACING, ended).await.is_ok() {
                    break;
                }
                let now = state.lock().clone();
                match background.write(known, &now).await {
                    Ok(id) => known = Some(id),
                    Err(err) => tracing::debug!(%err, "the progress comment was not edited"),
                }
            }
            known
        });
        Comment { id, target, changed, writer }
    }
}

impl Target {
    async fn write(&self, known: Option<u64>, state: &State) -> Result<u64, ForgeError> {
        let text = state.ended.clone().unwrap_or_else(|| {
            let marker = report::marker_at_work(PURPOSE, &state.run, state.beat);
            progress::running(&progress::Running {
                state: &state.phase,
                plan: &state.plan,
                run_url: state.run_url.as_deref(),
                earlier: state.earlier,
                marker: &marker,
            })
        });
        let body = self.redactor.redact(&text);
        let (repository, marker) = (&self.repository.id, &state.marker);
        let comment =
            self.forge.upsert_comment(repository, self.issue, marker, known, &body).await?;
        Ok(comment.id)
    }
}

/// The comment of another run of ours that is at work on this issue. A run of this machine is not: its
/// lock would have stopped us. `ours` is our comment, when there is one; younger ones have to yield.
fn other_at_work<'a>(
    run: &Run<'_>,
    comments: &'a [forge::Comment],
    ours: Option<u64>,
) -> Option<&'a forge::Comment> {
    if run.environment.claim == Claim::Lease {
        return None;
    }
    let now = run.world.clock.now();
    comments.iter().find(|comment| {
        comment.ours
            && now - comment.updated_at < DEAD_AFTER
            && ours.is_none_or(|ours| comment.id <= ours)
            && report::at_work(&comment.body, PURPOSE)
                .is_some_and(|other| other != run.folder.id && !run.folder.has_dead_beside(&other))
    })
}

/// The pull request that the comment of the runs before links.
fn earlier_pull(comments: &[forge::Comment]) -> Option<u64> {
    let is_progress = |comment: &&forge::Comment| {
        comment.ours && report::marked(&comment.body, PURPOSE).is_some()
    };
    let said = comments.iter().filter(is_progress);
    said.filter_map(|comment| progress::pull_request_in(&comment.body)).next_back()
}

fn taken(target: &Target, other: &forge::Comment) -> Failure {
    let (repository, number) = (&target.repository.id, target.issue);
    Failure::busy(format!(
        "another run is already working on {repository}#{number}: {}",
        other.html_url
    ))
    .hint(format!(
        "wait for it to end; when it is dead, its work can be taken over {} minutes after its last sign \
         of life",
        DEAD_AFTER.num_minutes()
    ))
}

/// 👀 first; then the label goes, so that putting it on again starts a new run. Neither is worth
/// ending a run for.
async fn greet(target: &Target, trigger: Option<&Trigger>, ui: Ui) {
    if let Err(err) = target.forge.react(&target.repository.id, target.issue, "eyes").await {
        ui.say(&format!("no reaction: {err}"));
    }
    let Some(label) = trigger.and_then(|trigger| trigger.label.as_deref()) else { return };
    if let Err(err) = target.forge.remove_label(&target.repository.id, target.issue, label).await {
        ui.warn(&format!("the label `{label}` could not be removed: {err}"));
    }
}
