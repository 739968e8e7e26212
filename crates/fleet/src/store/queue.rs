//! What runs and what waits, for people: the jobs that have been at it for longest.

use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use super::db::{get, word};
use super::{Store, StoreResult};
use patchwright_types::campaign::{JobKind, Millis};

/// Rows of either list.
const MOST: i64 = 50;

/// A job that somebody has.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningJob {
    pub kind: JobKind,
    pub repository: Option<String>,
    pub number: Option<i64>,
    /// The last run, where the job is for a target of a campaign.
    pub run: Option<String>,
    pub attempt: i64,
    /// Host, process and a random part, before an `@`.
    pub owner: String,
}

/// A job that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedJob {
    pub kind: JobKind,
    pub repository: Option<String>,
    pub number: Option<i64>,
    pub since: Millis,
    /// Not before this.
    pub run_at: Millis,
    pub attempt: i64,
    /// Why the attempt before did not do.
    pub why: Option<String>,
}

/// A job `j` with what it is about. A target's subject is its id in digits.
const ABOUT: &str = "SELECT j.kind AS kind, j.attempt AS attempt, j.owner AS owner, j.why AS why,
        j.created_at AS created_at, j.run_at AS run_at, t.run AS run,
        COALESCE(d.repository, t.repository) AS repository, COALESCE(d.number, t.number) AS number
     FROM (SELECT * FROM jobs WHERE state = $1 ORDER BY created_at LIMIT $2) j
     LEFT JOIN deliveries d ON j.kind = 'delivery' AND d.guid = j.subject
     LEFT JOIN targets t ON j.kind <> 'delivery'
        AND t.id = CAST(CASE WHEN j.kind <> 'delivery' THEN j.subject END AS BIGINT)
     ORDER BY j.created_at";

impl Store {
    /// The jobs that run, those first that came first.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn running_jobs(&self) -> StoreResult<Vec<RunningJob>> {
        let running = |row: &AnyRow| {
            let owner: Option<String> = get(row, "owner")?;
            Ok(RunningJob {
                kind: word(row, "kind", JobKind::parse)?,
                repository: get(row, "repository")?,
                number: get(row, "number")?,
                run: get(row, "run")?,
                attempt: get(row, "attempt")?,
                owner: owner.unwrap_or_default(),
            })
        };
        self.oldest("running").await?.iter().map(running).collect()
    }

    /// The jobs that wait, the oldest first.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn queued_jobs(&self) -> StoreResult<Vec<QueuedJob>> {
        let queued = |row: &AnyRow| {
            Ok(QueuedJob {
                kind: word(row, "kind", JobKind::parse)?,
                repository: get(row, "repository")?,
                number: get(row, "number")?,
                since: get(row, "created_at")?,
                run_at: get(row, "run_at")?,
                attempt: get(row, "attempt")?,
                why: get(row, "why")?,
            })
        };
        self.oldest("queued").await?.iter().map(queued).collect()
    }

    async fn oldest(&self, state: &'static str) -> StoreResult<Vec<AnyRow>> {
        let query = sqlx::query(AssertSqlSafe(ABOUT)).bind(state).bind(MOST);
        Ok(query.fetch_all(&mut *self.connection().await?).await?)
    }
}
