//! One database, and programs of several versions: the older one stops taking work, and nothing is lost.

use patchwright_base::error::Failure;
use patchwright_fleet::store::{Store, StoreError, VERSION, file_url, look};
use patchwright_types::campaign::{JobEnd, TargetState};

use super::full::SmallDisk;
use super::{Db, campaign, claim, claimed, ended, new_target, queued};

/// A newer process has brought the database to its version while this one was at work.
pub(super) async fn who_does_not_know_the_version_takes_no_job(db: &Db) {
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/one", "acme/two"]).await;
    let (job, lease) = claimed(&store, "w").await;
    let id = job.subject.parse().unwrap();
    store.begin_target(&lease, id, "run-1").await.unwrap();
    db.sql("INSERT INTO patchwright_schema (version, at) VALUES (99, 0)").await;
    let err = store.claim("w", &[job.kind], 60_000).await.unwrap_err();
    assert!(matches!(err, StoreError::Newer(_)), "{err:?}");
    let told = Failure::from(err).to_string();
    assert!(told.contains("version 99") && told.contains("hint: nothing was changed"), "{told}");
    // What it works on comes to its end.
    let end = ended(TargetState::Unchanged);
    store.end_target(&lease, id, &end, None, None, &JobEnd::Done).await.unwrap();
    db.sql("DELETE FROM patchwright_schema WHERE version = 99").await;
    assert_eq!(store.target(id).await.unwrap().state, TargetState::Unchanged);
    assert!(claim(&store, "w").await.is_some(), "the other job is still there");
}

pub(super) async fn a_look_changes_nothing(db: &Db) {
    assert_eq!(look(&db.url).await.unwrap(), None);
    let file = db.url.strip_prefix("sqlite:").map(std::path::Path::new);
    assert!(file.is_none_or(|file| !file.exists()), "no file is made");
    db.open().await.close().await;
    assert_eq!(look(&db.url).await.unwrap(), Some(VERSION));
    db.sql("INSERT INTO patchwright_schema (version, at) VALUES (99, 0)").await;
    assert_eq!(look(&db.url).await.unwrap(), Some(99), "what it cannot open it can name");
    db.sql("DROP TABLE patchwright_schema").await;
    assert!(matches!(look(&db.url).await, Err(StoreError::Unusable(_))));
}

/// As version 1 left it, with so many bytes of history.
async fn old(file: &std::path::Path, bytes: usize) {
    let store = Store::open(&file_url(file)).await.unwrap();
    let id = store.put_campaign(&campaign()).await.unwrap().id;
    store.add_targets(&id, &[new_target("acme/one", "a")]).await.unwrap();
    store.record(&id, None, "wave", Some(&"x".repeat(bytes))).await.unwrap();
    store.close().await;
    super::open::raw(file, super::open::AS_VERSION_1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_during_an_upgrade_loses_nothing() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    let file = disk.path().join("fleet.db");
    old(&file, 1 << 20).await;
    let (mut full, mut upgraded) = (0, false);
    // More and more room: first for no copy, then for no more than the copy, at last for everything.
    for rest in (0..64).map(|step| step * (48 << 10)) {
        disk.fill(rest);
        let opened = Store::open_and_tell(&file_url(&file)).await;
        disk.free();
        let copies = || {
            let names = fs_err::read_dir(disk.path()).unwrap();
            names
                .filter(|it| {
                    it.as_ref().unwrap().path().extension().is_some_and(|it| it == "backup")
                })
                .count()
        };
        match opened {
            Ok((store, migrated)) => {
                let migrated = migrated.expect("it was older");
                assert_eq!((migrated.from, copies()), (1, 1));
                assert_eq!(look(&file_url(&migrated.copy.unwrap())).await.unwrap(), Some(1));
                let view = store.view(&campaign().id).await.unwrap();
                assert_eq!(view.targets.len(), 1);
                upgraded = true;
                break;
            }
            Err(err) => {
                full += 1;
                assert!(matches!(err, StoreError::Full(_)), "room for {rest}: {err:?}");
                assert_eq!(look(&file_url(&file)).await.unwrap(), Some(1), "room for {rest}");
                // The next try makes another, and all of them would fill the disk.
                assert_eq!(copies(), 0, "room for {rest}");
            }
        }
    }
    assert!(upgraded && full > 3, "{full} times without room");
}
