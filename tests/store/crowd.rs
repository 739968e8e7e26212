//! A hundred workers on a PostgreSQL with the settings that it comes with. `cargo bench --bench crowd` is the same
//! with ten thousand jobs.

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
    let db = Db::postgres(&server).await;
    let (seen, _) = CROWD.work(&db.url).await;
    assert_eq!(*seen.troubles.lock(), Vec::<String>::new(), "{}", server.log());
    // While all of them start at once, some connections are refused, and tried again.
    eprintln!("{} connections were refused", server.log().matches("too many clients").count());
    let counts = db.open().await.job_counts().await.unwrap();
    let jobs = i64::try_from(CROWD.jobs).unwrap();
    assert_eq!(counts[&(JobKind::Delivery, "done".to_owned())], jobs);
    let done = seen.done.lock();
    assert!(done.values().all(|times| *times == 1), "each was done once: {done:?}");
    // Whoever was killed between the end of a job and its note of it.
    assert!(done.len() + CROWD.killed >= CROWD.jobs, "{} of {jobs}", done.len());
}
