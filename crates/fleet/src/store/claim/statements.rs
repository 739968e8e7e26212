//! The statements of a claim and of a renewal, as text. Each reads what a claim needs and no more: groups
//! of queued jobs are walked by their index, and of each group only the first job is read.
//!
//! Made of our own words; what others wrote is bound.

use super::super::db::{Dialect, quoted};
use super::super::selections::SELECTED;
use patchwright_types::campaign::JobKind;

/// A job `o` whose lease counts at `$1`: it has not run out, and does not end so late that the clock
/// must have been wrong when it was given.
pub(crate) const LIVE: &str = "o.state = 'running' AND o.lease_until > $1
    AND o.lease_until <= $1 + o.lease_ms + 60000";

/// What one full organisation, or one busy lane, holds back as a whole. As in the index
/// `jobs_next_apart`.
const PART: &str =
    "CASE q.kind WHEN 'publish' THEN COALESCE(q.lane, '') ELSE COALESCE(q.organization, '') END";

/// The queued jobs of a row `w` that names campaign and kind. As in the index `jobs_next`.
///
/// There is an expression on both sides, here and below, because SQLite does not use the index of one to
/// compare it with a column of a type.
const QUEUED: &str = "FROM jobs q
    WHERE q.state = 'queued' AND COALESCE(q.campaign, '') = COALESCE(w.campaign, '') AND q.kind = w.kind";

/// The services that are out and that a job of campaign `$1` may need.
pub(crate) const OUTAGES: &str = "SELECT service, campaign, paused_at, until_at FROM outages
     WHERE pauses > 0 AND (service <> 'model' OR campaign = $1) ORDER BY service, campaign";

/// What a statement is bound to, in the order of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    Now,
    Campaign,
    Kind,
    Priority,
    Part,
    Job,
    Epoch,
    Owner,
    Lane,
    Length,
    Attempt,
    Repository,
}

/// A statement that every worker sends again and again.
#[derive(Clone, Debug)]
pub struct HotStatement {
    pub name: &'static str,
    /// How its transaction begins, when that is not plainly.
    pub begin: Option<&'static str>,
    pub sql: String,
    pub bound: &'static [Parameter],
}

/// Which jobs [`pick`] looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// All of a campaign, a kind and a priority.
    Whole,
    /// Those jobs of a campaign, a kind and a priority that are an organisation's or a lane's.
    Apart,
    /// A single one, which no index has at its front: left behind, or queued by a clock that was wrong.
    Stray,
}

impl Group {
    pub(super) fn parse(number: i64) -> Option<Group> {
        [Group::Whole, Group::Apart, Group::Stray].into_iter().nth(usize::try_from(number).ok()?)
    }
}

/// Nobody works on the lane of the job `q`. Written for each job that is looked at, because one busy
/// lane must not keep those behind it waiting.
fn lane_is_free(job: &str) -> String {
    format!(
        "NOT EXISTS (SELECT 1 FROM jobs o WHERE o.lane = {job}.lane AND o.id <> {job}.id AND {LIVE})"
    )
}

/// What the campaign `c` can pay besides what is running; NULL is everything.
fn money_left(held: &str) -> String {
    format!(
        "CASE WHEN c.budget_usd IS NULL THEN NULL WHEN c.spent_usd >= c.budget_usd THEN -1.0
            ELSE c.budget_usd + 0.000001 - c.spent_usd - ({held}) END"
    )
}

/// How a claim begins on PostgreSQL, which takes what it expects of walks along an index for far too much,
/// and then compiles the statement: that takes a hundred times as long as its work. Planning [`find`] takes twice as
/// long as its work, and comes to the same whatever the time is, so it is planned once for each connection. For this
/// transaction only, as everything that has to go through a pooler.
pub(crate) const CLAIM_BEGINS: &str =
    "BEGIN; SET LOCAL jit = off; SET LOCAL plan_cache_mode = force_generic_plan";

