//! Taking over another database: how the shards of a workflow matrix come together.
//!
//! The other database is not trusted. Only targets of the requested campaign are imported; states that
//! claim a publication are not, numbers are bounded, and an unwanted target becomes a row that says why.
//! Changes are judged when they are published.

use sqlx::AssertSqlSafe;

use super::changesets::put_changeset;
use super::db::{Write, clean, get, word};
use super::targets::{COLUMNS as TARGET, target_of};
use super::{Store, StoreResult};
use patchwright_types::campaign::{Changeset, ErrorClass, Event, Millis, Target, TargetState};
use patchwright_types::run_facts::ChecksVerdict;

/// Events of a target that come.
const EVENTS: i64 = 200;
/// Targets that come from one database; GitHub's search gives no more than some thousands.
const TARGETS: i64 = 20_000;
/// Rows about what was not wanted.
const REFUSED: usize = 1_000;
/// Characters of a reason or an event.
const TEXT: usize = 4_000;

/// Which repository a target of another database is, as whoever takes it over knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRepository {
    /// GitHub's node id, where one is known.
    pub id: Option<String>,
    /// `OWNER/REPO` as it is called now.
    pub name: String,
}

/// What came of another database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Targets that came.
    pub came: usize,
    /// Those that did not, and why: repository and reason.
    pub refused: Vec<(String, String)>,
    /// Those that had been run here, or in a database that came before, as well: their runs were paid for, and nothing
    /// else of them is taken.
    pub repeated: usize,
}

/// What became of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImportOutcome {
    Came,
    /// Another run has its place; this one only cost.
    Repeated,
    Not,
}

impl Store {
    /// Takes over targets of the campaign that is called `theirs` there and `campaign` here, where it must be, with their
    /// changesets and events, each for the repository that `known` says it is of. A target that has come further here stays as it is; one for which `known` has a
    /// reason instead fails with it.
    ///
    /// # Errors
    /// When either database cannot be used.
    pub async fn import(
        &self,
        other: &Store,
        (theirs, campaign): (&str, &str),
        known: &(dyn Fn(&Target) -> Result<KnownRepository, String> + Sync),
    ) -> StoreResult<ImportReport> {
        let mut imported = ImportReport::default();
        let select =
            format!("SELECT {TARGET} FROM targets WHERE campaign = $1 ORDER BY id LIMIT {TARGETS}");
        let rows = sqlx::query(AssertSqlSafe(select)).bind(theirs);
        let rows = rows.fetch_all(&mut *other.connection().await?).await?;
        for row in &rows {
            let target = Target { campaign: campaign.to_owned(), ..target_of(row)? };
            match known(&target) {
                Err(why) if imported.refused.len() < REFUSED => {
                    if self.refuse(&target, &why).await? {
                        imported.refused.push((target.repository, why));
                    }
                }
                Err(_) => {}
                Ok(known) => match self.take_over(other, &target, known).await? {
                    ImportOutcome::Came => imported.came += 1,
                    ImportOutcome::Repeated => imported.repeated += 1,
                    ImportOutcome::Not => {}
                },
            }
        }
        Ok(imported)
    }

    /// A row that says why a target did not come. What it has cost was paid all the same.
    async fn refuse(&self, theirs: &Target, why: &str) -> StoreResult<bool> {
        let mut write = self.write().await?;
        let plain = Target { state: TargetState::Failed, ..theirs.clone() };
        let Some((ours, cost)) = place(&mut write, (&plain, &theirs.repository), None).await?
        else {
            return Ok(false);
        };
        let class = Some(ErrorClass::Policy);
        super::targets::set_state(&mut write, ours, TargetState::Failed, class, Some(why)).await?;
        charge(&mut write, ours, theirs, (dollars(theirs.cost_usd) - cost).max(0.0)).await?;
        write.commit().await?;
        Ok(true)
    }

