//! A circuit breaker that all workers share: what needs a service that does not work is not begun.
//!
//! A first job that is cut off raises a suspicion, and is put back. When a second one is cut off before the
//! service was seen to work, or the service itself named a limit, nothing that needs it is claimed for a
//! while. Then one job is let through as a probe: when it is cut off as well, the next pause is longer; as
//! soon as the service answers anybody, everything goes on.
//!
//! None of this costs a job one of its attempts, with two exceptions, so that nothing is tried for ever: a
//! job that alone is cut off while the service works for others, and an outage beyond all patience.

use sqlx::any::AnyRow;

use super::db::{clean, get, word};
use super::leases::fence;
use super::{Store, StoreResult};
use patchwright_base::error::Service;
use patchwright_types::campaign::{Lease, Millis, OutageRow};

/// The longest pause, in milliseconds, whatever a service says of its limit: afterwards it says it again.
pub(super) const LONGEST_PAUSE: Millis = 6 * 3_600_000;
/// Jobs that a row remembers; more would tell nothing.
const MOST_JOBS: usize = 8;

/// The times of the breaker, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutageTimes {
    /// The first pause, doubled each time that a probe fails, and the longest.
    pub first: Millis,
    pub longest: Millis,
    /// How long one job alone may be cut off without an attempt being counted.
    pub patience_with_one: Millis,
    /// How long several jobs may be cut off without an attempt being counted.
    pub patience: Millis,
}

/// What an outage means for the job that it cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutageEffect {
    /// The attempt counts like any other.
    pub counts: bool,
    /// The breaker was opened by this.
    pub opened: bool,
    /// Milliseconds until the next probe.
    pub next: Millis,
}

/// A row as it is judged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breaker {
    jobs: Vec<i64>,
    pub(crate) since: Option<Millis>,
    pub(crate) pauses: i64,
    pub(crate) until: Millis,
    /// When that was last put off.
    paused_at: Millis,
    pub(crate) probe: Option<i64>,
    worked_at: Millis,
}

/// Whether a pause counts at this time: one that ends later than it can, or is yet to begin, was written by a clock that
/// went ahead and has been set back.
pub(crate) fn is_paused((paused_at, until): (Millis, Millis), now: Millis) -> bool {
    let has_begun = paused_at <= now.saturating_add(60_000);
    has_begun && until > now && until <= now.saturating_add(LONGEST_PAUSE + 60_000)
}

impl Breaker {
    fn of(row: &AnyRow) -> StoreResult<Breaker> {
        let jobs: String = get(row, "jobs")?;
        Ok(Breaker {
            jobs: jobs.split(',').filter_map(|id| id.parse().ok()).collect(),
            since: get(row, "since")?,
            pauses: get(row, "pauses")?,
            until: get(row, "until_at")?,
            paused_at: get(row, "paused_at")?,
            probe: get(row, "probe")?,
            worked_at: get(row, "worked_at")?,
        })
    }

    /// `job` was cut off `now`, and before that at `cut_at`. `limit` is how long the service said that it
    /// lasts.
    pub(crate) fn cut(
        &mut self,
        (job, cut_at): (i64, Option<Millis>),
        now: Millis,
        limit: Option<Millis>,
        times: OutageTimes,
    ) -> OutageEffect {
        let limit = limit.map(|limit| limit.min(LONGEST_PAUSE));
        let is_alone = self.jobs.iter().all(|other| *other == job);
        if is_alone && self.since.is_none() && cut_at.is_some_and(|cut| self.worked_at >= cut) {
            return OutageEffect { counts: true, opened: false, next: 0 };
        }
        let since = *self.since.get_or_insert(now);
        if !self.jobs.contains(&job) && self.jobs.len() < MOST_JOBS {
            self.jobs.push(job);
        }
        let is_probe = self.probe == Some(job);
        let opened = self.pauses == 0 && (self.jobs.len() > 1 || limit.is_some());
        if opened || (is_probe && self.pauses > 0) {
            self.pauses += 1;
            self.probe = None;
            let doublings = u32::try_from(self.pauses - 1).unwrap_or_default().min(20);
            let pause = times.first.saturating_mul(1 << doublings).min(times.longest);
            self.until = now.saturating_add(pause.max(limit.unwrap_or_default()));
            self.paused_at = now;
        } else if let (Some(limit), true) = (limit, self.pauses > 0) {
            self.until = now.saturating_add(limit.max(self.left(now)));
            self.paused_at = now;
        }
        let patience = if self.jobs.len() > 1 { times.patience } else { times.patience_with_one };
        let counts = now.saturating_sub(since) > patience;
        OutageEffect { counts, opened, next: self.left(now) }
    }

    /// When the pause began, and when it ends.
    pub(crate) fn pause(&self) -> (Millis, Millis) {
        (self.paused_at, self.until)
    }

