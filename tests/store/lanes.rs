//! Claims in a lane of which somebody has a row.

use std::time::Duration;

use patchwright_types::campaign::NewJob;
use sqlx::{Connection, PgConnection};

use super::{Db, campaign, claim, claimed, queued, target_job, target_of};
use crate::support::postgres::postgres;

/// Whoever has a row of a lane may wait for the lane itself: PostgreSQL leaves a row locked that was taken between the
/// look of a statement and its lock, and the next row that is looked at may be of the same lane.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_waits_for_nobody_who_has_a_row_of_its_lane() {
    let Some(server) = postgres().await else { return };
    let db = Db::postgres(&server).await;
    let store = db.open().await;
    queued(&store, &campaign(), &["acme/one"]).await;
    let target = target_of(&store, "acme/one").await;
    let (held, _) = claimed(&store, "gone").await;
    let second = NewJob { key: "another".to_owned(), ..target_job(&target) };
    assert!(store.enqueue(&second).await.unwrap());
    db.expire().await;

    let mut somebody = PgConnection::connect(&db.url).await.unwrap();
    let mut locked = somebody.begin().await.unwrap();
    let lock = sqlx::query("SELECT id FROM jobs WHERE id = $1 FOR UPDATE").bind(held.id);
    assert_eq!(lock.fetch_all(&mut *locked).await.unwrap().len(), 1);
    let answer = tokio::time::timeout(Duration::from_mins(1), claim(&store, "w")).await;
    assert_eq!(answer, Ok(None), "the lane may be renewed at this moment");
    locked.rollback().await.unwrap();
    claimed(&store, "w").await;
    assert_eq!(claim(&store, "w").await, None, "a lane has one runner");
}
