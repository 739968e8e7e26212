//! Opening databases that are new, old, of something else, damaged, locked or away.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use patchwright_base::error::Failure;
use patchwright_fleet::store::{Store, StoreError, VERSION};

use super::{Db, campaign};
use crate::support::postgres::postgres;

fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// The error as people read it.
async fn refused(url: &str) -> (StoreError, String) {
    let err = Store::open(url).await.expect_err("it is refused");
    let again = Store::open(url).await.expect_err("again");
    (err, Failure::from(again).to_string())
}

pub(super) async fn raw(path: &Path, statements: &[&str]) {
    let url = format!("sqlite://{}?mode=rwc", path.display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    for text in statements {
        sqlx::query(sqlx::AssertSqlSafe((*text).to_owned())).execute(&pool).await.unwrap();
    }
    pool.close().await;
}

#[tokio::test]
async fn a_new_file_is_private_and_may_have_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b#c%41.db");
    let address = patchwright_fleet::store::file_url(&path);
    let store = Store::open(&address).await.unwrap();
    store.put_campaign(&campaign()).await.unwrap();
    for file in fs_err::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        assert!(file.file_name().to_string_lossy().starts_with("a b#c%41.db"));
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    store.close().await;
    let left: Vec<_> = fs_err::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "one file to copy: {left:?}");
    let store = Store::open(&address).await.unwrap();
    assert_eq!(store.campaigns(None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn addresses_that_name_no_database_are_refused() {
    for (address, word) in [
        ("mysql://root@localhost/x", "postgres://"),
        ("fleet.db", "sqlite:PATH"),
        ("sqlite:", "needs a file"),
        ("sqlite::memory:", "needs a file"),
        ("sqlite:/no/such/folder/fleet.db", "/no/such/folder/fleet.db"),
        ("sqlite:/", "name of a file"),
        ("", "sqlite:PATH"),
        ("sqlite:/tmp/fleet.db?mode=ro", "`mode`"),
        ("postgres://me:pw@127.0.0.1:1/x?sslmod=require", "`sslmod`"),
        ("postgres://me:pw@127.0.0.1:1/x?sslmode=yes", "`ssl_mode`"),
    ] {
        let (err, text) = refused(address).await;
        // Another address, or another folder: nothing is there to be harmed.
        let is_path = address.starts_with("sqlite:/") && !address.contains('?');
        let expected = match err {
            StoreError::Address(_) => !is_path,
            StoreError::Unusable(_) | StoreError::NotReady { .. } => is_path,
            _ => false,
        };
        assert!(expected, "{address}: {err:?}");
        assert!(text.contains(word), "{address}: {text}");
        assert!(text.contains("hint: "), "{text}");
        assert!(!text.contains("restore it from a copy") || address == "sqlite:/", "{text}");
    }
}

#[tokio::test]
async fn a_newer_schema_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.db");
    Store::open(&url(&path)).await.unwrap().close().await;
    raw(&path, &["INSERT INTO patchwright_schema (version, at) VALUES (99, 0)"]).await;
    let before = fs_err::read(&path).unwrap();
    let (err, text) = refused(&url(&path)).await;
    assert!(matches!(err, StoreError::Newer(_)), "{err:?}");
    assert!(text.contains("version 99") && text.contains("newer"), "{text}");
    assert_eq!(fs_err::read(&path).unwrap(), before);
}

/// Takes away what later versions have added.
pub(super) const AS_VERSION_1: &[&str] = &[
    "DROP TABLE deliveries",
    "DROP TABLE selected",
    "DROP TABLE selections",
    "DROP TABLE outages",
    "ALTER TABLE jobs DROP COLUMN cut_at",
    "DROP TABLE fired",
    "DROP TABLE runs",
    "DROP TABLE run_days",
    "DROP INDEX jobs_by_age",
    "DROP INDEX jobs_next",
    "DROP INDEX jobs_next_apart",
    "DROP INDEX jobs_cheapest",
    "DROP INDEX jobs_queued_ahead",
    "DROP INDEX jobs_running",
    "DROP INDEX targets_once",
    "DROP INDEX targets_by_id",
    "DROP INDEX targets_by_state",
    "DROP INDEX targets_misconfigured",
    "ALTER TABLE targets DROP COLUMN repository_id",
    "ALTER TABLE targets DROP COLUMN publishing_at",
    "ALTER TABLE targets DROP COLUMN published_at",
    "ALTER TABLE targets DROP COLUMN closed_at",
    "ALTER TABLE targets DROP COLUMN writes",
    "ALTER TABLE targets DROP COLUMN closing_at",
    "ALTER TABLE targets DROP COLUMN fits_sha",
    "ALTER TABLE targets DROP COLUMN checks",
    "ALTER TABLE targets DROP COLUMN setup_failed",
    "ALTER TABLE targets DROP COLUMN run_ms",
    "CREATE UNIQUE INDEX targets_once
        ON targets (campaign, (lower(repository)), (COALESCE(number, 0)), base_sha)",
    "DELETE FROM patchwright_schema WHERE version > 1",
];

#[tokio::test]
async fn an_older_schema_is_copied_and_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.db");
    let store = Store::open(&url(&path)).await.unwrap();
    store.put_campaign(&campaign()).await.unwrap();
    store.close().await;
    // As the first version left it.
    raw(&path, AS_VERSION_1).await;
    let store = Store::open(&url(&path)).await.unwrap();
    assert!(store.fire_once("nightly", "now").await.unwrap());
    let store_days = store.run_days(30).await.unwrap().1.len();
    assert_eq!(store.campaigns(None).await.unwrap().len(), 1, "nothing was lost");
    store.close().await;
    let names: Vec<String> = fs_err::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    let copy = names.iter().find(|name| name.ends_with(".backup")).expect("a copy");
    assert!(copy.starts_with("fleet.db.v1-"), "{copy}");
    let copy = folder.path().join(copy);
    assert_eq!(fs_err::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}", copy.display())).await.unwrap();
    let count: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM campaigns").fetch_one(&pool).await.unwrap();
    assert_eq!(count, 1, "the copy is whole");
    assert_eq!(store_days, 0, "sums begin with the new version");
    assert_eq!(VERSION, 9, "a newer version needs its own step in this test");
}