    /// How long the pause lasts from now on.
    fn left(&self, now: Millis) -> Millis {
        if is_paused(self.pause(), now) { self.until.saturating_sub(now) } else { 0 }
    }

    /// The service answered.
    pub(crate) fn works(now: Millis) -> Breaker {
        Breaker { worked_at: now, ..Breaker::default() }
    }
}

/// Whose row it is: a model is a campaign's, everything else is shared.
pub(super) fn scope(service: Service, campaign: Option<&str>) -> &str {
    match service {
        Service::Model => campaign.unwrap_or_default(),
        Service::ForgeApi | Service::Git => "",
    }
}

impl Store {
    /// A service failed a job. `limit` is how many milliseconds the service itself asked to wait, when it
    /// is a limit. Nothing is written about the job's end.
    ///
    /// # Errors
    /// When the lease was lost, or the database cannot be used.
    pub async fn cut_off(
        &self,
        lease: &Lease,
        service: Service,
        limit: Option<Millis>,
        why: &str,
        times: OutageTimes,
    ) -> StoreResult<OutageEffect> {
        let mut write = self.write().await?;
        let job = fence(&mut write, lease).await?;
        let campaign = scope(service, job.campaign.as_deref());
        sqlx::query(
            "INSERT INTO outages (service, campaign, jobs, pauses, until_at, worked_at)
             VALUES ($1, $2, '', 0, 0, 0) ON CONFLICT (service, campaign) DO NOTHING",
        )
        .bind(service.word())
        .bind(campaign)
        .execute(write.db())
        .await?;
        let row = sqlx::query(
            write.lock_rows("SELECT * FROM outages WHERE service = $1 AND campaign = $2"),
        );
        let row = row.bind(service.word()).bind(campaign).fetch_one(write.db()).await?;
        let mut breaker = Breaker::of(&row)?;
        let cut_at = sqlx::query("SELECT cut_at FROM jobs WHERE id = $1").bind(lease.job);
        let cut_at: Option<Millis> = get(&cut_at.fetch_one(write.db()).await?, "cut_at")?;
        write.look_again().await?;
        let now = write.now;
        let cut = breaker.cut((lease.job, cut_at), now, limit, times);
        let jobs: Vec<String> = breaker.jobs.iter().map(i64::to_string).collect();
        sqlx::query(
            "UPDATE outages SET jobs = $1, since = $2, pauses = $3, until_at = $4, probe = $5, why = $6,
                paused_at = $7 WHERE service = $8 AND campaign = $9",
        )
        .bind(jobs.join(","))
        .bind(breaker.since)
        .bind(breaker.pauses)
        .bind(breaker.until)
        .bind(breaker.probe)
        .bind(clean(why))
        .bind(breaker.paused_at)
        .bind(service.word())
        .bind(campaign)
        .execute(write.db())
        .await?;
        sqlx::query("UPDATE jobs SET cut_at = $1 WHERE id = $2")
            .bind(now)
            .bind(lease.job)
            .execute(write.db())
            .await?;
        if cut.opened {
            let text = format!("{} does not work: {why}", service.name());
            for campaign in running(&mut write, campaign).await? {
                write.say(&campaign, None, "outage", Some(&text));
            }
        }
        write.commit().await?;
        Ok(cut)
    }

    /// The service answered. Returns since when it had not, if it was an outage; a suspicion is dropped
    /// without a word.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn works_again(
        &self,
        service: Service,
        campaign: Option<&str>,
    ) -> StoreResult<Option<Millis>> {
        let campaign = scope(service, campaign);
        let mut write = self.write().await?;
        let row = sqlx::query(write.lock_rows(
            "SELECT * FROM outages WHERE service = $1 AND campaign = $2 AND since IS NOT NULL",
        ));
        let row = row.bind(service.word()).bind(campaign).fetch_optional(write.db()).await?;
        let Some(row) = row else { return Ok(None) };
        let breaker = Breaker::of(&row)?;
        write.look_again().await?;
        let now = write.now;
        sqlx::query(
            "UPDATE outages SET jobs = '', since = NULL, pauses = 0, until_at = 0, paused_at = 0,
                probe = NULL, worked_at = $1, why = NULL WHERE service = $2 AND campaign = $3",
        )
        .bind(now)
        .bind(service.word())
        .bind(campaign)
        .execute(write.db())
        .await?;
        let lasted = breaker.since.filter(|_| breaker.pauses > 0).map(|since| now - since);
        if lasted.is_some() {
            let text = format!("{} works again", service.name());
            for campaign in running(&mut write, campaign).await? {
                write.say(&campaign, None, "outage", Some(&text));
            }
            // Whoever waits for something to claim looks at once.
            write.notifies = true;
        }
        write.commit().await?;
        Ok(lasted)
    }

    /// What does not work, or is suspected not to, for this campaign or (without one) for any.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn outages(&self, campaign: Option<&str>) -> StoreResult<Vec<OutageRow>> {
        let now = self.now().await?;
        let rows = sqlx::query(
            "SELECT * FROM outages WHERE since IS NOT NULL
                AND ($1 = 1 OR campaign = $2 OR service <> 'model') ORDER BY service, campaign",
        )
        .bind(i64::from(campaign.is_none()))
        .bind(campaign.unwrap_or_default())
        .fetch_all(&mut *self.connection().await?)
        .await?;
        rows.iter()
            .map(|row| {
                let (paused_at, until) = (get(row, "paused_at")?, get(row, "until_at")?);
                Ok(OutageRow {
                    service: word(row, "service", Service::parse)?,
                    campaign: get(row, "campaign")?,
                    since: get::<Option<Millis>>(row, "since")?.unwrap_or_default(),
                    pauses: get(row, "pauses")?,
                    until: if is_paused((paused_at, until), now) { until } else { until.min(now) },
                    why: get::<Option<String>>(row, "why")?.unwrap_or_default(),
                })
            })
            .collect()
    }
}

