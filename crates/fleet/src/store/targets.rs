//! Targets: one repository of a campaign at one commit.

use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use super::db::{Write, clean, get, quoted, word};
use super::jobs::requeue;
use super::repositories::is_read_already;
use super::{Store, StoreError, StoreResult};
use patchwright_types::campaign::{ErrorClass, Millis, NewJob, NewTarget, Target, TargetState};
use patchwright_types::run_facts::{ChecksVerdict, RunFacts};

pub(super) const COLUMNS: &str =
    "id, campaign, repository, repository_id, number, base_branch, base_sha, wave, state, class, reason,
     run, attempts, cost_usd, tokens, pull_request, url, created_at, updated_at, started_at, ended_at,
     publishing_at, published_at, closed_at, writes, closing_at, fits_sha, checks, setup_failed, run_ms";

/// The rows of one repository: `$1` and `$2` are its id, `$3` its name in lower case. A name alone is only
/// believed where no id is known: it may have been another repository's.
pub(super) const SAME_REPOSITORY: &str =
    "(repository_id = $1 OR ((repository_id IS NULL OR $2 = '') AND lower(repository) = $3))";

pub(super) fn target_of(row: &AnyRow) -> StoreResult<Target> {
    let class: Option<String> = get(row, "class")?;
    let checks: Option<String> = get(row, "checks")?;
    let facts = RunFacts {
        checks: checks.and_then(|checks| ChecksVerdict::parse(&checks)),
        setup_failed: get::<Option<i64>>(row, "setup_failed")?.map(|failed| failed != 0),
        run_ms: get(row, "run_ms")?,
    };
    Ok(Target {
        id: get(row, "id")?,
        campaign: get(row, "campaign")?,
        repository: get(row, "repository")?,
        repository_id: get(row, "repository_id")?,
        number: get(row, "number")?,
        base_branch: get(row, "base_branch")?,
        base_sha: get(row, "base_sha")?,
        wave: get(row, "wave")?,
        state: word(row, "state", TargetState::parse)?,
        class: class.and_then(|class| ErrorClass::parse(&class)),
        reason: get(row, "reason")?,
        run: get(row, "run")?,
        attempts: get(row, "attempts")?,
        cost_usd: get(row, "cost_usd")?,
        tokens: get(row, "tokens")?,
        pull_request: get(row, "pull_request")?,
        url: get(row, "url")?,
        created_at: get(row, "created_at")?,
        updated_at: get(row, "updated_at")?,
        started_at: get(row, "started_at")?,
        ended_at: get(row, "ended_at")?,
        publishing_at: get(row, "publishing_at")?,
        published_at: get(row, "published_at")?,
        closed_at: get(row, "closed_at")?,
        writes: get(row, "writes")?,
        closing_at: get(row, "closing_at")?,
        fits_sha: get(row, "fits_sha")?,
        facts,
    })
}

/// How many targets are new, or wait again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddedTargets {
    /// They are to be worked on.
    pub work: usize,
    pub skipped: usize,
}

/// How far `batch close` is with a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    Begun,
    Finished,
}

/// Sets a target's state and nothing else: when its run, its publishing and the review ended is said by
/// those who end them.
pub(super) async fn set_state(
    write: &mut Write<'_>,
    target: i64,
    state: TargetState,
    class: Option<ErrorClass>,
    reason: Option<&str>,
) -> StoreResult<()> {
    let now = write.now;
    sqlx::query(
        "UPDATE targets SET state = $1, class = $2, reason = $3, updated_at = $4 WHERE id = $5",
    )
    .bind(state.word())
    .bind(class.map(ErrorClass::word))
    .bind(reason.map(clean))
    .bind(now)
    .bind(target)
    .execute(write.db())
    .await?;
    let campaign = sqlx::query("SELECT campaign FROM targets WHERE id = $1").bind(target);
    if let Some(row) = campaign.fetch_optional(write.db()).await? {
        let campaign: String = get(&row, "campaign")?;
        write.say(&campaign, Some(target), state.word(), reason);
    }
    Ok(())
}

