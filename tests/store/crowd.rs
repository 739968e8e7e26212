//! A hundred workers on a PostgreSQL with the settings that it comes with, started at once. `cargo bench --bench crowd`
//! is the same with ten thousand jobs.

use std::time::Duration;

use patchwright_types::campaign::JobKind;

use super::Db;
use crate::support::crowd::Crowd;
use crate::support::postgres::postgres_as_it_comes;

const CROWD: Crowd =
    Crowd { workers: 100, killed: 33, jobs: 2_000, short: Duration::from_millis(200) };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workers_share_a_server_as_it_comes_and_a_third_of_them_dies() {
    let Some(server) = postgres_as_it_comes().await else { return };
    let db = Db::postgres_as_a_user(&server).await;
    let (seen, took) = CROWD.work(&db.url).await;
    assert_eq!(*seen.troubles.lock(), Vec::<String>::new(), "{}", server.log());
    // Normally none; on a machine that is busy with other things some are, and are tried again.
    eprintln!("{} connections were refused", server.refused());
    let counts = db.open().await.job_counts().await.unwrap();
    let jobs = i64::try_from(CROWD.jobs).unwrap();
    assert_eq!(counts[&(JobKind::Delivery, "done".to_owned())], jobs);
    let done = seen.done.lock();
    assert!(done.values().all(|times| *times == 1), "each was done once: {done:?}");
    // Whoever was killed between the end of a job and its note of it.
    assert!(done.len() + CROWD.killed >= CROWD.jobs, "{} of {jobs}", done.len());
    let rate = f64::from(u32::try_from(CROWD.jobs).unwrap()) / took.as_secs_f64();
    eprintln!("{rate:.0} jobs a second");
}
