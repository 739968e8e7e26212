//! Taking a job of some repositories of a campaign: what a command takes that was asked for one part, or for
//! repositories by name, from a database that has others as well.
//!
//! Which repositories are meant is not known to the database, so all jobs of the campaign that are due are read. That
//! is no statement of workers: they take everything.

use std::collections::BTreeSet;

use sqlx::AssertSqlSafe;

use super::super::db::{get, quoted, word};
use super::super::{Store, StoreResult};
use super::statements::{Group, LIVE};
use super::{ClaimAttempt, ClaimableGroup, LOOKS, try_group};
use patchwright_types::campaign::{Job, JobKind, Lease, Millis};

impl Store {
    /// [`Store::claim_of`] for the jobs of those repositories of the campaign that are wanted.
    ///
    /// # Errors
    /// As [`Store::claim`].
    pub async fn claim_some(
        &self,
        owner: &str,
        kinds: &[JobKind],
        (campaign, wanted): (&str, &(dyn Fn(&str) -> bool + Sync)),
        length: Millis,
    ) -> StoreResult<Option<(Job, Lease)>> {
        for found in self.find_some(kinds, campaign, wanted).await? {
            let mut trying = self.write_claim().await?;
            let is_last = true;
            match try_group(&mut trying, owner, &found, is_last, length).await? {
                ClaimAttempt::Taken(job, lease) => {
                    trying.commit().await?;
                    return Ok(Some((job, lease)));
                }
                ClaimAttempt::Buried => trying.commit().await?,
                ClaimAttempt::Busy | ClaimAttempt::Gone => trying.roll_back().await?,
            }
        }
        Ok(None)
    }

    /// The first wanted job of each organisation, best first: of one that is full, the others need not be tried.
    async fn find_some(
        &self,
        kinds: &[JobKind],
        campaign: &str,
        wanted: &(dyn Fn(&str) -> bool + Sync),
    ) -> StoreResult<Vec<ClaimableGroup>> {
        let live = LIVE.replace("o.", "j.");
        let kinds = quoted(kinds.iter().map(|kind| kind.word()));
        let now = self.now().await?;
        // A target's subject is its id in digits.
        let select = format!(
            "SELECT j.id AS id, j.kind AS kind, j.priority AS priority, t.repository AS repository,
                COALESCE(j.organization, '') AS organization
             FROM jobs j JOIN targets t
                ON t.id = CAST(CASE WHEN j.kind <> 'delivery' THEN j.subject END AS BIGINT)
             WHERE COALESCE(j.campaign, '') = $2 AND j.kind IN ({kinds})
                AND ((j.state = 'queued' AND (j.run_at <= $1 OR j.updated_at > $1 + 60000))
                    OR (j.state = 'running' AND NOT ({live})))
             ORDER BY j.priority DESC, j.run_at, j.id"
        );
        let rows = sqlx::query(AssertSqlSafe(select)).bind(now).bind(campaign);
        let rows = rows.fetch_all(&mut *self.connection().await?).await?;
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        for row in &rows {
            let repository: String = get(row, "repository")?;
            let kind = word(row, "kind", JobKind::parse)?;
            let organization: String = get(row, "organization")?;
            if !wanted(&repository) || !seen.insert((kind, organization)) {
                continue;
            }
            found.push(ClaimableGroup {
                campaign: campaign.to_owned(),
                kind,
                group: Group::Stray,
                part: String::new(),
                priority: get(row, "priority")?,
                job: get(row, "id")?,
                limited: kind == JobKind::Target,
                // Not known; the claim looks.
                outage: true,
            });
            if found.len() >= 2 * LOOKS {
                break;
            }
        }
        Ok(found)
    }
}
