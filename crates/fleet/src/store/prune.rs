//! Deletes what is no longer needed: bodies of handled deliveries, old deliveries with their
//! jobs and what they have done, ended runs, what jobs had lost, and what was said about campaigns that have ended. In bounded steps, so
//! that nobody waits for a lock that is held for long.

use super::{Store, StoreResult};
use patchwright_types::campaign::Millis;

/// Rows of a table that one step removes.
const STEP: i64 = 500;
/// Steps of one call; what is left is removed by the next one.
const STEPS: usize = 200;

/// `$1` is the moment before which rows go, `$2` how many at most.
const STATEMENTS: [&str; 10] = [
    // Of one that was given up the body is deleted by who says so ([`Store::end_lost`]).
    "UPDATE deliveries SET body = '' WHERE guid IN (
        SELECT d.guid FROM deliveries d JOIN jobs j ON j.kind = 'delivery' AND j.subject = d.guid
        WHERE d.body <> '' AND d.received_at > $1 - 1
            AND j.state IN ('done', 'failed', 'cancelled') LIMIT $2)",
    "DELETE FROM deliveries WHERE guid IN (
        SELECT d.guid FROM deliveries d WHERE d.received_at < $1 AND NOT EXISTS (
            SELECT 1 FROM jobs j WHERE j.kind = 'delivery' AND j.subject = d.guid
                AND j.state IN ('queued', 'running')) LIMIT $2)",
    "DELETE FROM jobs WHERE id IN (
        SELECT j.id FROM jobs j WHERE j.kind = 'delivery' AND j.updated_at < $1
            AND j.state IN ('done', 'failed', 'dead', 'cancelled')
            AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.guid = j.subject) LIMIT $2)",
    "DELETE FROM events WHERE id IN (
        SELECT e.id FROM events e LEFT JOIN campaigns c ON c.id = e.campaign
        WHERE e.at < $1 AND e.kind <> 'answer'
            AND (c.id IS NULL OR c.state IN ('done', 'closed')) LIMIT $2)",
    // Nothing is ever done for a closed campaign; to others what they may touch is never unknown.
    "DELETE FROM selected WHERE (campaign, name) IN (
        SELECT s.campaign, s.name FROM campaigns c JOIN selected s ON s.campaign = c.id
        WHERE c.state = 'closed' AND c.updated_at < $1 LIMIT $2)",
    // Digests of bodies, with the deliveries that had them.
    "DELETE FROM kept WHERE name IN (
        SELECT k.name FROM kept k WHERE k.name LIKE 'body:%' AND $1 > 0 AND NOT EXISTS (
            SELECT 1 FROM deliveries d WHERE d.guid = k.value) LIMIT $2)",
    // Which delivery has done the work on an issue, after the time of that delivery, which has thirteen digits as text.
    "DELETE FROM kept WHERE name IN (
        SELECT k.name FROM kept k WHERE k.name LIKE 'issue:%' AND $1 > 999999999999
            AND substr(k.value, 1, 13) < CAST($1 AS TEXT) LIMIT $2)",
    // How jobs lost their sandboxes, by their ids.
    "DELETE FROM kept WHERE name IN (
        SELECT k.name FROM kept k WHERE k.name LIKE 'lost-sandbox:%' AND NOT EXISTS (
            SELECT 1 FROM jobs j
            WHERE j.id = CASE WHEN k.name LIKE 'lost-sandbox:%' THEN CAST(substr(k.name, 14) AS BIGINT) END
                AND (j.updated_at >= $1 OR j.state IN ('queued', 'running'))) LIMIT $2)",
    "DELETE FROM runs WHERE id IN (SELECT id FROM runs WHERE at < $1 LIMIT $2)",
    // The sums are few, and charts look further back than runs are kept.
    "DELETE FROM run_days WHERE day IN (
        SELECT DISTINCT day FROM run_days WHERE day < $1 / 86400000 - 365 LIMIT $2)",
];

impl Store {
    /// Removes what is older than so many milliseconds and has come to its end. Returns how many rows.
    ///
    /// # Errors
    /// When the database cannot be used; what was removed by then stays removed.
    pub async fn prune(&self, keep: Millis) -> StoreResult<u64> {
        let before = self.now().await?.saturating_sub(keep);
        let mut all = 0;
        for statement in STATEMENTS {
            for _ in 0..STEPS {
                let mut write = self.write().await?;
                let query = sqlx::query(statement).bind(before).bind(STEP);
                let count = query.execute(write.db()).await?.rows_affected();
                write.commit().await?;
                all += count;
                if count < u64::try_from(STEP).unwrap_or(1) {
                    break;
                }
            }
        }
        Ok(all)
    }
}
