//! Claims from a queue of ten thousand jobs, of which two hundred run, in campaigns with budget, concurrency
//! and a limit for each organisation: on a PostgreSQL with its own settings, and on SQLite.
//! `cargo bench --bench claims`.
//!
//! Timed as the worker sees it: everything that the database does, and the way there and back. PostgreSQL also says
//! how long it has planned and worked itself.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints and may fail")]
#![allow(clippy::disallowed_methods, reason = "it starts a server")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
#![allow(clippy::print_stderr, reason = "it says what it skips")]

#[path = "../tests/support"]
mod support {
    pub(crate) mod postgres;
    pub(crate) mod queue;
}

use std::time::{Duration, Instant};

use patchwright_fleet::store::Store;
use patchwright_types::campaign::{JobEnd, JobKind, Lease};
use sqlx::{Connection, PgConnection};
use support::postgres::postgres_that_counts;
use support::queue::fill;

const KINDS: &[JobKind] = &[JobKind::Target, JobKind::Publish, JobKind::Delivery];
const LEASE: i64 = 3_600_000;
/// Claims of one client, and of all clients together.
const ALONE: usize = 300;
const TOGETHER: usize = 1_600;
const CLIENTS: usize = 16;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("fleet.db").display());
    measure("SQLite", &url, None).await;
    if let Some(server) = postgres_that_counts().await {
        let url = server.database().await;
        let mut counter = PgConnection::connect(&url).await.unwrap();
        sqlx::raw_sql("CREATE EXTENSION pg_stat_statements").execute(&mut counter).await.unwrap();
        measure("PostgreSQL", &url, Some(counter)).await;
    }
}

/// Milliseconds that the server has planned and worked, by its own count; those of SQLite are the CPU time of its
/// threads.
async fn database_time(counter: Option<&mut PgConnection>) -> f64 {
    let Some(counter) = counter else { return file_time() };
    let select = "SELECT SUM(total_plan_time + total_exec_time) FROM pg_stat_statements";
    sqlx::query_scalar(select).fetch_one(counter).await.unwrap()
}

/// Source: `/proc/pid/task/tid/schedstat`, whose first number are nanoseconds on a processor.
fn file_time() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of_thread = |folder: std::path::PathBuf| {
        let name = std::fs::read_to_string(folder.join("comm")).ok()?;
        let spent = std::fs::read_to_string(folder.join("schedstat")).ok()?;
        let spent: f64 = spent.split(' ').next()?.parse().ok()?;
        name.starts_with("sqlx-sqlite").then_some(spent)
    };
    let spent = threads.filter_map(|thread| of_thread(thread.ok()?.path()));
    spent.sum::<f64>() / 1e6
}

async fn measure(name: &str, url: &str, mut counter: Option<PgConnection>) {
    Store::open(url).await.unwrap().close().await;
    fill(url).await;
    let store = Store::open(url).await.unwrap();
    let (mut claims, mut renewals, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut leases = Vec::new();
    let before = database_time(counter.as_mut()).await;
    for _ in 0..ALONE {
        leases.push(timed(&mut claims, claim(&store, "alone")).await);
    }
    let spent = database_time(counter.as_mut()).await - before;
    println!("{name}: {:.2} ms of database time for a claim", spent / ALONE as f64);
    for lease in &leases {
        timed(&mut renewals, async { store.renew(lease).await.unwrap() }).await;
        timed(&mut ends, async { store.end_job(lease, &JobEnd::Done).await.unwrap() }).await;
    }
    let begun = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let url = url.to_owned();
            tokio::spawn(async move {
                let store = Store::open(&url).await.unwrap();
                // Connected, and the statements known.
                let first = claim(&store, "warm").await;
                store.end_job(&first, &JobEnd::Done).await.unwrap();
                let begun = Instant::now();
                for _ in 0..TOGETHER / CLIENTS {
                    claim(&store, &format!("client {client}")).await;
                }
                (begun, Instant::now())
            })
        })
        .collect();
    let (mut from, mut to) = (None, begun);
    for client in clients {
        let (begun, ended) = client.await.unwrap();
        from = Some(from.map_or(begun, |from: Instant| from.min(begun)));
        to = to.max(ended);
    }
    let seconds = to.duration_since(from.unwrap_or(begun)).as_secs_f64();
    println!(
        "{name}: one claim {}, a renewal {}, an end {}; {CLIENTS} clients: {:.0} claims a second",
        middle(claims),
        middle(renewals),
        middle(ends),
        TOGETHER as f64 / seconds,
    );
    store.close().await;
}

async fn claim(store: &Store, owner: &str) -> Lease {
    loop {
        if let Some((_, lease)) = store.claim(owner, KINDS, LEASE).await.unwrap() {
            return lease;
        }
    }
}

async fn timed<T>(times: &mut Vec<Duration>, work: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let done = work.await;
    times.push(begun.elapsed());
    done
}

/// Median and 99th percentile.
fn middle(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    format!("{:.2} ms (p99 {:.2})", at(50), at(99))
}