    /// One target with its changeset and events, in one transaction.
    async fn take_over(
        &self,
        other: &Store,
        theirs: &Target,
        known: KnownRepository,
    ) -> StoreResult<ImportOutcome> {
        let Some(state) = state_of(theirs.state) else { return Ok(ImportOutcome::Not) };
        // A changeset of another repository would be published there under this target's name.
        let change = other.changeset(theirs.id).await?.filter(|change| belongs(change, theirs));
        let change = change.map(|change| Changeset { repository: known.name.clone(), ..change });
        let events = other.events_of(theirs).await?;
        let recorded = theirs.repository.as_str();
        let KnownRepository { id: repository_id, name: repository } = known;
        let theirs = &Target { repository_id, repository, ..theirs.clone() };
        let mut write = self.write().await?;
        let Some((ours, cost)) = place(&mut write, (theirs, recorded), retried_at(&events)).await?
        else {
            if !count_repeated(&mut write, theirs, recorded).await? {
                return Ok(ImportOutcome::Not);
            }
            write.commit().await?;
            return Ok(ImportOutcome::Repeated);
        };
        identify(&mut write, ours, theirs).await?;
        fill(&mut write, ours, theirs, state).await?;
        remember_run(&mut write, ours, theirs);
        if let Some(change) = &change {
            put_changeset(&mut write, ours, change).await?;
        }
        for event in &events {
            copy(&mut write, ours, theirs, event).await?;
        }
        // Only the difference: an earlier import may have counted a part of it.
        spend(&mut write, theirs, (dollars(theirs.cost_usd) - cost).max(0.0)).await?;
        write.commit().await?;
        Ok(ImportOutcome::Came)
    }

    async fn events_of(&self, target: &Target) -> StoreResult<Vec<Event>> {
        let rows = sqlx::query("SELECT * FROM events WHERE target = $1 ORDER BY id LIMIT $2");
        let rows =
            rows.bind(target.id).bind(EVENTS).fetch_all(&mut *self.connection().await?).await?;
        rows.iter().map(super::events::event_of).collect()
    }
}

/// When somebody last had it tried again in its database.
fn retried_at(events: &[Event]) -> Option<Millis> {
    events.iter().filter(|event| event.kind == "retry").map(|event| event.at).max()
}

/// What a target's state means here. One that was running when its database was left waits again; one
/// that was to be published is held. `None` for what only a publisher can say: another database had
/// it from one, and GitHub is asked again here.
fn state_of(theirs: TargetState) -> Option<TargetState> {
    match theirs {
        TargetState::Waiting | TargetState::Queued | TargetState::Running => {
            Some(TargetState::Waiting)
        }
        TargetState::Ready | TargetState::Publishing | TargetState::Held => Some(TargetState::Held),
        TargetState::Unchanged
        | TargetState::Reported
        | TargetState::Skipped
        | TargetState::Failed => Some(theirs),
        TargetState::Draft
        | TargetState::Open
        | TargetState::Merged
        | TargetState::Closed
        | TargetState::Superseded => None,
    }
}

/// The change is of this repository and commit.
fn belongs(change: &Changeset, target: &Target) -> bool {
    change.repository.eq_ignore_ascii_case(&target.repository) && change.base_sha == target.base_sha
}

/// Dollars that may be added up.
fn dollars(said: f64) -> f64 {
    if said.is_finite() { said.clamp(0.0, 1_000_000.0) } else { 0.0 }
}

fn short(text: &str) -> String {
    clean(text).chars().take(TEXT).collect()
}

/// The rows here of a target's repository at its commit: `$2` and `$3` are its id, `$4` its name and `$5` the recorded
/// one. Those that the id says come first; a name is believed where no id is known.
const SAME: &str = "campaign = $1
    AND (repository_id = $2 OR ((repository_id IS NULL OR $3 = '') AND lower(repository) IN ($4, $5)))
    AND COALESCE(number, 0) = $6 AND base_sha = $7";

