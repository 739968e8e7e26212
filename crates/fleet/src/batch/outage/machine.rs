//! This machine cannot keep what runs write: its disk is full, or the state folder is read-only. That is no
//! repository's failure. A worker begins nothing before it has looked, and a run that fails for it goes back without an
//! attempt counted, for workers of other machines.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Outages;
use crate::batch::lease::HeldJob;
use crate::store::StoreResult;
use patchwright_sandbox::{EngineTrouble, disk};
use patchwright_task::world;
use patchwright_types::campaign::Millis;

/// Between two looks: each writes a small file.
const LOOK: Duration = Duration::from_secs(5);
/// What is written to find out whether anything can be.
const PROBE: &[u8] = &[b'x'; 4096];

/// What is known of the state folder.
#[derive(Default)]
pub(super) struct Disk {
    looked: Option<Instant>,
    /// Why nothing can be kept, as people were told.
    trouble: Option<String>,
}

impl Outages {
    /// Whether this machine can keep what a run writes. Looks once in a while, and says it when it changes.
    pub fn has_disk(&self, state: &Path) -> bool {
        let fresh = LOOK.mul_f64(self.scale.min(1.0));
        {
            let disk = &self.known.lock().disk;
            if disk.looked.is_some_and(|at| at.elapsed() < fresh) {
                return disk.trouble.is_none();
            }
        }
        self.look_at_disk(state)
    }

    /// [`Outages::has_disk`] as it is at this moment.
    pub(in crate::batch) fn look_at_disk(&self, state: &Path) -> bool {
        let trouble = trouble(state);
        let disk = &mut self.known.lock().disk;
        disk.looked = Some(Instant::now());
        match (&disk.trouble, &trouble) {
            (None, Some(why)) => {
                self.ui.failure(&format!("{why}; nothing is begun here until that is put right"));
            }
            (Some(_), None) => self.ui.say("the state folder takes files again"),
            (Some(_), Some(_)) | (None, None) => {}
        }
        disk.trouble = trouble;
        disk.trouble.is_none()
    }

    /// Whether what a run writes, or what it came to, cannot be kept here at this moment.
    pub(in crate::batch) fn is_full(&self, state: &Path) -> bool {
        !self.look_at_disk(state) || !self.store.has_room()
    }

    /// For how many milliseconds a job is put back that this machine failed, without an attempt counted; `None` when
    /// the attempt counts like any other. Bounded as for sandboxes: what one repository needs may be what fills a disk.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn machine_failed(
        &self,
        held: &HeldJob,
        state: &Path,
    ) -> StoreResult<Option<Millis>> {
        let is_full = self.is_full(state);
        let trouble = if is_full { EngineTrouble::Away } else { EngineTrouble::TookAway };
        let is_patient = self.is_patient_with(held.job.id, trouble).await?;
        Ok(is_patient.then(|| self.again()))
    }
}

/// Why a folder takes nothing.
fn trouble(state: &Path) -> Option<String> {
    if let Some(short) = disk::shortage(state) {
        return Some(short);
    }
    if let Err(err) = write_probe(state) {
        let name = state.display();
        return Some(format!("the state folder `{name}` takes no files: {err}"));
    }
    let (part, err) = world::closed_part(state)?;
    Some(format!("`{}` in the state folder cannot be used: {err}", part.display()))
}

/// Under a name of its own: other workers look at the same time, also those of another container's process with the
/// same number.
fn write_probe(state: &Path) -> std::io::Result<()> {
    fs_err::create_dir_all(state)?;
    let mut file = tempfile::Builder::new().prefix(".probe-").tempfile_in(state)?;
    file.write_all(PROBE)?;
    // What is there of it is of no use, whether or not it is whole.
    file.close()
}

#[cfg(test)]
mod tests {
    use crate::batch::outage::machine::trouble;

    #[test]
    fn a_folder_that_takes_no_files_is_named_and_a_probe_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert_eq!(trouble(&state), None);
        assert_eq!(fs_err::read_dir(&state).unwrap().count(), 0);
        let file = folder.path().join("file");
        fs_err::write(&file, "").unwrap();
        let said = trouble(&file.join("state")).unwrap();
        assert!(said.contains("takes no files"), "{said}");
        assert!(trouble(std::path::Path::new("/proc/none")).is_some());
        // As a folder of another user is, but also for root.
        fs_err::write(state.join("locks"), "").unwrap();
        let said = trouble(&state).unwrap();
        assert!(said.contains("/state/locks` in the state folder cannot be used"), "{said}");
    }

    #[test]
    fn workers_that_look_at_the_same_time_find_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let look = || (0..200).find_map(|_| trouble(folder.path()));
        std::thread::scope(|scope| {
            let looks: Vec<_> = (0..4).map(|_| scope.spawn(look)).collect();
            for look in looks {
                assert_eq!(look.join().unwrap(), None);
            }
        });
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 0);
    }
}
