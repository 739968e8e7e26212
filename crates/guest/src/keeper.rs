//! Who runs below the guest, and who ends it: shared by the calls and by the threads of sessions.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions};

use super::descendants;
use super::fork_server::{ForkServer, Launcher};
use super::process::{Ending, KILL_TIMEOUT, Running, Sink};
use super::quota::{Inside, WorkspaceQuota};
use crate::tool::ToolError;

/// The launchers that run, and what every command is subject to.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    /// Watches how much the workspace holds.
    room: Option<Arc<WorkspaceQuota>>,
    /// Forks launchers.
    forks: Option<ForkServer>,
    launchers: Mutex<BTreeSet<i32>>,
    stopping: AtomicBool,
}

impl Keeper {
    pub(super) fn new(room: Option<Arc<WorkspaceQuota>>, forks: Option<ForkServer>) -> Keeper {
        Keeper { room, forks, ..Keeper::default() }
    }

    /// A command begins; the workspace is watched while the answer lives.
    pub(super) fn enter(&self) -> Result<Option<Inside>, ToolError> {
        self.room.as_ref().map(WorkspaceQuota::enter).transpose().map_err(ToolError::tell)
    }

    /// A command has ended; an error when the workspace now holds too much.
    pub(super) fn leave(&self, code: i32) -> Result<(), ToolError> {
        let Some(room) = &self.room else { return Ok(()) };
        room.after().map_err(|why| {
            ToolError::tell(format!("the command ended with exit code {code}, but {why}"))
        })
    }

    /// Why a running command has to end before its time.
    pub(super) fn interruption(&self, cancelled: &AtomicBool) -> Option<Ending> {
        if cancelled.load(Ordering::Relaxed) || self.stopping.load(Ordering::Relaxed) {
            return Some(Ending::Cancelled);
        }
        self.room.as_ref()?.full().map(Ending::Full)
    }

    /// Starts a launcher, which is spared from now on until it is ended.
    pub(super) fn spawn(
        &self,
        start: impl FnOnce(Option<&ForkServer>) -> std::io::Result<Launcher>,
    ) -> std::io::Result<Launcher> {
        // Held until it is known: whoever looks for strays in between would take it for one.
        let mut launchers = self.launchers();
        let launcher = start(self.forks.as_ref())?;
        launchers.insert(launcher.pid().as_raw_nonzero().get());
        Ok(launcher)
    }

    /// Ends what runs with everything below it, and takes the rest of its output. `None` when the
    /// launcher had to be killed.
    pub(super) fn end(&self, mut running: Running, sink: &mut dyn Sink) -> Option<ExitStatus> {
        let pid = running.pid();
        let status = running.finish(sink);
        self.launchers().remove(&pid.as_raw_nonzero().get());
        if status.is_none_or(|status| status.signal().is_some()) {
            // The launcher did not do its work: its orphans are ours.
            self.kill_strays();
        }
        status
    }

    /// Kills and collects children that are no launcher and do not fork them: orphans of one that was killed.
    fn kill_strays(&self) {
        let launchers = self.launchers();
        let forks = self.forks.as_ref().map(ForkServer::pid);
        let spare =
            |pid: Pid| forks == Some(pid) || launchers.contains(&pid.as_raw_nonzero().get());
        let me = rustix::process::getpid();
        for _ in 0..200 {
            descendants::kill_below(me, &spare);
            let strays: Vec<Pid> =
                descendants::children(me).into_iter().filter(|pid| !spare(*pid)).collect();
            if strays.is_empty() {
                return;
            }
            for stray in strays {
                let _ = rustix::process::waitpid(Some(stray), WaitOptions::NOHANG);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// From now on every command ends at once.
    pub(super) fn refuse(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Waits until no command runs any more, and kills what is left then.
    pub(super) fn wait_for_all(&self, until: Instant) {
        while Instant::now() < until && !self.launchers().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        descendants::leave_nobody(KILL_TIMEOUT);
    }

    fn launchers(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.launchers.lock()
    }
}
