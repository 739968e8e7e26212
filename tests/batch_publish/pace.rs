//! The pace of writes over several processes, against a GitHub that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use patchwright_fleet::batch::pace;
use patchwright_fleet::store::Store;
use patchwright_forge::{Forge, ForgeError, RepositoryId};
use patchwright_types::campaign::PaceLimits;

use super::{Bench, world};
use crate::forge::connect;
use crate::support::github::{Fault, Kind};

fn app() -> RepositoryId {
    "acme/app".parse().unwrap()
}

#[tokio::test]
async fn three_processes_never_write_more_than_the_limits() {
    let bench = Bench::new(world().issue("acme/app", 1, "Typo", "It says teh.")).await;
    let limits = PaceLimits { gap: 15, per_minute: 24, per_hour: 1_000 };
    let refused = Arc::new(AtomicUsize::new(0));
    let mut processes = Vec::new();
    for number in 0..3 {
        let path = bench.folder.path().join("fleet.db");
        let store = Store::open(&format!("sqlite:{}", path.display())).await.unwrap();
        let forge = connect(&bench.github).gated(pace::gate(&store, "token", limits, None));
        let refused = Arc::clone(&refused);
        processes.push(tokio::spawn(async move {
            for label in 0..12 {
                let labels = [format!("l{number}-{label}")];
                // Beyond the minute everybody would wait for longer than the patience of the test.
                let id = app();
                let write = forge.add_labels(&id, 1, &labels);
                match tokio::time::timeout(Duration::from_secs(10), write).await {
                    Ok(Ok(())) => {}
                    Ok(Err(err)) => panic!("{err}"),
                    Err(_) => {
                        refused.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                }
            }
        }));
    }
    for process in processes {
        process.await.unwrap();
    }
    let writes = bench.github.writes();
    // A place that a busy machine came too late for is lost.
    assert!((12..=24).contains(&writes.len()), "as many as a minute takes: {writes:#?}");
    assert_eq!(refused.load(Ordering::Relaxed), 3, "the others waited");
    // What was reserved, not when it arrived: a busy machine sends late.
    let reserved = reserved(&bench, "token").await;
    assert_eq!(reserved.len(), 24, "{reserved:?}");
    let is_apart = |pair: &[i64]| pair[1] - pair[0] >= limits.gap;
    assert!(reserved.windows(2).all(is_apart), "{reserved:?}");
}

/// The moments that were given to writes of this token, oldest first.
async fn reserved(bench: &Bench, token: &str) -> Vec<i64> {
    let url = format!("sqlite://{}", bench.folder.path().join("fleet.db").display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    let recent = sqlx::query_scalar("SELECT recent FROM pace WHERE token = $1").bind(token);
    let recent: String = recent.fetch_one(&pool).await.unwrap();
    serde_json::from_str(&recent).unwrap()
}

#[tokio::test]
async fn a_campaign_that_asks_for_less_gets_less() {
    let bench = Bench::new(world().issue("acme/app", 1, "Typo", "It says teh.")).await;
    let limits = PaceLimits { gap: 0, per_minute: 100, per_hour: 400 }.lowered(Some(3));
    let forge = bench.fleet.forge.gated(pace::gate(&bench.fleet.store, "token", limits, None));
    for label in ["a", "b", "c"] {
        forge.add_labels(&app(), 1, &[label.to_owned()]).await.unwrap();
    }
    let fourth = forge.add_labels(&app(), 1, &["d".to_owned()]).await.unwrap_err();
    assert!(matches!(fourth, ForgeError::RateLimited { .. }), "{fourth}");
    assert_eq!(bench.github.labels(1).len(), 3);
    // Reads are not counted.
    forge.issue(&app(), 1).await.unwrap();
}

#[tokio::test]
async fn a_limit_that_one_process_is_told_about_holds_all_of_them() {
    let window = Duration::from_millis(600);
    for kind in [
        Kind::Secondary { retry_after: Some(800), window },
        Kind::Primary { reset_in: 800, window },
    ] {
        // The server complains when it is dropped if anybody asks within the window.
        let github = world().issue("acme/app", 1, "Typo", "It says teh.");
        let bench = Bench::new(github.fault(Fault::once("POST", "/labels", kind))).await;
        let limits = PaceLimits { gap: 1, per_minute: 1_000, per_hour: 10_000 };
        let forge_of = async || {
            let path = bench.folder.path().join("fleet.db");
            let store = Store::open(&format!("sqlite:{}", path.display())).await.unwrap();
            connect(&bench.github).gated(pace::gate(&store, "token", limits, None))
        };
        let (one, other) = (forge_of().await, forge_of().await);
        other.issue(&app(), 1).await.unwrap();
        let first = tokio::spawn(async move { one.add_labels(&app(), 1, &["a".to_owned()]).await });
        while bench.fleet.store.pace_closed_for("token").await.unwrap() == 0 && !first.is_finished()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (write, read) =
            tokio::join!(async { other.add_labels(&app(), 1, &["b".to_owned()]).await }, async {
                other.issue(&app(), 1).await.map(|_| ())
            });
        assert!(write.is_ok() && read.is_ok());
        first.await.unwrap().unwrap();
        assert_eq!(bench.github.labels(1).len(), 2);
    }
}