#[tokio::test]
async fn what_is_not_ours_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.db");
    raw(&other, &["CREATE TABLE books (title TEXT)"]).await;
    let (err, text) = refused(&url(&other)).await;
    assert!(matches!(err, StoreError::Unusable(_)), "{err:?}");
    assert!(text.contains("belongs to something else") && text.contains("books"), "{text}");

    let letter = folder.path().join("letter.txt");
    fs_err::write(&letter, "Dear database, ".repeat(1_000)).unwrap();
    let (err, text) = refused(&url(&letter)).await;
    assert!(matches!(err, StoreError::Unusable(_)), "{err:?}");
    assert!(text.contains("no SQLite database"), "{text}");
    assert!(fs_err::read_to_string(&letter).unwrap().starts_with("Dear database"));

    let (err, text) = refused(&url(folder.path())).await;
    assert!(matches!(err, StoreError::Unusable(_)), "{err:?}: {text}");
}

#[tokio::test]
async fn a_damaged_page_is_found_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.db");
    let store = Store::open(&url(&path)).await.unwrap();
    store.put_campaign(&campaign()).await.unwrap();
    for number in 0..200 {
        store
            .record("tidy", None, "note", Some(&format!("{number} {}", "x".repeat(500))))
            .await
            .unwrap();
    }
    store.close().await;
    let mut bytes = fs_err::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8_192].fill(0xAB);
    fs_err::write(&path, &bytes).unwrap();
    let (err, text) = refused(&url(&path)).await;
    assert!(matches!(err, StoreError::Unusable(_)), "{err:?}");
    assert!(text.contains("damaged") && text.contains("hint: "), "{text}");
    assert_eq!(fs_err::read(&path).unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_file_is_waited_for_and_then_named() {
    let db = Db::sqlite();
    let store = db.open().await;
    let path = db.url.trim_start_matches("sqlite:").to_owned();
    let pool = sqlx::SqlitePool::connect(&format!("sqlite://{path}")).await.unwrap();
    let held = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert!(store.campaigns(None).await.unwrap().is_empty(), "readers go on");
    let err = store.set_value("a", "b").await.expect_err("it is locked");
    assert!(matches!(err, StoreError::Locked(_)), "{err:?}");
    assert!(Failure::from(err).to_string().contains("locked by another process"));
    drop(held);
    pool.close().await;
    store.set_value("a", "b").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_write_side_by_side() {
    let db = Db::sqlite();
    let store = db.open().await;
    let tasks: Vec<_> = (0..40)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                for round in 0..25 {
                    store.set_value(&format!("{task}"), &round.to_string()).await.unwrap();
                    let seen = store.value(&format!("{task}")).await.unwrap().unwrap();
                    assert_eq!(seen, round.to_string());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_or_refuses_is_named_without_its_password() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let away = format!("postgres://fleet:hunter2hunter2@127.0.0.1:{free}/fleet");
    let (err, text) = refused(&away).await;
    assert!(matches!(err, StoreError::Unavailable(_)), "{err:?}");
    assert!(text.contains(&format!("postgres://fleet@127.0.0.1:{free}/fleet")), "{text}");
    assert!(!text.contains("hunter2"), "{text}");

    let Some(server) = postgres().await else { return };
    let (err, text) = refused(&server.address("postgres", "hunter2hunter2")).await;
    assert!(matches!(err, StoreError::Unavailable(_)), "{err:?}");
    assert!(text.contains("password authentication failed"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    let password = crate::support::postgres::PASSWORD;
    let (err, text) = refused(&server.address("nowhere", password)).await;
    assert!(matches!(err, StoreError::NotReady { .. }), "{err:?}");
    assert!(text.contains("nowhere") && !text.contains(password), "{text}");
    assert!(text.contains("create it first (`createdb NAME`"), "{text}");

    // A newer one, and one with somebody else's tables.
    let db = Db::postgres(&server).await;
    db.open().await.close().await;
    db.sql("INSERT INTO patchwright_schema (version, at) VALUES (99, 0)").await;
    let (err, text) = refused(&db.url).await;
    assert!(matches!(err, StoreError::Newer(_)) && text.contains("version 99"), "{text}");
    let db = Db::postgres(&server).await;
    db.sql("CREATE TABLE jobs (id BIGINT)").await;
    let (err, text) = refused(&db.url).await;
    assert!(matches!(err, StoreError::Unusable(_)), "{err:?}");
    assert!(text.contains("belongs to something else") && text.contains("`jobs`"), "{text}");

    // Several that open an empty one at the same time make one schema.
    let db = std::sync::Arc::new(Db::postgres(&server).await);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let db = std::sync::Arc::clone(&db);
            tokio::spawn(async move { db.open().await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}
