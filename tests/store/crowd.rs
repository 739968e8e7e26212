//! A hundred workers on a PostgreSQL with the settings that it comes with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use patchwright_fleet::batch::lease::HeldJob;
use patchwright_fleet::store::Store;
use patchwright_types::campaign::{JobEnd, JobKind, NewJob};

use super::Db;
use crate::support::postgres::postgres_as_it_comes;

const WORKERS: usize = 100;
const JOBS: usize = 2_000;
const LEASE: i64 = 16_000;
/// How long a run takes, during which nothing is asked; of a long one the lease has to be renewed.
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(9);

/// What the workers saw together.
#[derive(Default)]
struct Seen {
    done: Mutex<BTreeMap<i64, usize>>,
    troubles: Mutex<Vec<String>>,
    claimed: AtomicUsize,
}

/// Claims jobs and ends them, until nothing is left. A job is nothing
/// but time.
async fn work(url: String, worker: usize, seen: Arc<Seen>) {
    let store = Store::open(&url).await.unwrap();
    let owner = format!("worker {worker}");
    loop {
        let claimed = match store.claim(&owner, &[JobKind::Delivery], LEASE).await {
            Ok(claimed) => claimed,
            Err(err) => {
                seen.troubles.lock().push(format!("a claim: {err}"));
                continue;
            }
        };
        let Some((job, lease)) = claimed else {
            match store.outlook(&[JobKind::Delivery]).await {
                Ok(left) if left.waiting + left.running == 0 => break,
                Ok(_) => {}
                Err(err) => seen.troubles.lock().push(format!("a look: {err}")),
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            continue;
        };
        seen.claimed.fetch_add(1, Ordering::Relaxed);
        let number: usize = job.subject.parse().unwrap();
        let held = HeldJob::start(store.clone(), job, lease);
        let runs = if number.is_multiple_of(30) { LONG } else { SHORT };
        tokio::time::sleep(runs).await;
        if held.lost().is_cancelled() {
            seen.troubles.lock().push(format!("job {number} was renewed too late"));
        }
        match store.end_job(&held.lease, &JobEnd::Done).await {
            Ok(()) => *seen.done.lock().entry(held.lease.job).or_default() += 1,
            Err(err) => seen.troubles.lock().push(format!("an end: {err}")),
        }
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workers_share_a_server_as_it_comes() {
    let Some(server) = postgres_as_it_comes().await else { return };
    let db = Db::postgres(&server).await;
    let store = db.open().await;
    for number in 0..JOBS {
        let job = NewJob {
            kind: JobKind::Delivery,
            key: format!("delivery:{number}"),
            campaign: None,
            subject: number.to_string(),
            lane: Some(format!("repository:acme/{}", number % 500)),
            organization: None,
            priority: 0,
            max_attempts: 3,
            reserve_usd: 0.0,
            run_at: 0,
        };
        assert!(store.enqueue(&job).await.unwrap());
    }
    let seen = Arc::new(Seen::default());
    let mut workers: Vec<_> = (0..WORKERS)
        .map(|worker| tokio::spawn(work(db.url.clone(), worker, Arc::clone(&seen))))
        .collect();
    // A third of them die in the middle, with whatever they hold.
    while seen.claimed.load(Ordering::Relaxed) < JOBS / 3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for victim in workers.drain(..WORKERS / 3) {
        victim.abort();
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(*seen.troubles.lock(), Vec::<String>::new(), "{}", server.log());
    let counts = store.job_counts().await.unwrap();
    assert_eq!(counts[&(JobKind::Delivery, "done".to_owned())], i64::try_from(JOBS).unwrap());
    let done = seen.done.lock();
    assert!(done.values().all(|times| *times == 1), "each was done once: {done:?}");
    // Whoever was killed between the end of a job and its note of it.
    assert!(done.len() + WORKERS / 3 >= JOBS, "{} of {JOBS}", done.len());
}