/// The groups that may give a job now, with the first job of each, best first. `$1` is now, `$2` the
/// campaign when only its jobs are wanted.
///
/// Takes no lock and decides nothing: what it says is checked again by [`pick`].
pub(crate) fn find(kinds: &[JobKind], of_one: bool, dialect: Dialect) -> String {
    let only = if of_one { " AND c.id = $2" } else { "" };
    let queues = queues(kinds, only);
    let left = money_left("SELECT COALESCE(SUM(h.usd), 0.0) FROM held h WHERE h.campaign = c.id");
    let free = lane_is_free("q");
    let head = |more: &str| {
        format!(
            "(SELECT q.id {QUEUED}{more} AND q.priority = w.priority AND q.run_at <= $1 AND {free}
                ORDER BY q.run_at, q.id LIMIT 1)"
        )
    };
    let (whole, apart) = (head(""), head(&format!(" AND {PART} = COALESCE(w.part, '')")));
    let strays = strays(kinds, of_one, dialect);
    format!(
        "WITH RECURSIVE
         held AS (SELECT o.campaign AS campaign, COALESCE(o.organization, '') AS organization,
                COUNT(*) AS jobs, SUM(o.reserve_usd) AS usd
            FROM jobs o WHERE o.kind = 'target' AND o.campaign IS NOT NULL AND {LIVE}
            GROUP BY o.campaign, o.organization),
         rooms AS (SELECT c.id AS campaign, c.per_organization AS per_organization, {left} AS usd
            FROM campaigns c WHERE c.state = 'running'{only} AND {MODEL_WORKS} AND (c.concurrency IS NULL
                OR c.concurrency > (SELECT COALESCE(SUM(h.jobs), 0) FROM held h WHERE h.campaign = c.id))),
         queues (campaign, kind, form) AS MATERIALIZED ({queues}),
         parts (campaign, kind, form, part) AS (
            SELECT w.campaign, w.kind, w.form,
                CASE w.form WHEN 0 THEN '' ELSE (SELECT MIN({PART}) {QUEUED}) END FROM queues w
            UNION ALL
            SELECT w.campaign, w.kind, w.form, (SELECT MIN({PART}) {QUEUED} AND {PART} > COALESCE(w.part, ''))
                FROM parts w WHERE w.form = 1 AND w.part IS NOT NULL),
         open AS (SELECT w.campaign, w.kind, w.form, w.part FROM parts w WHERE w.part IS NOT NULL
            AND NOT (w.form = 1 AND w.kind = 'target' AND w.part <> '' AND EXISTS (
                SELECT 1 FROM held h JOIN rooms r ON r.campaign = h.campaign
                WHERE h.campaign = w.campaign AND h.organization = w.part
                    AND h.jobs >= r.per_organization))
            AND NOT (w.form = 1 AND w.kind = 'publish' AND EXISTS (
                SELECT 1 FROM jobs o WHERE o.lane = w.part AND {LIVE}))),
         levels (campaign, kind, form, part, priority) AS (
            SELECT w.campaign, w.kind, w.form, w.part, CASE w.form
                WHEN 0 THEN (SELECT MAX(q.priority) {QUEUED})
                ELSE (SELECT MAX(q.priority) {QUEUED} AND {PART} = COALESCE(w.part, '')) END FROM open w
            UNION ALL
            SELECT w.campaign, w.kind, w.form, w.part, CASE w.form
                WHEN 0 THEN (SELECT MAX(q.priority) {QUEUED} AND q.priority < w.priority)
                ELSE (SELECT MAX(q.priority) {QUEUED} AND {PART} = COALESCE(w.part, '')
                    AND q.priority < w.priority) END
                FROM levels w WHERE w.priority IS NOT NULL),
         heads AS MATERIALIZED (SELECT w.campaign, w.kind, w.form, w.part, w.priority,
                CASE w.form WHEN 0 THEN {whole} ELSE {apart} END AS id
            FROM levels w WHERE w.priority IS NOT NULL),
         found (campaign, kind, form, part, priority, id, run_at) AS (
            SELECT h.campaign, h.kind, h.form, h.part, h.priority, h.id,
                (SELECT j.run_at FROM jobs j WHERE j.id = h.id)
            FROM heads h WHERE h.id IS NOT NULL
            {strays})
         SELECT {SOME_OUTAGE} AS outage, f.campaign AS campaign, f.kind AS kind, CAST(f.form AS BIGINT) AS form, f.part AS part,
            f.priority AS priority, f.id AS id,
            CAST(CASE WHEN f.kind = 'target' AND EXISTS (SELECT 1 FROM campaigns c WHERE c.id = f.campaign
                AND COALESCE(c.concurrency, c.per_organization, c.budget_usd) IS NOT NULL)
                THEN 1 ELSE 0 END AS BIGINT) AS limited
         FROM found f WHERE {FORGE_WORKS} ORDER BY f.priority DESC, f.run_at, f.id LIMIT 8"
    )
}

