//! The end of a sandbox: its change is taken out, and it is taken down. Each in bounded time: an engine that does not
//! answer holds no run up whose time is up, or which somebody has ended.

use std::time::Duration;

use super::agent_phase::Phase;
use super::collected;
use super::failures;
use super::run::Run;
use patchwright_agent::{StopKind, Stopped};
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_config::Mode;
use patchwright_git::tree::Change;
use patchwright_sandbox::client::CollectLimits;
use patchwright_sandbox::{Running, SandboxError};

/// How long something of a sandbox is waited for. As long as the run has time, it has bounds of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// For people, behind "waiting for".
    what: &'static str,
    /// Until that is said.
    patience: Duration,
    /// How long it may still take when the run's time is up.
    after_time: Duration,
    /// The same when somebody has ended the run: whoever does waits about ten seconds before it is killed.
    after_signal: Duration,
}

const CHANGE: Wait = Wait {
    what: "the sandbox to hand over the change",
    patience: Duration::from_secs(10),
    after_time: Duration::from_secs(20),
    after_signal: Duration::from_secs(5),
};
const CAUSE: Wait = Wait {
    what: "word of what became of the sandbox",
    after_time: Duration::from_secs(10),
    after_signal: Duration::from_secs(1),
    ..CHANGE
};
const REMOVAL: Wait = Wait {
    what: "the sandbox to be removed",
    after_time: Duration::from_secs(15),
    after_signal: Duration::from_secs(4),
    ..CHANGE
};
const START: Wait = Wait {
    what: "a sandbox to start",
    patience: Duration::from_secs(30),
    after_time: Duration::from_secs(30),
    after_signal: Duration::from_secs(4),
};
/// An image that comes over a slow line takes its time. Setup ends with the run's time by itself, and says more then.
const IMAGE: Wait = Wait {
    what: "the image of the sandbox, or its setup",
    patience: Duration::from_mins(1),
    after_time: Duration::from_secs(30),
    after_signal: Duration::ZERO,
};

/// What came of some work; `None` when it was given up.
async fn waited<T>(run: &Run<'_>, wait: Wait, work: impl Future<Output = T>) -> Option<T> {
    let signal = async {
        run.environment.cancel.cancelled().await;
        tokio::time::sleep(wait.after_signal).await;
    };
    let time = tokio::time::sleep(run.remaining().saturating_add(wait.after_time));
    let told = async {
        tokio::time::sleep(wait.patience).await;
        run.environment.ui.say(&format!("waiting for {}", wait.what));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        done = Box::pin(work) => Some(done),
        () = signal => None,
        () = time => None,
        () = told => None,
    }
}

/// Work without which there is no sandbox.
async fn needed<T>(run: &Run<'_>, wait: Wait, work: impl Future<Output = Result<T>>) -> Result<T> {
    let done = waited(run, wait, work).await;
    if done.is_none() {
        // What was given up on the way is removed in the background, which ends with this process.
        waited(run, REMOVAL, run.world.sandbox.settled()).await;
    }
    match done {
        Some(done) => done,
        None if run.is_interrupted() => run.unless_interrupted(std::future::pending()).await,
        None => {
            let limit = run.config.limits.timeout.as_secs();
            let what = wait.what;
            let why = format!("the run's time ({limit} s) was up while it waited for {what}");
            Err(Failure::new(FailureKind::Budget, why).hint("give it more time with `--timeout`"))
        }
    }
}

/// Starts something of a sandbox, or puts something into it.
pub(super) async fn started<T>(run: &Run<'_>, work: impl Future<Output = Result<T>>) -> Result<T> {
    needed(run, START, work).await
}

/// Makes an image ready.
pub(super) async fn prepared<T>(run: &Run<'_>, work: impl Future<Output = Result<T>>) -> Result<T> {
    needed(run, IMAGE, work).await
}

/// What a run has changed when its work ends.
#[derive(Debug, Default)]
pub(super) struct HandedOver {
    pub change: Option<Change>,
    /// It is that of a checkpoint: the sandbox did not hand over what it had last.
    pub is_salvaged: bool,
}

