//! How much the workspace may hold. Docker's volumes have no bound of their own, so the guest watches:
//! while commands run, and when one has ended, it looks at the workspace, and ends commands that make
//! it grow beyond its budget. [`super::process`] asks; [`super::serve`] asks before a collection.
//!
//! Looking means walking the tree, so it is done seldom enough to cost little (one part in twenty of
//! the time, by the processor time that a walk takes: waiting for a busy machine is no cost), and at
//! once when the disk has lost space. A nearly full disk ends commands as well, wherever their bytes
//! are: files that were deleted while open are in no tree. How deep folders are nested is no matter.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Stat};
use rustix::time::{ClockId, clock_gettime};

use super::folder::{self, Folder};

/// Why a command was ended because of the disk, whoever filled it. The host knows that end by these words.
pub const DISK_FULL: &str = "the disk below the workspace is nearly full";
/// How often the disk is asked for its free space while commands run.
const TICK: Duration = Duration::from_millis(100);
/// Least time between two walks, unless the disk has lost space.
const PAUSE: Duration = Duration::from_secs(1);
/// Walks may take one part in this many of the time.
const SHARE: u32 = 20;
/// Free space that is left to the machine, at most.
const RESERVE: u64 = 1 << 30;

/// What the workspace may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes on the disk.
    pub bytes: u64,
    /// Files, links and folders.
    pub files: u64,
}

/// Watches one workspace.
#[derive(Debug)]
pub struct WorkspaceQuota {
    /// The workspace first; the others count like folders in it.
    folders: Vec<PathBuf>,
    budget: Budget,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What the workspace held when the last command began, where that was more than twice its budget.
    burst_from: Option<Used>,
    /// Commands that run.
    running: usize,
    last: Option<Look>,
    /// What running commands may grow to: the budget, or more when it was exceeded before they began.
    allowed: Option<Used>,
    /// Why running commands have to end.
    full: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    bytes: u64,
    files: u64,
}

/// One walk.
#[derive(Clone, Copy, Debug)]
struct Look {
    used: Used,
    at: Instant,
    /// Processor time.
    took: Duration,
    disk: Disk,
}

#[derive(Clone, Copy, Debug, Default)]
struct Disk {
    free: u64,
    free_files: u64,
    total: u64,
}

/// A command runs while this lives.
#[derive(Debug)]
pub struct Inside(Arc<WorkspaceQuota>);

impl WorkspaceQuota {
    /// Watches a workspace, and folders beside it, from a thread of its own, which is there before any
    /// command could use up the processes that the sandbox may have.
    pub fn watch(folders: Vec<PathBuf>, budget: Budget) -> Result<Arc<WorkspaceQuota>, String> {
        let room =
            WorkspaceQuota { folders, budget, state: Mutex::default(), wake: Condvar::new() };
        // Empty as yet; what is unpacked now shows as space that the disk has lost.
        room.lock().last = Some(Look {
            used: Used::default(),
            at: Instant::now(),
            took: Duration::ZERO,
            disk: room.disk(),
        });
        let room = Arc::new(room);
        let watcher = Arc::clone(&room);
        std::thread::Builder::new()
            .name("room".to_owned())
            .spawn(move || watcher.keep_looking())
            .map_err(|err| format!("cannot start a thread: {err}"))?;
        Ok(room)
    }

    /// A command begins. Refused when the workspace is so full that commands have not helped.
    pub fn enter(self: &Arc<WorkspaceQuota>) -> Result<Inside, String> {
        let (last, running) = {
            let state = self.lock();
            (state.last, state.running)
        };
        // What filled it went on for a moment after the last look; a command that cleans up must not
        // be ended for that.
        if running == 0 && last.is_some_and(|last| self.exceeds(last.used)) {
            self.look();
        }
        let mut state = self.lock();
        if state.running == 0 {
            state.full = None;
            let used = state.last.map(|last| last.used).unwrap_or_default();
            let is_bursting =
                used.bytes / 2 > self.budget.bytes || used.files / 2 > self.budget.files;
            // Commands that leave no more than there was may clean up, as often as it takes; one that made it grow was the
            // last. Where counting was given up, nobody can tell.
            let is_more = |from: Used| {
                used.bytes > from.bytes || used.files > from.files || self.is_uncounted(used)
            };
            let from = state.burst_from.filter(|from| is_bursting && is_more(*from));
            state.burst_from = from.or(is_bursting.then_some(used));
            if from.is_some() {
                return Err(format!(
                    "no more commands are run: the workspace holds more than twice what it may, and \
                     grew further; {}",
                    self.describe(used)
                ));
            }
            state.allowed = Some(Used {
                bytes: used.bytes.max(self.budget.bytes),
                files: used.files.max(self.budget.files),
            });
        }
        state.running += 1;
        self.wake.notify_all();
        Ok(Inside(Arc::clone(self)))
    }