/// 1 when some service is out, whether or not a probe is let through now.
const SOME_OUTAGE: &str = "CAST(CASE WHEN EXISTS (SELECT 1 FROM outages x WHERE x.pauses > 0)
    THEN 1 ELSE 0 END AS BIGINT)";

/// Whatever a job does, it needs the forge. What ends later than a pause can ([`LONGEST_PAUSE`], and a minute) or
/// is yet to begin was written by a clock that went ahead, and counts for nothing.
///
/// [`LONGEST_PAUSE`]: super::super::outages::LONGEST_PAUSE
const FORGE_WORKS: &str = "NOT EXISTS (SELECT 1 FROM outages x WHERE x.service <> 'model'
        AND x.until_at > $1 AND x.until_at <= $1 + 21660000 AND x.paused_at <= $1 + 60000)";

/// The model of a campaign `c` may be asked now.
const MODEL_WORKS: &str = "NOT EXISTS (SELECT 1 FROM outages x
    WHERE x.service = 'model' AND x.until_at > $1 AND x.until_at <= $1 + 21660000 AND x.paused_at <= $1 + 60000 AND x.campaign = c.id)";

/// The model of deliveries may be asked now.
const DELIVERIES_WORK: &str = "NOT EXISTS (SELECT 1 FROM outages x
    WHERE x.service = 'model' AND x.until_at > $1 AND x.until_at <= $1 + 21660000 AND x.paused_at <= $1 + 60000 AND x.campaign = '')";

/// Campaign, kind and form (see [`Group`]) of each queue that may have something.
fn queues(kinds: &[JobKind], only: &str) -> String {
    let mut parts = Vec::new();
    for kind in kinds {
        let word = kind.word();
        let form = i32::from(*kind == JobKind::Publish);
        if only.is_empty() {
            let works = if *kind == JobKind::Delivery { DELIVERIES_WORK } else { "1 = 1" };
            parts.push(format!(
                "SELECT '' AS campaign, '{word}' AS kind, {form} AS form WHERE {works}"
            ));
        }
        parts.push(match kind {
            // A budget that pays for none of them is known by the cheapest.
            JobKind::Target => "SELECT r.campaign AS campaign, 'target' AS kind,
                    CASE WHEN r.per_organization IS NULL THEN 0 ELSE 1 END AS form
                 FROM rooms r WHERE r.usd IS NULL OR r.usd >= (SELECT q.reserve_usd FROM jobs q
                    WHERE q.state = 'queued' AND COALESCE(q.campaign, '') = COALESCE(r.campaign, '')
                        AND q.kind = 'target' ORDER BY q.reserve_usd LIMIT 1)"
                .to_owned(),
            JobKind::Publish | JobKind::Delivery => format!(
                "SELECT c.id AS campaign, '{word}' AS kind, {form} AS form
                 FROM campaigns c WHERE c.state = 'running'{only}"
            ),
        });
    }
    if parts.is_empty() {
        // No kind is asked for; the statement still has to be one.
        parts.push("SELECT '' AS campaign, '' AS kind, 0 AS form WHERE 1 = 0".to_owned());
    }
    parts.join(" UNION ALL ")
}

/// Jobs that no group has at its front; normally there are none.
fn strays(kinds: &[JobKind], of_one: bool, dialect: Dialect) -> String {
    let kinds = quoted(kinds.iter().map(|kind| kind.word()));
    let only = if of_one { " AND j.campaign = $2" } else { "" };
    let live = LIVE.replace("o.", "j.");
    let free = lane_is_free("j");
    // Without statistics SQLite takes an index that has all queued jobs.
    let by = if dialect.is_file() { " INDEXED BY jobs_queued_ahead" } else { "" };
    let ways = [
        // Its worker died, hung or was away for too long.
        format!("jobs j WHERE j.state = 'running' AND NOT ({live})"),
        // Its time was written by a clock that went ahead, and may be years away.
        format!("jobs j{by} WHERE j.state = 'queued' AND j.updated_at > $1 + 60000"),
    ];
    ways.map(|way| {
        format!(
            "UNION ALL SELECT COALESCE(j.campaign, ''), j.kind, 2, '', j.priority, j.id, j.run_at
             FROM {way} AND j.kind IN ({kinds}){only} AND {free}
                AND (j.campaign IS NULL OR EXISTS (SELECT 1 FROM campaigns c
                    WHERE c.id = j.campaign AND c.state = 'running'))
                AND (j.kind <> 'target' OR j.campaign IS NULL OR EXISTS (SELECT 1 FROM rooms r
                    WHERE r.campaign = j.campaign AND (r.usd IS NULL OR r.usd >= j.reserve_usd)
                        AND (r.per_organization IS NULL OR r.per_organization > COALESCE((
                            SELECT h.jobs FROM held h WHERE h.campaign = j.campaign
                                AND h.organization = j.organization), 0))))"
        )
    })
    .join("\n            ")
}

