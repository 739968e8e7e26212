//! Workers that share a database: they claim jobs, renew what takes long, end it, and some of them are killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use patchwright_base::env::Env;
use patchwright_fleet::batch::fleet::spread;
use patchwright_fleet::batch::lease::HeldJob;
use patchwright_fleet::store::Store;
use patchwright_types::campaign::{JobEnd, JobKind, NewJob};
use tokio_util::task::AbortOnDropHandle;

/// How long one job in thirty takes, so that its lease has to be renewed.
const LONG: Duration = Duration::from_secs(9);

/// Who does how much.
#[derive(Clone, Copy)]
pub(crate) struct Crowd {
    pub(crate) workers: usize,
    /// How many workers are killed when all of them are at work and a third of the jobs were claimed.
    pub(crate) killed: usize,
    pub(crate) jobs: usize,
    /// How long a job takes that is not long.
    pub(crate) short: Duration,
    /// Milliseconds.
    pub(crate) lease: i64,
}

/// What the workers saw together.
#[derive(Default)]
pub(crate) struct Seen {
    /// How often each job was done.
    pub(crate) done: Mutex<BTreeMap<i64, usize>>,
    /// Claims, looks and ends that failed, and jobs that were renewed too late.
    pub(crate) troubles: Mutex<Vec<String>>,
    /// Workers that have begun.
    here: AtomicUsize,
    claimed: AtomicUsize,
    /// Workers that heard of new work, at the most.
    pub(crate) listened: AtomicUsize,
}

/// Hears of new work as long as the server has room for that, as every worker does.
async fn listen(store: Store, seen: Arc<Seen>) {
    let begun = || {
        seen.listened.fetch_add(1, Ordering::Relaxed);
    };
    if let Err(err) = store.listen(begun).await {
        seen.troubles.lock().push(format!("listening: {err}"));
    }
}

/// Claims jobs and ends them, until nothing is left. A job is nothing but time.
async fn work(url: String, worker: usize, seen: Arc<Seen>, Crowd { short, lease, .. }: Crowd) {
    spread(&Env::from_pairs([("DATABASE_URL", url.as_str())])).await;
    let store = Store::open(&url).await.unwrap();
    seen.here.fetch_add(1, Ordering::Relaxed);
    let _ear = AbortOnDropHandle::new(tokio::spawn(listen(store.clone(), Arc::clone(&seen))));
    let owner = format!("worker {worker}");
    loop {
        let claimed = match store.claim(&owner, &[JobKind::Delivery], lease).await {
            Ok(claimed) => claimed,
            Err(err) => {
                seen.troubles.lock().push(format!("a claim: {err}"));
                // As a worker does ([`patchwright_fleet::batch::worker`]).
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let Some((job, held)) = claimed else {
            match store.outlook(&[JobKind::Delivery]).await {
                Ok(left) if left.waiting + left.running == 0 => break,
                Ok(_) => {}
                Err(err) => seen.troubles.lock().push(format!("a look: {err}")),
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
            continue;
        };
        seen.claimed.fetch_add(1, Ordering::Relaxed);
        let number: usize = job.subject.parse().unwrap();
        let held = HeldJob::start(store.clone(), job, held);
        tokio::time::sleep(if number.is_multiple_of(30) { LONG } else { short }).await;
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

impl Crowd {
    /// Queues the jobs and has them done. Returns what was seen, and how long it took.
    pub(crate) async fn work(self, url: &str) -> (Arc<Seen>, Duration) {
        self.work_through(url, std::future::ready(())).await
    }

    /// Has the jobs done, while this happens when all are at work and a third of the jobs were claimed.
    pub(crate) async fn work_through(
        self,
        url: &str,
        event: impl Future<Output = ()>,
    ) -> (Arc<Seen>, Duration) {
        let store = Store::open(url).await.unwrap();
        for number in 0..self.jobs {
            assert!(store.enqueue(&job(number)).await.unwrap());
        }
        store.close().await;
        let seen = Arc::new(Seen::default());
        let begun = Instant::now();
        let one = |worker| tokio::spawn(work(url.to_owned(), worker, Arc::clone(&seen), self));
        let mut workers: Vec<_> = (0..self.workers).map(one).collect();
        // They die in the middle, with whatever they hold.
        let at_work = || {
            seen.here.load(Ordering::Relaxed) == self.workers
                && seen.claimed.load(Ordering::Relaxed) >= self.jobs / 3
        };
        while !at_work() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for victim in workers.drain(..self.killed) {
            victim.abort();
        }
        event.await;
        for worker in workers {
            worker.await.unwrap();
        }
        (seen, begun.elapsed())
    }
}

fn job(number: usize) -> NewJob {
    NewJob {
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
    }
}