impl Store {
    /// Adds targets that are not there yet (the same campaign, repository, number and base commit) as
    /// waiting or skipped; an older target of the same repository that has not been started is
    /// superseded. One that was skipped, or superseded before it was started, waits again when it is
    /// named again. Returns how many are new (or wait again).
    pub async fn add_targets(
        &self,
        campaign: &str,
        targets: &[NewTarget],
    ) -> StoreResult<AddedTargets> {
        let mut write = self.write().await?;
        let mut added = AddedTargets::default();
        for target in targets {
            let is_new = add(&mut write, campaign, target).await?;
            let count = if target.skipped.is_some() { &mut added.skipped } else { &mut added.work };
            *count += usize::from(is_new);
        }
        let all = added.work + added.skipped;
        if all > 0 {
            write.say(campaign, None, "targets", Some(&format!("{all} targets added")));
        }
        write.commit().await?;
        Ok(added)
    }

    pub async fn target(&self, id: i64) -> StoreResult<Target> {
        let select = format!("SELECT {COLUMNS} FROM targets WHERE id = $1");
        let row = sqlx::query(AssertSqlSafe(select)).bind(id);
        let row = row.fetch_optional(&mut *self.connection().await?).await?;
        let row = row.ok_or_else(|| StoreError::NotFound(format!("target {id}")))?;
        target_of(&row)
    }

    /// Every target of this repository in campaigns of this name, newest first.
    pub async fn history(
        &self,
        name: &str,
        repository: &str,
        repository_id: Option<&str>,
    ) -> StoreResult<Vec<Target>> {
        let select = format!(
            "SELECT {COLUMNS} FROM targets WHERE {SAME_REPOSITORY}
             AND campaign IN (SELECT id FROM campaigns WHERE name = $4) ORDER BY id DESC"
        );
        let (id, name_now) = (repository_id.unwrap_or_default(), repository.to_ascii_lowercase());
        let rows = sqlx::query(AssertSqlSafe(select)).bind(id).bind(id).bind(name_now);
        let rows = rows.bind(name).fetch_all(&mut *self.connection().await?).await?;
        rows.iter().map(target_of).collect()
    }

    /// What was found on the forge: the pull request was merged, closed, made a draft, … and when. True when
    /// it was in another state; a target that is being worked on stays as it is.
    pub async fn observe_target(
        &self,
        id: i64,
        state: TargetState,
        reason: Option<&str>,
        closed_at: Option<Millis>,
    ) -> StoreResult<bool> {
        let mut write = self.write().await?;
        let select = "SELECT state, published_at, closing_at FROM targets WHERE id = $1";
        let row = sqlx::query(write.lock_rows(select)).bind(id).fetch_optional(write.db()).await?;
        let row = row.ok_or_else(|| StoreError::NotFound(format!("target {id}")))?;
        let before = word(&row, "state", TargetState::parse)?;
        // The holder of the lease decides about a target that is being worked on.
        let busy = matches!(before, TargetState::Running | TargetState::Publishing);
        if before == state || busy {
            return Ok(false);
        }
        // What we began to close was not rejected by anybody, whoever was faster.
        let closing: Option<Millis> = get(&row, "closing_at")?;
        let state = match state {
            TargetState::Closed if closing.is_some() => TargetState::Superseded,
            state => state,
        };
        if before == state {
            return Ok(false);
        }
        set_state(&mut write, id, state, None, reason).await?;
        let now = write.now;
        let published: Option<Millis> = get(&row, "published_at")?;
        // By GitHub's clock, which need not agree with the store's.
        let closed = closed_at.map_or(now, |at| at.clamp(published.unwrap_or(0).min(now), now));
        let closed =
            matches!(state, TargetState::Merged | TargetState::Closed | TargetState::Superseded)
                .then_some(closed);
        sqlx::query("UPDATE targets SET closed_at = $1 WHERE id = $2")
            .bind(closed)
            .bind(id)
            .execute(write.db())
            .await?;
        write.commit().await?;
        Ok(true)
    }

    /// The open pull requests of these targets were seen to fit where their base branches are.
    pub async fn set_fitting(&self, seen: &[(i64, &str)]) -> StoreResult<()> {
        let mut write = self.write().await?;
        for (target, base_sha) in seen {
            sqlx::query(
                "UPDATE targets SET fits_sha = $1 WHERE id = $2 AND state IN ('open', 'draft')",
            )
            .bind(*base_sha)
            .bind(*target)
            .execute(write.db())
            .await?;
        }
        write.commit().await
    }