/// The first job of a group that may be taken, with its row locked. Bound as [`bound_of`] says.
///
/// Rows that other workers are taking are passed over, so that workers that look at once get different
/// jobs instead of waiting for each other.
pub(crate) fn pick(group: Group, of_campaign: bool, limited: bool, dialect: Dialect) -> String {
    let free = lane_is_free("j");
    let live = LIVE.replace("o.", "j.");
    let which = match group {
        Group::Whole | Group::Apart => {
            let part = PART.replace("q.", "j.");
            let part =
                if group == Group::Apart { format!(" AND {part} = $5") } else { String::new() };
            format!(
                "j.state = 'queued' AND COALESCE(j.campaign, '') = $2 AND j.kind = $3
                    AND j.priority = $4{part} AND j.run_at <= $1"
            )
        }
        Group::Stray => format!(
            "j.id = $3 AND COALESCE(j.campaign, '') = $2
                AND ((j.state = 'running' AND NOT ({live}))
                    OR (j.state = 'queued' AND (j.run_at <= $1 OR j.updated_at > $1 + 60000)))"
        ),
    };
    let runs = " AND EXISTS (SELECT 1 FROM campaigns c WHERE c.id = $2 AND c.state = 'running')";
    let runs = if of_campaign { runs } else { "" };
    let room = if limited { room(group) } else { String::new() };
    let lock = match dialect {
        Dialect::Sqlite | Dialect::Simulated => "",
        Dialect::Postgres => " FOR UPDATE OF j SKIP LOCKED",
    };
    format!(
        "SELECT j.id AS id, j.kind AS kind, j.campaign AS campaign, j.subject AS subject, j.lane AS lane,
            j.attempt AS attempt, j.max_attempts AS max_attempts, j.epoch AS epoch
         FROM jobs j WHERE {which} AND {free}{runs}{room}
         ORDER BY j.run_at, j.id LIMIT 1{lock}"
    )
}

/// The campaign `$2` has room for a target `j`. Nothing in it depends on `j` but the price and, of a
/// stray, the organisation: the database counts once, not for each job.
fn room(group: Group) -> String {
    let held = |what: &str, more: &str| {
        format!(
            "SELECT {what} FROM jobs o WHERE o.campaign = $2 AND o.kind = 'target' AND {LIVE}{more}"
        )
    };
    let count = held("COUNT(*)", "");
    let organization = match group {
        Group::Whole | Group::Apart => held("COUNT(*)", " AND o.organization = $5"),
        Group::Stray => held("COUNT(*)", " AND o.organization = j.organization"),
    };
    // A whole group is one of a campaign without a limit for organisations.
    let organization = match group {
        Group::Whole => String::new(),
        Group::Apart | Group::Stray => format!(
            " AND (SELECT COALESCE(c.per_organization, 9223372036854775807) FROM campaigns c
                WHERE c.id = $2) > ({organization})"
        ),
    };
    let left = money_left(&held("COALESCE(SUM(o.reserve_usd), 0.0)", ""));
    format!(
        " AND (SELECT COALESCE(c.concurrency, 9223372036854775807) FROM campaigns c WHERE c.id = $2)
            > ({count}){organization}
          AND j.reserve_usd <= (SELECT COALESCE({left}, 1e300) FROM campaigns c WHERE c.id = $2)"
    )
}

pub(crate) fn bound_of(group: Group) -> &'static [Parameter] {
    match group {
        Group::Whole => {
            &[Parameter::Now, Parameter::Campaign, Parameter::Kind, Parameter::Priority]
        }
        Group::Apart => &[
            Parameter::Now,
            Parameter::Campaign,
            Parameter::Kind,
            Parameter::Priority,
            Parameter::Part,
        ],
        Group::Stray => &[Parameter::Now, Parameter::Campaign, Parameter::Job],
    }
}

/// The jobs beside `$2` that hold the lane `$1`.
pub(crate) const LANE: &str = "SELECT lease_until, lease_ms FROM jobs
     WHERE lane = $1 AND id <> $2 AND state = 'running'";

