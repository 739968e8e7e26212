//! When the workspace is recorded: after each call that may have changed it and before the result of that
//! call is written down, and every few seconds while something runs that may be changing it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::arguments;
use super::dispatch::{Broken, Dispatch, DispatchContext, Ran, ReadyCall};
use patchwright_base::error::Failure;
use patchwright_provider::item::ToolCall;

/// How long something runs until the workspace is recorded meanwhile.
const INTERVAL: Duration = Duration::from_secs(5);

/// Recording takes at most this part of the time: one in so many.
const SHARE: u32 = 20;

/// How long the end of an agent waits for the last checkpoint. Whoever ends a run with a signal waits about ten seconds,
/// and every call that may write has a checkpoint already.
const LAST: Duration = Duration::from_secs(5);

/// Records a workspace.
#[async_trait]
pub trait Recorder: Send + Sync {
    /// Records the workspace as it is now; `after` is the call that has just run. What cannot be recorded
    /// is journalled as such, and the run goes on.
    ///
    /// # Errors
    /// When the journal cannot be written.
    async fn record(&self, after: Option<&str>) -> Result<(), Failure>;

    /// Commands of earlier calls were still running when it was recorded last.
    fn has_sessions(&self) -> bool;

    /// Why the run cannot go on, where the disk on which its work is kept is full: a call that `said` so was not done, and
    /// without words (`None`) it is asked about the room alone, for nothing was changed.
    fn full_disk(&self, said: Option<&str>) -> Option<Failure>;
}

/// The checkpoints of one run; none without a recorder.
#[derive(Default)]
pub struct Checkpoints {
    recorder: Option<Arc<dyn Recorder>>,
    /// Calls that run and may change the workspace.
    running: AtomicUsize,
}

/// Held while a call runs that may change the workspace.
pub(super) struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Checkpoints {
    pub fn new(recorder: Arc<dyn Recorder>) -> Checkpoints {
        Checkpoints { recorder: Some(recorder), running: AtomicUsize::new(0) }
    }

    pub(super) fn begin(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(&self.running)
    }

    /// A call has run and `said` something, and may have changed the workspace or not.
    pub(super) async fn after(
        &self,
        call: &str,
        may_change: bool,
        said: &str,
    ) -> Result<(), Failure> {
        // Before it is recorded: what could not be written is an empty file by now, or half of one.
        if let Some(failure) = self.full_disk(Some(said)) {
            return Err(failure);
        }
        match &self.recorder {
            // What a command in the background wrote may be in any result.
            Some(recorder) if may_change || recorder.has_sessions() => {
                recorder.record(Some(call)).await
            }
            _ => Ok(()),
        }
    }

    /// Why the run cannot go on with a full disk, as [`Recorder::full_disk`] says it.
    pub fn full_disk(&self, said: Option<&str>) -> Option<Failure> {
        self.recorder.as_ref()?.full_disk(said)
    }

    /// Records while calls and sessions run, for ever; the error is that of the journal.
    pub async fn watch(&self) -> Failure {
        let Some(recorder) = &self.recorder else { return std::future::pending().await };
        let mut wait = INTERVAL;
        loop {
            tokio::time::sleep(wait).await;
            if self.running.load(Ordering::Relaxed) == 0 && !recorder.has_sessions() {
                continue;
            }
            let began = Instant::now();
            if let Err(failure) = recorder.record(None).await {
                return failure;
            }
            wait = INTERVAL.max(began.elapsed() * SHARE);
        }
    }

    /// The agents stop here, but the run can be resumed later.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub async fn last(&self) -> Result<(), Failure> {
        let Some(recorder) = &self.recorder else { return Ok(()) };
        // One that takes too long is given up: there is an earlier one.
        tokio::time::timeout(LAST, recorder.record(None)).await.unwrap_or(Ok(()))
    }
}

/// The words in which a call says how it went.
fn said(ran: &Ran) -> String {
    match &ran.output {
        Err(message) => message.clone(),
        Ok(output) => {
            let commands = output.command.iter().chain(&output.commands);
            let words = commands.map(|command| command.output.as_str());
            std::iter::once(output.text.as_str()).chain(words).collect::<Vec<_>>().join("\n")
        }
    }
}

impl Dispatch<'_> {
    /// Keeps what a call did to the workspace. This is before its result is written down, so that a run
    /// that is resumed has the one with the other, and before the next call may write.
    pub(super) async fn checkpoint(
        &self,
        call: &ToolCall,
        writes: bool,
        ran: &Ran,
    ) -> Result<(), Broken> {
        let DispatchContext { journal, services, .. } = self.context;
        let id = match journal.agent() {
            Some(agent) => format!("{agent}/{}", call.id),
            None => call.id.clone(),
        };
        let said = said(ran);
        services.checkpoints.after(&id, writes, &said).await.map_err(Broken::Journal)
    }

    /// The call only looks: made again after an interruption, it does no harm.
    pub fn is_repeatable(&self, call: &ToolCall) -> bool {
        self.asked(0, call).map_or(true, |ReadyCall { tool, shown }| {
            self.context.services.rules().hooks.is_empty()
                && tool.is_repeatable(&arguments::own(tool, shown))
        })
    }
}