    /// `batch close` begins to close the target's pull request, or has nothing left to do there. Between the
    /// two, running it again finishes what is half done.
    pub async fn set_closing(&self, id: i64, closing: Closing) -> StoreResult<()> {
        let mut write = self.write().await?;
        let now = write.now;
        let at = match closing {
            Closing::Begun => Some(now),
            Closing::Finished => None,
        };
        sqlx::query("UPDATE targets SET closing_at = $1 WHERE id = $2")
            .bind(at)
            .bind(id)
            .execute(write.db())
            .await?;
        write.commit().await
    }

    /// Queues failed targets (of these classes, or all) again with their attempts reset; with a stored
    /// changeset only the publishing is repeated. Returns how many.
    pub async fn retry_targets(
        &self,
        campaign: &str,
        classes: &[ErrorClass],
        job_of: &(dyn Fn(&Target) -> NewJob + Sync),
        publish_of: &(dyn Fn(&Target) -> NewJob + Sync),
    ) -> StoreResult<usize> {
        let which = match classes {
            [] => String::new(),
            some => format!(" AND class IN ({})", quoted(some.iter().map(|class| class.word()))),
        };
        self.retry(campaign, &which, job_of, publish_of).await
    }

    /// Retries these targets, as far as they are the campaign's and have failed.
    pub async fn retry_these(
        &self,
        campaign: &str,
        targets: &[i64],
        job_of: &(dyn Fn(&Target) -> NewJob + Sync),
        publish_of: &(dyn Fn(&Target) -> NewJob + Sync),
    ) -> StoreResult<usize> {
        if targets.is_empty() {
            return Ok(0);
        }
        let ids: Vec<String> = targets.iter().map(i64::to_string).collect();
        let which = format!(" AND id IN ({})", ids.join(", "));
        self.retry(campaign, &which, job_of, publish_of).await
    }

    /// `which` is made of our own words and numbers.
    async fn retry(
        &self,
        campaign: &str,
        which: &str,
        job_of: &(dyn Fn(&Target) -> NewJob + Sync),
        publish_of: &(dyn Fn(&Target) -> NewJob + Sync),
    ) -> StoreResult<usize> {
        let mut write = self.write().await?;
        let select = format!(
            "SELECT {COLUMNS} FROM targets WHERE campaign = $1 AND state = 'failed'{which}
             AND NOT EXISTS (SELECT 1 FROM targets n WHERE n.campaign = targets.campaign
                AND COALESCE(n.repository_id, lower(n.repository))
                    = COALESCE(targets.repository_id, lower(targets.repository))
                AND COALESCE(n.number, 0) = COALESCE(targets.number, 0) AND n.id > targets.id
                AND NOT (n.state = 'skipped' AND n.run IS NULL))
             ORDER BY id"
        );
        let rows = sqlx::query(write.lock_rows(&select)).bind(campaign);
        let rows = rows.fetch_all(write.db()).await?;
        for row in &rows {
            let mut target = target_of(row)?;
            let stored = sqlx::query("SELECT 1 AS one FROM changesets WHERE target = $1");
            let stored = stored.bind(target.id).fetch_optional(write.db()).await?.is_some();
            target.state = if stored { TargetState::Ready } else { TargetState::Queued };
            target.attempts = 0;
            let job = if stored { publish_of(&target) } else { job_of(&target) };
            requeue(&mut write, &job).await?;
            set_state(&mut write, target.id, target.state, None, None).await?;
            let reset = if stored {
                // The run has ended and is not repeated.
                "UPDATE targets SET attempts = 0, published_at = NULL WHERE id = $1"
            } else {
                "UPDATE targets SET attempts = 0, ended_at = NULL, published_at = NULL WHERE id = $1"
            };
            sqlx::query(reset).bind(target.id).execute(write.db()).await?;
            write.say(campaign, Some(target.id), "retry", None);
        }
        write.commit().await?;
        Ok(rows.len())
    }
}

