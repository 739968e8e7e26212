//! Whose container it is: the labels that every container and volume carries, and what they say to others.
//!
//! An owner is a process with containers, by a random name that no other has: no process number and no host name,
//! which mean something else in another namespace or on another machine. It shows in three ways that it lives:
//! the guests of its containers run, as their streams end with it; it beats ([`super::heartbeat`]); and it holds a
//! lock in its state folder, by which those who have the same folder know at once when it has ended. The file of a lock
//! stays behind, free, as long as anything of its owner may be there.
//! [`super::sweep`] weighs them.

use std::collections::HashMap;
use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::Docker;
use patchwright_base::process::ProcessIdentity;
use tokio::sync::Mutex;

use super::heartbeat::{Heartbeat, HeartbeatTiming};
use super::owned::Owned;
use crate::SandboxError;

/// The run's id.
pub(super) const RUN: &str = "patchwright.run";
const PURPOSE: &str = "patchwright.purpose";
/// The owner's name; earlier versions wrote a [`ProcessIdentity`].
pub(super) const OWNER: &str = "patchwright.owner";
/// Seconds since 1970, after which earlier versions remove a container as soon as no guest runs in it.
const DEADLINE: &str = "patchwright.deadline";

/// How long after its creation a container has its deadline.
pub(super) const LIFETIME: Duration = Duration::from_hours(24);

/// This process, which owns containers.
pub(crate) struct Owner {
    id: String,
    timing: HeartbeatTiming,
    /// Where owners of this machine have their locks.
    locks: Option<PathBuf>,
    /// What it has made and not removed.
    pub(crate) owned: Arc<Owned>,
    /// Held from the first container on.
    lock: parking_lot::Mutex<Option<HeldLock>>,
    /// Beats while there is a container.
    heartbeat: Mutex<Weak<Heartbeat>>,
}

impl Owner {
    pub(crate) fn new(timing: HeartbeatTiming) -> Owner {
        let id = format!("{:032x}", rand::random::<u128>());
        Owner {
            id,
            timing,
            locks: None,
            owned: Arc::default(),
            lock: parking_lot::Mutex::default(),
            heartbeat: Mutex::default(),
        }
    }

    /// Another one, with a lock below the state folder.
    pub(crate) fn in_state(&self, state: &Path) -> Owner {
        Owner { locks: Some(state.join("owners")), ..Owner::new(self.timing) }
    }

    pub(super) fn with_heartbeat(&self, timing: HeartbeatTiming) -> Owner {
        Owner { locks: self.locks.clone(), ..Owner::new(timing) }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Shows from now on that this process lives, for as long as somebody holds what is returned. Before the first
    /// container is there.
    pub(super) async fn heartbeat(&self, docker: &Docker) -> Result<Arc<Heartbeat>, SandboxError> {
        let mut known = self.heartbeat.lock().await;
        if let Some(heartbeat) = known.upgrade() {
            return Ok(heartbeat);
        }
        self.hold_lock();
        let heartbeat = Arc::new(Heartbeat::start(docker, &self.id, self.timing).await?);
        *known = Arc::downgrade(&heartbeat);
        Ok(heartbeat)
    }

    /// Without it leftovers of this process only wait longer.
    pub(crate) fn hold_lock(&self) {
        let Some(folder) = &self.locks else { return };
        let mut held = self.lock.lock();
        if held.is_some() {
            return;
        }
        let made = fs_err::create_dir_all(folder).and_then(|()| {
            // Nobody sees it before it is locked.
            let (making, path) = (folder.join(format!(".{}", self.id)), folder.join(&self.id));
            let file = fs_err::File::create_new(&making)?.into_parts().0;
            file.try_lock().map_err(std::io::Error::from)?;
            let identity = ProcessIdentity::own().map(|own| own.to_string());
            fs_err::write(&making, identity.unwrap_or_default())?;
            fs_err::rename(&making, &path)?;
            Ok(HeldLock { file, path, owned: Arc::clone(&self.owned) })
        });
        match made {
            Ok(lock) => *held = Some(lock),
            Err(err) => tracing::warn!(%err, "cannot lock a file in the state folder"),
        }
    }

    /// The owners of the state folder that have ended, by name.
    pub(crate) fn ended(&self) -> HashMap<String, EndedOwner> {
        let entries = self.locks.as_ref().and_then(|folder| fs_err::read_dir(folder).ok());
        let names = entries.into_iter().flatten().flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let lock = entry.path();
            let has_ended = is_id(&name) && name != self.id && is_free(&lock);
            has_ended.then(|| (name, EndedOwner { was_here: was_here(&lock), lock }))
        });
        names.collect()
    }

    /// Whether somebody holds this owner's lock in our state folder.
    pub(crate) fn holds_lock(&self, id: &str) -> bool {
        let path = self.locks.as_ref().map(|folder| folder.join(id));
        path.is_some_and(|path| path.exists() && !is_free(&path))
    }
}

/// An owner whose lock is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndedOwner {
    /// The file of its lock.
    pub(crate) lock: PathBuf,
    /// It ran under this kernel, which has freed the lock: it has ended for certain. A file system that machines share may
    /// keep a lock to the machine that took it.
    pub(crate) was_here: bool,
}

struct HeldLock {
    file: std::fs::File,
    path: PathBuf,
    owned: Arc<Owned>,
}

impl Drop for HeldLock {
    /// The lock of a killed process stays, free, and shows that it has ended, and so does that of one that could not remove
    /// all that it had made. One that leaves nothing leaves no lock.
    fn drop(&mut self) {
        if self.owned.is_empty() {
            // One that cannot be removed is removed by a sweep.
            let _ = fs_err::remove_file(&self.path);
        }
        let _ = self.file.unlock();
    }
}