    /// Why running commands have to end now.
    pub fn full(&self) -> Option<String> {
        self.lock().full.clone()
    }

    /// Looks at once; the error says how much too much there is.
    pub fn check(&self) -> Result<(), String> {
        let used = self.look().used;
        if self.exceeds(used) { Err(self.advise(used)) } else { Ok(()) }
    }

    /// After a command: looks when much of the disk is gone, or when there was too much before; the
    /// error is for the model.
    pub fn after(&self) -> Result<(), String> {
        let last = self.lock().last;
        match last {
            // Space that others free hides what was written, so where looking costs little against
            // the time since the last look, it is done anyway.
            Some(last)
                if !self.exceeds(last.used)
                    && !self.has_shrunk(last)
                    && last.at.elapsed() < last.took * SHARE =>
            {
                Ok(())
            }
            _ => self.check(),
        }
    }

    fn keep_looking(&self) {
        loop {
            let mut state = self.lock();
            while state.running == 0 {
                self.wake.wait(&mut state);
            }
            let (last, allowed) = (state.last, state.allowed.unwrap_or_default());
            drop(state);
            let disk = self.disk();
            let mut full = None;
            if disk.free < disk.reserve() {
                full = Some(DISK_FULL.to_owned());
            } else if last.is_none_or(|last| is_old(last) || self.has_shrunk(last)) {
                let used = self.look().used;
                let grew = used.bytes > allowed.bytes || used.files > allowed.files;
                full = grew.then(|| self.advise(used));
            }
            let mut state = self.lock();
            if state.running > 0 && full.is_some() {
                state.full = full;
            }
            drop(state);
            std::thread::sleep(TICK);
        }
    }

    /// Whether a quarter of what was left to the workspace is gone from the disk since the last look.
    fn has_shrunk(&self, last: Look) -> bool {
        let disk = self.disk();
        let taken = last.disk.free.saturating_sub(disk.free);
        let taken_files = last.disk.free_files.saturating_sub(disk.free_files);
        let left = self.budget.bytes.saturating_sub(last.used.bytes);
        let left_files = self.budget.files.saturating_sub(last.used.files);
        let is_rested = last.at.elapsed() >= last.took * 2;
        is_rested && (taken > left / 4 || taken_files > left_files / 4)
    }

    fn look(&self) -> Look {
        let began = processor_time();
        let disk = self.disk();
        let mut walk = Walk { used: Used::default(), linked: HashSet::new(), budget: self.budget };
        for folder in self.folders.iter().filter_map(|folder| Folder::open(folder).ok()) {
            // What cannot be read is not counted.
            let _ = folder::every_name(folder.top(), &mut |_, _, stat| walk.count(stat));
        }
        let took = processor_time().saturating_sub(began);
        let look = Look { used: walk.used, at: Instant::now(), took, disk };
        self.lock().last = Some(look);
        look
    }

    fn disk(&self) -> Disk {
        let Some(workspace) = self.folders.first() else {
            return Disk { free: u64::MAX, ..Disk::default() };
        };
        rustix::fs::statvfs(workspace).map_or_else(
            // A disk that cannot be asked is not held against the command.
            |_| Disk { free: u64::MAX, ..Disk::default() },
            |disk| Disk {
                free: disk.f_bavail.saturating_mul(disk.f_frsize),
                free_files: disk.f_favail,
                total: disk.f_blocks.saturating_mul(disk.f_frsize),
            },
        )
    }

    fn exceeds(&self, used: Used) -> bool {
        used.bytes > self.budget.bytes || used.files > self.budget.files
    }

    fn describe(&self, used: Used) -> String {
        format!(
            "the workspace holds {} MiB in {} files and folders, but may hold {} MiB in {}",
            used.bytes >> 20,
            used.files,
            self.budget.bytes >> 20,
            self.budget.files
        )
    }

