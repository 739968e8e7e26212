//! The connections to PostgreSQL. A server takes a hundred by default, for all processes together, and
//! each costs it a process: so a worker has few, gives up what it does not use, and holds none while its runs
//! run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::{AnyConnection, AnyPool};
use url::Url;

use super::StoreResult;
use super::db::{PATIENCE, get};

/// One that claims, one that renews, one for what jobs write.
const MOST: u32 = 3;

/// A connection that nothing was asked on for so long is closed.
const IDLE: Duration = Duration::from_secs(5);

/// How many connections the server has, of how many. Counted by `datid`, which everybody may see.
pub(super) const CROWD: &str = "SELECT CAST(COUNT(*) AS BIGINT) AS used,
        CAST(current_setting('max_connections') AS BIGINT) AS most
     FROM pg_stat_activity WHERE datid IS NOT NULL";

/// Connections are made when they are needed; a server that has no more of them is asked again, at growing
/// distances, until [`PATIENCE`] is over.
///
/// Whoever made one when the server was crowded keeps none between two statements: a fifth of the server's
/// connections is used by turns, so that those who came last can renew their leases, too.
pub(super) fn server(url: &Url) -> StoreResult<AnyPool> {
    let crowded = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&crowded);
    let options = AnyPoolOptions::new()
        .max_connections(MOST)
        .min_connections(0)
        .idle_timeout(IDLE)
        .acquire_timeout(PATIENCE)
        .after_connect(move |connection, _| {
            let crowded = Arc::clone(&crowded);
            Box::pin(async move {
                crowded.store(is_crowded(connection).await?, Ordering::Relaxed);
                Ok(())
            })
        })
        .after_release(move |_, _| {
            let keep = !seen.load(Ordering::Relaxed);
            Box::pin(std::future::ready(Ok(keep)))
        });
    Ok(options.connect_lazy(url.as_str())?)
}

/// More than four fifths of the connections are taken.
async fn is_crowded(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    let row = sqlx::query(CROWD).fetch_one(connection).await?;
    let number = |name| get::<i64>(&row, name).unwrap_or_default();
    Ok(number("used") * 5 > number("most") * 4)
}