fn is_free(path: &Path) -> bool {
    let Ok(file) = fs_err::File::open(path) else { return false };
    match file.into_parts().0.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

/// Whether the process that took this lock ran under the kernel that we run under.
fn was_here(path: &Path) -> bool {
    let boot = |process: ProcessIdentity| process.space.boot;
    let text = fs_err::read_to_string(path).unwrap_or_default();
    let taken = ProcessIdentity::parse(&text).map(boot);
    taken.is_some() && taken == ProcessIdentity::own().map(boot)
}

/// As [`Owner::new`] makes it; it becomes part of a path.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "deadlines are compared between processes, so a fixed clock must not change them"
)]
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The labels of a container or volume of ours.
pub(super) fn labels(run: &str, purpose: &str, owner: &str) -> HashMap<String, String> {
    HashMap::from([
        (RUN.to_owned(), run.to_owned()),
        (PURPOSE.to_owned(), purpose.to_owned()),
        (OWNER.to_owned(), owner.to_owned()),
        (DEADLINE.to_owned(), (now() + LIFETIME.as_secs()).to_string()),
    ])
}

/// Labels that say nothing, for images: Docker copies a container's labels into the image it is
/// committed to, and containers made from that image by others are not ours.
pub(super) fn no_labels() -> HashMap<String, String> {
    [RUN, PURPOSE, OWNER, DEADLINE]
        .into_iter()
        .map(|name| (name.to_owned(), String::new()))
        .collect()
}

/// Who the labels of something name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LabeledOwner {
    /// Not made by Patchwright. Half of our labels is as good as none.
    Nobody,
    Owner(String),
    /// By an earlier version: a process of some machine.
    Process {
        identity: Option<ProcessIdentity>,
        deadline: u64,
    },
}

pub(super) fn named(labels: &HashMap<String, String>) -> LabeledOwner {
    let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
    let (owner, deadline) = (label(OWNER), label(DEADLINE).parse::<u64>());
    let Ok(deadline) = deadline else { return LabeledOwner::Nobody };
    if label(RUN).is_empty() || owner.is_empty() {
        return LabeledOwner::Nobody;
    }
    if is_id(owner) {
        return LabeledOwner::Owner(owner.to_owned());
    }
    LabeledOwner::Process { identity: ProcessIdentity::parse(owner), deadline }
}

#[cfg(test)]
mod tests {
    use crate::docker::owner::*;

    #[test]
    fn reads_labels_of_all_versions() {
        let mine = Owner::new(HeartbeatTiming::default());
        let with = |name: &str, value: &str| {
            let mut row = labels("r1", "agent", mine.id());
            row.insert(name.to_owned(), value.to_owned());
            row
        };
        let process = ProcessIdentity::own().unwrap();
        let of_process = |identity: Option<ProcessIdentity>| {
            let deadline = with("", "")[DEADLINE].parse().unwrap();
            LabeledOwner::Process { identity, deadline }
        };
        for (labels, expected) in [
            (with("", ""), LabeledOwner::Owner(mine.id().to_owned())),
            (with(OWNER, &process.to_string()), of_process(Some(process))),
            (with(OWNER, "host/7/123456"), of_process(None)),
            (with(OWNER, "../../etc/passwd"), of_process(None)),
            (with(OWNER, ""), LabeledOwner::Nobody),
            (with(RUN, ""), LabeledOwner::Nobody),
            (with(DEADLINE, ""), LabeledOwner::Nobody),
            (no_labels(), LabeledOwner::Nobody),
            (HashMap::new(), LabeledOwner::Nobody),
        ] {
            assert_eq!(named(&labels), expected, "{labels:?}");
        }
    }

    #[test]
    fn a_lock_is_free_once_its_owner_has_ended() {
        let state = tempfile::tempdir().unwrap();
        let owner = || Owner::new(HeartbeatTiming::default()).in_state(state.path());
        let (one, two) = (owner(), owner());
        assert!(!two.holds_lock(one.id()), "it has not begun");
        one.hold_lock();
        assert!(two.holds_lock(one.id()));
        assert!(two.ended().is_empty());
        // A killed process: the kernel closes its files, and nobody removes one.
        let HeldLock { file, path, .. } =
            &*std::mem::ManuallyDrop::new(one.lock.lock().take().unwrap());
        file.unlock().unwrap();
        assert!(!two.holds_lock(one.id()));
        let ended = |was_here| EndedOwner { lock: path.clone(), was_here };
        assert_eq!(two.ended(), HashMap::from([(one.id().to_owned(), ended(true))]));
        // Of another machine, or of a version that wrote nothing.
        for text in ["0-0-0-0/pid:[1]/7/123456/other", ""] {
            fs_err::write(path, text).unwrap();
            assert_eq!(two.ended(), HashMap::from([(one.id().to_owned(), ended(false))]));
        }
        two.hold_lock();
        drop(two);
        assert_eq!(owner().ended().len(), 1, "one that ended properly leaves no lock");
    }

    #[test]
    fn a_lock_stays_as_long_as_something_of_its_owner_may_be_there() {
        let state = tempfile::tempdir().unwrap();
        let owner = || Owner::new(HeartbeatTiming::default()).in_state(state.path());
        for (is_removed, locks) in [(true, 0), (false, 1)] {
            let one = owner();
            one.hold_lock();
            one.owned.begin("a");
            one.owned.leave("a");
            assert!(one.owned.is_left("a"));
            if is_removed {
                one.owned.gone("a");
                // A late word about it brings it not back.
                one.owned.leave("a");
            }
            drop(one);
            assert_eq!(owner().ended().len(), locks);
        }
    }
}