    /// [`WorkspaceQuota::describe`], with what helps while commands are run.
    fn advise(&self, used: Used) -> String {
        format!("{}; delete what is not needed", self.describe(used))
    }

    /// There are so many files that the last walk ended early.
    fn is_uncounted(&self, used: Used) -> bool {
        used.files / 4 > self.budget.files
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// What this thread has used so far.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn is_old(last: Look) -> bool {
    last.at.elapsed() >= PAUSE.max(last.took * SHARE)
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

impl Disk {
    fn reserve(self) -> u64 {
        RESERVE.min(self.total / 50)
    }
}

/// Adds up a tree; ends early when it is far beyond the budget.
struct Walk {
    used: Used,
    /// Files with several names that have been counted.
    linked: HashSet<u64>,
    budget: Budget,
}

impl Walk {
    /// Counts one name; false when there is no need to go on.
    fn count(&mut self, stat: &Stat) -> bool {
        self.used.files += 1;
        if stat.st_nlink == 1
            || folder::kind(stat) == FileType::Directory
            || self.linked.insert(stat.st_ino)
        {
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
            self.used.bytes = self.used.bytes.saturating_add(blocks.saturating_mul(512));
        }
        self.used.files / 4 <= self.budget.files
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::quota::*;

    /// Folders in folders count like any other, and what is in the last one too.
    #[test]
    fn counts_what_lies_deep() {
        let top = tempfile::tempdir().unwrap();
        let folder = Folder::open(top.path()).unwrap();
        let mut descent = folder::Descent::new(folder.top()).unwrap();
        for _ in 0..2500 {
            let mode = rustix::fs::Mode::RWXU;
            rustix::fs::mkdirat(descent.here().unwrap(), "d", mode).unwrap();
            descent.enter("d".as_ref()).unwrap();
        }
        let budget = Budget { bytes: 1 << 30, files: 2499 };
        let room = WorkspaceQuota::watch(vec![top.path().to_owned()], budget).unwrap();
        let why = room.check().unwrap_err();
        assert!(why.contains("in 2500 files and folders"), "{why}");
        crate::removal::remove_tree(&top.path().join("d")).unwrap();
    }

    #[test]
    fn far_beyond_the_budget_commands_are_run_until_one_makes_it_worse() {
        let top = tempfile::tempdir().unwrap();
        let fill = |names: std::ops::Range<usize>| {
            for name in names {
                fs_err::write(top.path().join(name.to_string()), "").unwrap();
            }
        };
        let room = WorkspaceQuota::watch(
            vec![top.path().to_owned()],
            Budget { bytes: 1 << 30, files: 10 },
        )
        .unwrap();
        fill(0..30);
        room.check().unwrap_err();
        for _ in 0..3 {
            drop(room.enter().unwrap());
        }
        fs_err::remove_file(top.path().join("0")).unwrap();
        drop(room.enter().unwrap());
        fill(0..1);
        let why = room.enter().unwrap_err();
        assert!(why.contains("grew further; the workspace holds 0 MiB in 30 files"), "{why}");
        room.enter().unwrap_err();
        // Deleted by other means than commands.
        (0..25).for_each(|name| fs_err::remove_file(top.path().join(name.to_string())).unwrap());
        drop(room.enter().unwrap());
        // Of so many files nobody knows how many there are.
        fill(0..60);
        room.check().unwrap_err();
        drop(room.enter().unwrap());
        room.enter().unwrap_err();
    }

    /// Were waiting a cost, a workspace would go unwatched for as long as the machine is busy.
    #[test]
    fn a_walk_that_has_to_wait_costs_no_more_than_one_that_need_not() {
        let top = tempfile::tempdir().unwrap();
        for name in 0..3000 {
            fs_err::write(top.path().join(name.to_string()), "").unwrap();
        }
        let budget = Budget { bytes: 1 << 30, files: 10_000 };
        let room = WorkspaceQuota::watch(vec![top.path().to_owned()], budget).unwrap();
        let is_over = AtomicBool::new(false);
        let (look, used) = std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let began = processor_time();
            let look = room.look();
            let used = processor_time().saturating_sub(began);
            is_over.store(true, Ordering::Relaxed);
            (look, used)
        });
        assert_eq!(look.used.files, 3000);
        assert!(look.took <= used, "{:?} for a walk that used {used:?}", look.took);
    }
}
