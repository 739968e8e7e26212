//! A hundred workers on a PostgreSQL with the settings that it comes with, started at once. `cargo bench --bench crowd`
//! is the same with ten thousand jobs.

use std::time::Duration;

use patchwright_types::campaign::JobKind;

use super::Db;
use crate::support::crowd::{Crowd, Seen};
use crate::support::postgres::{Postgres, postgres_as_it_comes};

const CROWD: Crowd =
    Crowd { workers: 100, killed: 0, jobs: 700, short: Duration::from_millis(200), lease: 16_000 };

/// All jobs are done, each once; whoever was killed between the end of a job and its note of it noted nothing.
async fn all_is_done(crowd: Crowd, seen: &Seen, db: &Db, server: &Postgres) {
    assert_eq!(server.refused(), 0, "connections were refused: {}", server.log());
    let counts = db.open().await.job_counts().await.unwrap();
    let jobs = i64::try_from(crowd.jobs).unwrap();
    assert_eq!(counts[&(JobKind::Delivery, "done".to_owned())], jobs);
    let done = seen.done.lock();
    assert!(done.values().all(|times| *times == 1), "each was done once: {done:?}");
    assert!(done.len() + crowd.killed >= crowd.jobs, "{} of {jobs}", done.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workers_share_a_server_as_it_comes_and_a_third_of_them_dies() {
    let Some(server) = postgres_as_it_comes().await else { return };
    let db = Db::postgres_as_a_user(&server).await;
    let crowd = Crowd { killed: 33, ..CROWD };
    let (seen, took) = crowd.work(&db.url).await;
    assert_eq!(*seen.troubles.lock(), Vec::<String>::new(), "{}", server.log());
    all_is_done(crowd, &seen, &db, &server).await;
    let rate = f64::from(u32::try_from(crowd.jobs).unwrap()) / took.as_secs_f64();
    eprintln!("{rate:.0} jobs a second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workers_that_lose_their_server_at_once_come_back_in_turn() {
    let Some(server) = postgres_as_it_comes().await else { return };
    let db = Db::postgres_as_a_user(&server).await;
    // A renewal that falls into the time without a server is in time when the server is back.
    let crowd = Crowd { lease: 40_000, ..CROWD };
    let (seen, _) = crowd.work_through(&db.url, server.crash(Duration::from_secs(3))).await;
    assert!(server.log().contains("received immediate shutdown request"), "{}", server.log());
    // Whoever asks a server that is away is told so. It costs nobody a job.
    let troubles = seen.troubles.lock().clone();
    let is_told = |it: &String| it.contains("the database does not answer");
    assert!(troubles.iter().all(is_told), "{troubles:?}");
    all_is_done(crowd, &seen, &db, &server).await;
}
