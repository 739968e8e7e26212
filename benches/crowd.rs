//! A hundred workers, ten thousand jobs that do nothing, a third of the workers killed: on a PostgreSQL with the
//! settings that it comes with. `cargo bench --bench crowd`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints and may fail")]
#![allow(clippy::print_stderr, reason = "it says what it skips")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

#[path = "../tests/support"]
mod support {
    pub(crate) mod crowd;
    pub(crate) mod postgres;
}

use std::time::Duration;

use support::crowd::Crowd;
use support::postgres::postgres_as_it_comes;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let Some(server) = postgres_as_it_comes().await else { return };
    let url = server.database_of_a_user().await;
    let crowd =
        Crowd { workers: 100, killed: 33, jobs: 10_000, short: Duration::ZERO, lease: 16_000 };
    let (seen, took) = crowd.work(&url).await;
    let (troubles, done) = (seen.troubles.lock(), seen.done.lock());
    println!(
        "{} jobs in {:.1} s: {:.0} a second; {} done twice, {} refused connections, {} deadlocks, {} troubles: {:?}",
        done.len(),
        took.as_secs_f64(),
        done.len() as f64 / took.as_secs_f64(),
        done.values().filter(|times| **times > 1).count(),
        server.refused(),
        server.log().matches("deadlock detected").count(),
        troubles.len(),
        troubles.iter().take(5).collect::<Vec<_>>(),
    );
}
