//! A disk that becomes full under an SQLite file, and has room again. The disk is a small file system in
//! memory.

use std::io::Write;
use std::path::Path;

use patchwright_base::error::Failure;
use patchwright_fleet::store::{Store, StoreError, file_url};

use super::campaign;
use crate::support::github::GitHub;
use crate::support::model::{ModelServer, custom, say};
use crate::support::world::{FILES, PATCH, TestWorld};

/// A file system of so many bytes, as long as this lives.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where mounting is not allowed, which in CI is a failure.
    #[expect(clippy::disallowed_methods, reason = "whether this is CI")]
    pub(crate) fn mount(bytes: u64) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let size = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        let mounted =
            rustix::mount::mount("tmpfs", folder.path(), "tmpfs", flags, Some(size.as_c_str()));
        if let Err(err) = mounted {
            assert!(std::env::var_os("CI").is_none(), "a file system cannot be mounted: {err}");
            eprintln!("mount: {err}; nothing is tried on a full disk");
            return None;
        }
        Some(SmallDisk(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves room for so many bytes.
    pub(crate) fn fill(&self, rest: usize) {
        let mut file = fs_err::File::create(self.path().join("filler")).unwrap();
        while file.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
        let size = file.metadata().unwrap().len();
        file.set_len(size.saturating_sub(rest as u64)).unwrap();
    }

    pub(crate) fn free(&self) {
        fs_err::remove_file(self.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_named_and_harms_no_connection() {
    let Some(disk) = SmallDisk::mount(4 << 20) else { return };
    let file = disk.path().join("fleet.db");
    let store = Store::open(&file_url(&file)).await.unwrap();
    let id = store.put_campaign(&campaign()).await.unwrap().id;
    disk.fill(0);
    let text = "x".repeat(64 << 10);
    for _ in 0..3 {
        // Several at once, so that several connections meet it.
        let writes = (0..6).map(|_| store.record(&id, None, "wave", Some(&text)));
        for written in futures_util::future::join_all(writes).await {
            let err = written.unwrap_err();
            assert!(matches!(err, StoreError::Full(_)), "{err:?}");
            let told = Failure::from(err).to_string();
            for part in ["the disk is full", file.to_str().unwrap(), "make room"] {
                assert!(told.contains(part), "{part}: {told}");
            }
        }
    }
    disk.free();
    let writes = (0..6).map(|_| store.record(&id, None, "wave", Some(&text)));
    for written in futures_util::future::join_all(writes).await {
        written.unwrap();
    }
    let events = store.events(&id, 0, 100).await.unwrap();
    assert_eq!(events.iter().filter(|event| event.kind == "wave").count(), 6);
}

#[test]
fn a_campaign_that_ran_into_a_full_disk_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mount(16 << 20) else { return };
    let github = ["app", "lib", "tool", "web"]
        .iter()
        .fold(GitHub::new().organization("acme"), |github, name| {
            github.repository(&format!("acme/{name}"), FILES)
        });
    let model = ModelServer::conversations(|_| {
        vec![custom("apply_patch", PATCH), say("Add instead of subtracting\n\nThe sign was wrong.")]
    });
    let world = TestWorld::with(github, model);
    world.write(
        "sums.yml",
        "name: sums\nselect:\n  organizations: [acme]\ntask:\n  prompt: In {{ repository }} `add` \
         subtracts. Make it add.\nverify: [sh test.sh]\n",
    );
    let file = disk.path().join("fleet.db");
    let database = file.to_str().unwrap();
    let run = || {
        world.run(&["batch", "run", "sums.yml", "--model", "gpt-5.3-codex", "--database", database])
    };
    // Enough for the tables, not for the work.
    disk.fill(520 << 10);
    let output = run();
    assert_ne!(output.code, 0, "{}", output.text());
    for part in ["the disk is full", database, "make room on that disk"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.text());
    }
    assert!(!output.stderr.contains("transaction depth"), "{}", output.text());
    disk.free();
    let output = run().expect(0);
    let pulls: Vec<usize> =
        world.github.world().repositories.iter().map(|one| one.pulls.len()).collect();
    assert_eq!(pulls, [1; 4], "{}", output.text());
}