/// Takes the change out of the sandbox, whatever ended the work; from the newest checkpoint where the sandbox does not
/// give it. `known` is what the model left, where that was collected already. The end stays what it was where there is
/// something to show for it, and is that of the sandbox otherwise, or of whoever has interrupted the run.
pub(super) async fn hand_over(
    phase: &Phase<'_>,
    sandbox: &Running,
    stopped: &mut Stopped,
    known: Option<Change>,
) -> HandedOver {
    if phase.run.config.mode != Mode::Execute {
        return HandedOver::default();
    }
    if known.is_some() {
        return HandedOver { change: known, is_salvaged: false };
    }
    let why = match &stopped.reason {
        StopKind::Machine(_) => return HandedOver::default(),
        StopKind::Sandbox(why) => why.clone(),
        _ => match collect(phase, sandbox).await {
            Ok(change) => return HandedOver { change: Some(change), is_salvaged: false },
            Err(failure) if failure.kind == FailureKind::Machine && !phase.run.is_interrupted() => {
                stopped.reason = StopKind::Machine(failure);
                return HandedOver::default();
            }
            Err(failure) => in_one_line(failure),
        },
    };
    let salvaged = collected::of_checkpoint(phase).await;
    // A model that had finished is asked once more: the end of its work is lost.
    let is_lost =
        matches!(stopped.reason, StopKind::Finished | StopKind::NewSandbox | StopKind::Sandbox(_));
    if salvaged.is_none() || is_lost {
        // Whoever ends a machine ends its sandboxes too, in no order: that is no failure of theirs.
        stopped.reason = if phase.run.is_interrupted() {
            StopKind::Cancelled
        } else {
            StopKind::Sandbox(why.clone())
        };
    }
    let Some((change, place)) = salvaged else {
        if phase.run.is_interrupted() {
            tell(phase, stopped, format!("the sandbox did not hand over the change: {why}"));
        }
        return HandedOver::default();
    };
    let note = format!(
        "the change is the workspace as it was {place}; what came after that the sandbox did not hand over: {why}"
    );
    tell(phase, stopped, note);
    HandedOver { change: Some(change), is_salvaged: true }
}

/// The work when this machine failed: the newest checkpoint that it can still read. The run is resumed from it, but
/// perhaps not on this machine. By then the sandbox is gone, whose files may be on the disk that is full.
pub(super) async fn after_failure(phase: &Phase<'_>, stopped: &mut Stopped) -> HandedOver {
    if phase.run.config.mode != Mode::Execute {
        return HandedOver::default();
    }
    let Some((change, place)) = collected::of_checkpoint(phase).await else {
        return HandedOver::default();
    };
    tell(phase, stopped, format!("the change so far is the workspace as it was {place}"));
    HandedOver { change: Some(change), is_salvaged: true }
}

/// Says it now, and in the report.
fn tell(phase: &Phase<'_>, stopped: &mut Stopped, note: String) {
    phase.run.environment.ui.say(&note);
    stopped.notes.push(note);
}

/// Fetches what changed in the sandbox.
pub(super) async fn collect(phase: &Phase<'_>, sandbox: &Running) -> Result<Change> {
    let policy = &phase.run.config.policy;
    let limits = CollectLimits::at_least(policy.max_files, policy.max_bytes);
    let collected = phase.workspace.collect(&sandbox.client, limits);
    let silent = || Failure::sandbox("the sandbox did not hand over the changes in time");
    let collected = waited(phase.run, CHANGE, collected).await.ok_or_else(silent)?;
    let mut change =
        collected.map_err(|failure| failures::of_disk(failure, &phase.run.world.state))?;
    collected::add_from_before(phase.run, &mut change);
    Ok(change)
}

/// How a run ended whose change could not be had.
pub(super) fn uncollected(failure: Failure) -> StopKind {
    if failure.kind == FailureKind::Machine {
        return StopKind::Machine(failure);
    }
    StopKind::Sandbox(in_one_line(failure))
}

fn in_one_line(failure: Failure) -> String {
    let Failure { message, cause, .. } = failure;
    match cause {
        Some(cause) => format!("{message}: {cause}"),
        None => message,
    }
}

/// Why the sandbox died, when it did and its engine says so.
pub(super) async fn exit_reason(run: &Run<'_>, sandbox: &Running) -> Option<String> {
    waited(run, CAUSE, sandbox.exit_reason()).await.flatten()
}

/// Removing a container is worth reporting when it fails, not worth losing the work for: the next
/// run sweeps.
pub(super) async fn stop(run: &Run<'_>, sandbox: Running) {
    let ended = waited(run, CAUSE, sandbox.ended_services()).await.unwrap_or_default();
    for line in run.services.ended(&ended) {
        run.environment.ui.say(&line);
    }
    let by_hand = sandbox.by_hand().map(|command| format!(", or do it by hand: `{command}`"));
    let why = match waited(run, REMOVAL, sandbox.stop()).await {
        Some(Ok(())) => return,
        // Its own words say that it is gone, which nobody knows before it is removed.
        Some(Err(SandboxError::Gone(why) | SandboxError::EngineBroken(why))) => why,
        Some(Err(err)) => err.to_string(),
        None => "its engine did not answer in time".to_owned(),
    };
    let by_hand = by_hand.unwrap_or_default();
    run.environment.ui.warn(&format!(
        "the sandbox was not removed: {why}; the next run on this machine removes it{by_hand}"
    ));
}