/// The row that a target goes into, with what it has cost here; `None` when it has come as far here,
/// or has not been worked on there. `recorded` is what its repository was called there; one that has failed here gives
/// way to what came of it after it was retried there.
async fn place(
    write: &mut Write<'_>,
    (theirs, recorded): (&Target, &str),
    retried_at: Option<Millis>,
) -> StoreResult<Option<(i64, f64)>> {
    let select = format!(
        "SELECT id, state, cost_usd, run, ended_at FROM targets WHERE {SAME}
         ORDER BY CASE WHEN repository_id IS NULL THEN 1 ELSE 0 END, id LIMIT 1"
    );
    let repository_id = theirs.repository_id.clone().unwrap_or_default();
    let row = sqlx::query(write.lock_rows(&select))
        .bind(theirs.campaign.as_str())
        .bind(repository_id.as_str())
        .bind(repository_id.as_str())
        .bind(theirs.repository.to_ascii_lowercase())
        .bind(recorded.to_ascii_lowercase())
        .bind(theirs.number.unwrap_or(0))
        .bind(theirs.base_sha.as_str())
        .fetch_optional(write.db())
        .await?;
    let begun = |state| !matches!(state, TargetState::Waiting | TargetState::Queued);
    if let Some(row) = row {
        let (ours, cost) = (word(&row, "state", TargetState::parse)?, get(&row, "cost_usd")?);
        // One that waits to be tried again has cost what its attempts did.
        let further = begun(theirs.state) || dollars(theirs.cost_usd) > cost;
        let run: Option<String> = get(&row, "run")?;
        let ended_at: Option<Millis> = get(&row, "ended_at")?;
        let is_retried = ours == TargetState::Failed
            && retried_at.is_some_and(|at| at > ended_at.unwrap_or_default())
            && (run != theirs.run || !begun(theirs.state));
        let comes = further && !begun(ours) || is_retried;
        return Ok(comes.then_some((get(&row, "id")?, cost)));
    }
    let now = write.now;
    let row = sqlx::query(
        "INSERT INTO targets (campaign, repository, repository_id, number, base_branch, base_sha, wave, state,
            attempts, cost_usd, tokens, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 'waiting', 0, 0.0, 0, $8, $9) RETURNING id",
    )
    .bind(theirs.campaign.as_str())
    .bind(short(&theirs.repository))
    .bind(theirs.repository_id.as_deref().map(short))
    .bind(theirs.number)
    .bind(short(&theirs.base_branch))
    .bind(short(&theirs.base_sha))
    .bind(theirs.wave.clamp(0, 1_000))
    .bind(theirs.created_at.clamp(0, now))
    .bind(now)
    .fetch_one(write.db())
    .await?;
    Ok(Some((get(&row, "id")?, 0.0)))
}

/// A row that has only a name gets the id, and one of a repository that is called otherwise by now follows it.
async fn identify(write: &mut Write<'_>, ours: i64, theirs: &Target) -> StoreResult<()> {
    let Some(repository_id) = &theirs.repository_id else { return Ok(()) };
    let identified = "UPDATE targets SET repository_id = $1, repository = $2
         WHERE id = $3 AND (repository_id IS NULL OR repository <> $4) RETURNING id";
    let identified = sqlx::query(identified)
        .bind(repository_id.as_str())
        .bind(theirs.repository.as_str())
        .bind(ours)
        .bind(theirs.repository.as_str());
    if identified.fetch_optional(write.db()).await?.is_some() {
        sqlx::query("UPDATE changesets SET repository = $1 WHERE target = $2")
            .bind(theirs.repository.as_str())
            .bind(ours)
            .execute(write.db())
            .await?;
    }
    Ok(())
}

/// Adds to what a target has cost here, and to what its campaign has.
async fn charge(write: &mut Write<'_>, ours: i64, theirs: &Target, cost: f64) -> StoreResult<()> {
    sqlx::query("UPDATE targets SET cost_usd = cost_usd + $1 WHERE id = $2")
        .bind(cost)
        .bind(ours)
        .execute(write.db())
        .await?;
    spend(write, theirs, cost).await
}

async fn spend(write: &mut Write<'_>, theirs: &Target, cost: f64) -> StoreResult<()> {
    sqlx::query("UPDATE campaigns SET spent_usd = spent_usd + $1 WHERE id = $2")
        .bind(cost)
        .bind(theirs.campaign.as_str())
        .execute(write.db())
        .await?;
    Ok(())
}

/// The kind of the event that says which run came with a target.
const IMPORTED: &str = "imported";