/// Those of them that nobody has locked, locked: none of them is renewed while one is taken.
pub(crate) const LANE_LOCKED: &str = "SELECT lease_until, lease_ms FROM jobs
     WHERE lane = $1 AND id <> $2 AND state = 'running' FOR UPDATE SKIP LOCKED";

/// Gives the job to its new holder.
pub(crate) fn take(dialect: Dialect) -> String {
    let now = dialect.time();
    // By the database's clock at this moment: a lock may have been waited for.
    format!(
        "UPDATE jobs SET state = 'running', attempt = $1, epoch = $2, owner = $3,
            lease_until = {now} + $4, lease_ms = $5, updated_at = {now} WHERE id = $6"
    )
}

/// Extends a lease that has not run out. As long as it has not, nobody can have been given its job or
/// its lane, so no lock is needed, and nothing that claims do is waited for.
///
/// The time is the clock's at the moment when the row is judged, not when the statement began: a claim
/// that gave the lane away may have been waited for in between.
pub(crate) fn renew(dialect: Dialect) -> String {
    let now = dialect.time();
    format!(
        "UPDATE jobs SET lease_until = {now} + $1, lease_ms = $2, updated_at = {now}
         WHERE id = $3 AND epoch = $4 AND owner = $5 AND state = 'running'
            AND lease_until > {now} AND lease_until <= {now} + lease_ms + 60000"
    )
}

/// The row of a job that is ours; [`Dialect::for_update`] is put behind it.
pub(crate) const FENCE: &str =
    "SELECT kind, campaign, subject, lane, attempt, max_attempts FROM jobs
     WHERE id = $1 AND epoch = $2 AND owner = $3 AND state = 'running'";

/// When the first queued job of these kinds is due that is not yet, or the first lease of one ends.
pub(crate) fn next_due(kinds: &[JobKind]) -> String {
    let each: Vec<String> = kinds
        .iter()
        .map(|kind| {
            format!(
                "SELECT (SELECT MIN(run_at) FROM jobs WHERE state = 'queued' AND kind = '{0}'
                    AND run_at > $1) AS due
                 UNION ALL SELECT (SELECT MIN(lease_until) FROM jobs WHERE state = 'running'
                    AND kind = '{0}' AND lease_until > $1) AS due",
                kind.word()
            )
        })
        .collect();
    let each =
        if each.is_empty() { "SELECT NULL AS due".to_owned() } else { each.join(" UNION ALL ") };
    format!("SELECT CAST(MIN(d.due) AS BIGINT) AS due FROM ({each}) d")
}

/// All of them, for those who look at what the database makes of them.
pub(crate) fn hot(dialect: Dialect) -> Vec<HotStatement> {
    use Parameter::{Attempt, Campaign, Epoch, Job, Lane, Length, Now, Owner, Repository};
    let all = JobKind::ALL;
    let begin = (dialect == Dialect::Postgres).then_some(CLAIM_BEGINS);
    let alone = |name, sql, bound| HotStatement { name, begin: None, sql, bound };
    let claiming = |name, sql, bound| HotStatement { name, begin, sql, bound };
    let mut hot = vec![
        claiming("room", find(all, false, dialect), &[Now]),
        claiming("room of one campaign", find(all, true, dialect), &[Now, Campaign]),
        claiming("lane", LANE.to_owned(), &[Lane, Job]),
        claiming("take", take(dialect), &[Attempt, Epoch, Owner, Length, Length, Job]),
        alone("renew", renew(dialect), &[Length, Length, Job, Epoch, Owner]),
        alone("release", format!("{FENCE}{}", dialect.for_update()), &[Job, Epoch, Owner]),
        alone("selected", SELECTED.to_owned(), &[Campaign, Repository, Repository, Repository]),
        alone("next due", next_due(all), &[Now]),
    ];
    if dialect == Dialect::Postgres {
        hot.push(claiming("lane locked", LANE_LOCKED.to_owned(), &[Lane, Job]));
    }
    hot.extend(picks(dialect, begin));
    hot
}

fn picks(dialect: Dialect, begin: Option<&'static str>) -> Vec<HotStatement> {
    let mut picks = Vec::new();
    for (name, group) in
        [("claim", Group::Whole), ("claim apart", Group::Apart), ("claim a stray", Group::Stray)]
    {
        for limited in [false, true] {
            let sql = pick(group, true, limited, dialect);
            picks.push(HotStatement { name, begin, sql, bound: bound_of(group) });
        }
    }
    picks
}