/// The running campaigns that wait because of it.
async fn running(write: &mut super::db::Write<'_>, campaign: &str) -> StoreResult<Vec<String>> {
    let rows = sqlx::query(
        "SELECT id FROM campaigns WHERE state = 'running' AND ($1 = '' OR id = $2) ORDER BY id",
    );
    let rows = rows.bind(campaign).bind(campaign).fetch_all(write.db()).await?;
    rows.iter().map(|row| get(row, "id")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Breaker, OutageEffect, OutageTimes, is_paused};

    const TIMES: OutageTimes =
        OutageTimes { first: 30, longest: 300, patience_with_one: 1_800, patience: 9_000 };

    fn works(worked_at: i64) -> Breaker {
        Breaker { worked_at, ..Breaker::default() }
    }

    #[test]
    fn one_job_is_a_suspicion_and_two_are_an_outage() {
        let mut breaker = works(0);
        let first = breaker.cut((1, None), 1_000, None, TIMES);
        assert_eq!(first, OutageEffect { counts: false, opened: false, next: 0 });
        let second = breaker.cut((2, None), 1_010, None, TIMES);
        assert_eq!(second, OutageEffect { counts: false, opened: true, next: 30 });
        // What had begun before changes nothing; a probe that fails doubles the pause.
        assert_eq!(breaker.cut((3, None), 1_020, None, TIMES).next, 20);
        for (round, pause) in [60, 120, 240, 300, 300].into_iter().enumerate() {
            breaker.probe = Some(1);
            let now = 2_000 + i64::try_from(round).unwrap();
            assert_eq!(breaker.cut((1, Some(1_000)), now, None, TIMES).next, pause, "{round}");
        }
        assert!(breaker.cut((4, None), 10_001, None, TIMES).counts, "beyond all patience");
    }

    #[test]
    fn a_pause_ends_with_the_clock_that_wrote_it() {
        let mut breaker = works(0);
        breaker.cut((1, None), 7_200_000, Some(500), TIMES);
        let pause = breaker.pause();
        assert!(is_paused(pause, 7_200_100) && is_paused(pause, 7_199_000));
        assert!(!is_paused(pause, 7_200_500), "it is over");
        assert!(!is_paused(pause, 3_600_000), "the clock was set back by an hour");
        let again = breaker.cut((2, None), 3_600_000, Some(500), TIMES);
        assert_eq!(again.next, 500, "the limit of now");
        // As a version before wrote it.
        assert!(is_paused((0, breaker.until), 3_600_100));
    }

    #[test]
    fn a_limit_says_itself_how_long_it_lasts() {
        let mut breaker = works(0);
        let limited = breaker.cut((1, None), 1_000, Some(500), TIMES);
        assert_eq!(limited, OutageEffect { counts: false, opened: true, next: 500 });
        assert_eq!(breaker.cut((2, None), 1_400, Some(500), TIMES).next, 500);
    }

    #[test]
    fn a_job_that_fails_alone_while_the_service_works_for_others_counts() {
        let mut breaker = works(0);
        assert!(!breaker.cut((1, None), 1_000, None, TIMES).counts);
        // The service answered somebody at 1,005.
        let mut breaker = works(1_005);
        assert!(breaker.cut((1, Some(1_000)), 1_030, None, TIMES).counts);
        // In the next outage it is one of several.
        let mut breaker = works(1_005);
        assert!(!breaker.cut((2, None), 1_020, None, TIMES).counts);
        assert!(!breaker.cut((1, Some(1_000)), 1_030, None, TIMES).counts);
        // Alone, and nobody else is there to tell.
        let mut breaker = works(0);
        for now in [1_000, 1_030, 2_700] {
            assert!(!breaker.cut((1, Some(900)), now, None, TIMES).counts, "{now}");
        }
        assert!(breaker.cut((1, Some(2_700)), 2_900, None, TIMES).counts);
    }
}