/// By its run a target is known that comes again, from the same database or a copy of it.
fn remember_run(write: &mut Write<'_>, ours: i64, theirs: &Target) {
    if let Some(run) = &theirs.run {
        write.say(&theirs.campaign, Some(ours), IMPORTED, Some(&short(run)));
    }
}

/// Counts what a run has cost whose place another one has here; true when there was something to count. It is no
/// use to anybody, but it was paid for, and a budget that did not know it would be spent twice.
async fn count_repeated(
    write: &mut Write<'_>,
    theirs: &Target,
    recorded: &str,
) -> StoreResult<bool> {
    let cost = dollars(theirs.cost_usd);
    let Some(run) = theirs.run.as_deref().map(short).filter(|_| cost > 0.0) else {
        return Ok(false);
    };
    let select = format!(
        "SELECT id FROM targets WHERE {SAME} AND COALESCE(run, '') <> $8
         AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.run = $9)
         AND NOT EXISTS (SELECT 1 FROM events e
            WHERE e.target = targets.id AND e.kind = 'imported' AND e.text = $10)
         ORDER BY id LIMIT 1"
    );
    let repository_id = theirs.repository_id.clone().unwrap_or_default();
    let row = sqlx::query(write.lock_rows(&select))
        .bind(theirs.campaign.as_str())
        .bind(repository_id.as_str())
        .bind(repository_id.as_str())
        .bind(theirs.repository.to_ascii_lowercase())
        .bind(recorded.to_ascii_lowercase())
        .bind(theirs.number.unwrap_or(0))
        .bind(theirs.base_sha.as_str())
        .bind(run.as_str())
        .bind(run.as_str())
        .bind(run.as_str())
        .fetch_optional(write.db())
        .await?;
    let Some(row) = row else { return Ok(false) };
    let ours: i64 = get(&row, "id")?;
    charge(write, ours, theirs, cost).await?;
    remember_run(write, ours, theirs);
    Ok(true)
}

/// What a target came to there. Its pull request and page are not taken over: nothing was published
/// from there, and links are made from what GitHub says here.
async fn fill(
    write: &mut Write<'_>,
    ours: i64,
    theirs: &Target,
    state: TargetState,
) -> StoreResult<()> {
    sqlx::query(
        "UPDATE jobs SET state = 'cancelled', why = 'imported' WHERE key = $1 AND state = 'queued'",
    )
    .bind(format!("target:{ours}"))
    .execute(write.db())
    .await?;
    let now = write.now;
    sqlx::query(
        "UPDATE targets SET state = $1, class = $2, reason = $3, run = $4, attempts = $5,
            cost_usd = $6, tokens = $7, updated_at = $8, started_at = $9, ended_at = $10,
            checks = $11, setup_failed = $12, run_ms = $13
         WHERE id = $14",
    )
    .bind(state.word())
    .bind(theirs.class.map(ErrorClass::word))
    .bind(theirs.reason.as_deref().map(short))
    .bind(theirs.run.as_deref().map(short))
    .bind(theirs.attempts.clamp(0, 1_000))
    .bind(dollars(theirs.cost_usd))
    .bind(theirs.tokens.clamp(0, 1_000_000_000_000))
    .bind(now)
    .bind(theirs.started_at.map(|at| at.clamp(0, now)))
    .bind(theirs.ended_at.map(|at| at.clamp(0, now)))
    .bind(theirs.facts.checks.map(ChecksVerdict::word))
    .bind(theirs.facts.setup_failed.map(i64::from))
    .bind(theirs.facts.run_ms.map(|length| length.clamp(0, now)))
    .bind(ours)
    .execute(write.db())
    .await?;
    Ok(())
}

async fn copy(write: &mut Write<'_>, ours: i64, theirs: &Target, event: &Event) -> StoreResult<()> {
    let now = write.now;
    sqlx::query(
        "INSERT INTO events (at, campaign, target, repository, kind, text)
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(event.at.clamp(0, now))
    .bind(theirs.campaign.as_str())
    .bind(ours)
    .bind(short(&theirs.repository))
    .bind(short(&event.kind))
    .bind(event.text.as_deref().map(short))
    .execute(write.db())
    .await?;
    Ok(())
}