/// True when the target is new or waits again.
async fn add(write: &mut Write<'_>, campaign: &str, target: &NewTarget) -> StoreResult<bool> {
    if is_read_already(write, campaign, target).await? {
        return Ok(false);
    }
    let now = write.now;
    let state = if target.skipped.is_some() { TargetState::Skipped } else { TargetState::Waiting };
    let row = sqlx::query(
        "INSERT INTO targets (campaign, repository, repository_id, number, base_branch, base_sha, wave,
            state, reason, attempts, cost_usd, tokens, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, 0.0, 0, $10, $11)
         ON CONFLICT DO NOTHING RETURNING id",
    )
    .bind(campaign)
    .bind(target.repository.as_str())
    .bind(target.repository_id.clone())
    .bind(target.number)
    .bind(target.base_branch.as_str())
    .bind(target.base_sha.as_str())
    .bind(target.wave)
    .bind(state.word())
    .bind(target.skipped.as_deref().map(clean))
    .bind(now)
    .bind(now)
    .fetch_optional(write.db())
    .await?;
    // A conflict means that the target exists: the unique index covers campaign, repository, number
    // and commit.
    let Some(row) = row else { return again(write, campaign, target, state).await };
    let id: i64 = get(&row, "id")?;
    supersede_older(write, campaign, target, id).await?;
    if state == TargetState::Skipped {
        write.say(campaign, Some(id), state.word(), target.skipped.as_deref());
    }
    Ok(true)
}

/// As [`Target::identity`].
fn identity(target: &NewTarget) -> String {
    target.repository_id.clone().unwrap_or_else(|| target.repository.to_ascii_lowercase())
}

/// One that is there already: skipped or waiting is decided anew, everything else stays.
async fn again(
    write: &mut Write<'_>,
    campaign: &str,
    target: &NewTarget,
    state: TargetState,
) -> StoreResult<bool> {
    let now = write.now;
    let row = sqlx::query(
        "UPDATE targets SET state = $1, reason = $2, wave = $3, updated_at = $4
         WHERE campaign = $5 AND COALESCE(repository_id, lower(repository)) = $6
            AND COALESCE(number, 0) = $7
            AND base_sha = $8 AND (state IN ('skipped', 'waiting')
                OR (state = 'superseded' AND run IS NULL AND $9 = 'waiting'))
            AND (state <> $10 OR COALESCE(reason, '') <> $11)
         RETURNING id",
    )
    .bind(state.word())
    .bind(target.skipped.as_deref().map(clean))
    .bind(target.wave)
    .bind(now)
    .bind(campaign)
    .bind(identity(target))
    .bind(target.number.unwrap_or_default())
    .bind(target.base_sha.as_str())
    .bind(state.word())
    .bind(state.word())
    .bind(target.skipped.as_deref().map(clean).unwrap_or_default())
    .fetch_optional(write.db())
    .await?;
    let Some(row) = row else { return Ok(false) };
    let id: i64 = get(&row, "id")?;
    supersede_older(write, campaign, target, id).await?;
    write.say(campaign, Some(id), state.word(), target.skipped.as_deref());
    Ok(state == TargetState::Waiting)
}

/// Others of the same repository that nobody has started give way. Their jobs go first, in the order
/// in which everything locks rows: job, target, campaign.
async fn supersede_older(
    write: &mut Write<'_>,
    campaign: &str,
    target: &NewTarget,
    newest: i64,
) -> StoreResult<()> {
    let now = write.now;
    let older = "campaign = $2 AND COALESCE(repository_id, lower(repository)) = $3
         AND COALESCE(number, 0) = $4 AND id <> $5 AND state IN ('waiting', 'queued')";
    let jobs = format!(
        "UPDATE jobs SET state = 'cancelled', why = 'superseded', updated_at = $1
         WHERE kind = 'target' AND state = 'queued' AND subject IN
            (SELECT CAST(id AS TEXT) FROM targets WHERE {older})"
    );
    let rows = format!(
        "UPDATE targets SET state = 'superseded', reason = 'its base branch has moved',
            updated_at = $1 WHERE {older}
            AND NOT EXISTS (SELECT 1 FROM jobs WHERE kind = 'target' AND state = 'running'
                AND subject = CAST(targets.id AS TEXT))
         RETURNING id"
    );
    // Jobs first: a worker that claims one in between would otherwise run a target that is
    // superseded already.
    for text in [jobs, rows] {
        let done = sqlx::query(AssertSqlSafe(text))
            .bind(now)
            .bind(campaign)
            .bind(identity(target))
            .bind(target.number.unwrap_or_default())
            .bind(newest)
            .fetch_all(write.db())
            .await?;
        for row in &done {
            write.say(campaign, Some(get(row, "id")?), "superseded", None);
        }
    }
    Ok(())
}
