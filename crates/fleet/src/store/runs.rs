//! What runs came to: a row for each, sums by day, and a search whose pages are made of a bounded number
//! of rows, however many there are.

use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use super::db::{Write, clean, get};
use super::{Store, StoreResult};
use patchwright_types::campaign::{ErrorClass, Millis, TargetEnd, TargetState};

/// Runs on a page.
pub const PAGE: usize = 50;
/// Rows that one page may be searched in; the next page continues after them.
pub const MOST_EXAMINED: usize = 5_000;
/// Rows of one statement.
const CHUNK: usize = 500;
/// The longest text of a run that is kept, in characters.
const LONGEST: usize = 300;
const DAY: Millis = 24 * 3_600_000;

/// A run that has ended, or a delivery that was looked at and set nothing off.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedRun {
    /// The id of its folder, when there was a run.
    pub run: Option<String>,
    /// What set it off: the event, or the campaign.
    pub about: String,
    pub repository: String,
    pub number: Option<i64>,
    /// A conclusion's word, a failure's, or the class of a campaign's failure.
    pub conclusion: String,
    /// For people, in a line.
    pub text: String,
    pub cost_usd: f64,
    pub milliseconds: i64,
}

/// Whether the sums of a day have a run under its conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    AsItEnded,
    /// Somebody was turned away, or the repository is closed to us: no run has succeeded or failed.
    AsIgnored,
}

/// [`EndedRun`] as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    pub id: i64,
    /// When it ended.
    pub at: Millis,
    pub ended: EndedRun,
}

/// What the runs of one day with one conclusion sum up to.
#[derive(Clone, Debug, PartialEq)]
pub struct RunDay {
    /// Days since 1970, in UTC.
    pub day: i64,
    pub conclusion: String,
    pub runs: i64,
    pub cost_usd: f64,
    pub milliseconds: i64,
}

/// Where a page begins, by the id of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunCursor {
    #[default]
    Newest,
    /// Older than this one.
    Before(i64),
    /// Newer than this one.
    After(i64),
}

/// Which runs are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSearch {
    /// `owner/name`, in any case.
    pub repository: Option<String>,
    pub number: Option<i64>,
    pub conclusion: Option<String>,
    /// Anywhere in repository, run, event or text, in any case.
    pub text: Option<String>,
    pub from: RunCursor,
}

/// A page of runs, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunPage {
    pub rows: Vec<RunRow>,
    /// Where the pages beside it begin.
    pub newer: Option<RunCursor>,
    pub older: Option<RunCursor>,
    /// Rows that were read for it.
    pub examined: usize,
    /// The search ended at [`MOST_EXAMINED`], not at the last row.
    pub is_cut: bool,
}

/// Writes a run that has ended.
pub(super) async fn put(
    write: &mut Write<'_>,
    ended: &EndedRun,
    counted: Counted,
) -> StoreResult<()> {
    let now = write.now;
    let summed = match counted {
        Counted::AsItEnded => ended.conclusion.as_str(),
        Counted::AsIgnored => "ignored",
    };
    let text: String = clean(&ended.text).chars().take(LONGEST).collect();
    sqlx::query(
        "INSERT INTO runs (at, run, about, repository, number, conclusion, text, cost_usd, milliseconds)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(now)
    .bind(ended.run.as_deref().map(clean))
    .bind(clean(&ended.about))
    .bind(clean(&ended.repository))
    .bind(ended.number)
    .bind(ended.conclusion.as_str())
    .bind(text)
    .bind(ended.cost_usd)
    .bind(ended.milliseconds)
    .execute(write.db())
    .await?;
    sqlx::query(
        "INSERT INTO run_days (day, conclusion, runs, cost_usd, milliseconds)
         VALUES ($1, $2, 1, $3, $4) ON CONFLICT (day, conclusion) DO UPDATE SET
            runs = run_days.runs + 1, cost_usd = run_days.cost_usd + excluded.cost_usd,
            milliseconds = run_days.milliseconds + excluded.milliseconds",
    )
    .bind(now.div_euclid(DAY))
    .bind(summed)
    .bind(ended.cost_usd)
    .bind(ended.milliseconds)
    .execute(write.db())
    .await?;
    Ok(())
}

/// Writes the run of a target, before the target's row has its end.
pub(super) async fn put_target(
    write: &mut Write<'_>,
    target: i64,
    end: &TargetEnd,
    state: TargetState,
    class: Option<ErrorClass>,
    reason: Option<&str>,
) -> StoreResult<()> {
    let select = "SELECT repository, number, campaign, run, started_at FROM targets WHERE id = $1";
    let row = sqlx::query(select).bind(target).fetch_optional(write.db()).await?;
    let Some(row) = row else { return Ok(()) };
    let started: Option<Millis> = get(&row, "started_at")?;
    let campaign: String = get(&row, "campaign")?;
    let run: Option<String> = get(&row, "run")?;
    let since_start = || started.map_or(0, |at| write.now.saturating_sub(at).max(0));
    let text = end.url.as_deref().or(reason).unwrap_or_default();
    let ended = EndedRun {
        run: end.run.clone().or(run),
        about: format!("campaign {campaign}"),
        repository: get(&row, "repository")?,
        number: get(&row, "number")?,
        conclusion: target_conclusion(state, class).to_owned(),
        text: text.lines().next().unwrap_or_default().to_owned(),
        cost_usd: end.cost_usd,
        milliseconds: end.facts.run_ms.unwrap_or_else(since_start),
    };
    put(write, &ended, Counted::AsItEnded).await
}

fn target_conclusion(state: TargetState, class: Option<ErrorClass>) -> &'static str {
    match (class, state) {
        (Some(class), _) => class.word(),
        (None, TargetState::Unchanged) => "nothing_to_do",
        (None, TargetState::Skipped | TargetState::Superseded) => "ignored",
        // Tried again: what was wrong was not named.
        (None, TargetState::Failed | TargetState::Waiting | TargetState::Queued) => {
            ErrorClass::Lost.word()
        }
        (
            None,
            TargetState::Running
            | TargetState::Ready
            | TargetState::Publishing
            | TargetState::Held
            | TargetState::Open
            | TargetState::Draft
            | TargetState::Merged
            | TargetState::Closed
            | TargetState::Reported,
        ) => "done",
    }
}

fn row_of(row: &AnyRow) -> StoreResult<RunRow> {
    Ok(RunRow {
        id: get(row, "id")?,
        at: get(row, "at")?,
        ended: EndedRun {
            run: get(row, "run")?,
            about: get(row, "about")?,
            repository: get(row, "repository")?,
            number: get(row, "number")?,
            conclusion: get(row, "conclusion")?,
            text: get(row, "text")?,
            cost_usd: get(row, "cost_usd")?,
            milliseconds: get(row, "milliseconds")?,
        },
    })
}

impl RunSearch {
    fn matches(&self, run: &EndedRun, text: Option<&str>) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(found))
        };
        let has = |text: &str| {
            [&run.repository, &run.about, &run.text, run.run.as_ref().unwrap_or(&String::new())]
                .iter()
                .any(|field| field.to_lowercase().contains(text))
        };
        is(&self.repository, &run.repository)
            && is(&self.conclusion, &run.conclusion)
            && self.number.is_none_or(|number| run.number == Some(number))
            && text.is_none_or(has)
    }
}

impl Store {
    /// A page of the runs that are looked for. One index chooses the rows, the rest of the search is
    /// done here, in at most [`MOST_EXAMINED`] of them.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn runs(&self, search: &RunSearch) -> StoreResult<RunPage> {
        let text = search.text.as_ref().map(|text| text.to_lowercase());
        let (mut page, mut at) = (RunPage::default(), search.from);
        let mut is_all = false;
        while page.rows.len() <= PAGE && !is_all && page.examined < MOST_EXAMINED {
            let rows = self.some_runs(search, at).await?;
            is_all = rows.len() < CHUNK;
            for row in rows {
                if page.rows.len() > PAGE {
                    break;
                }
                page.examined += 1;
                at = match at {
                    RunCursor::After(_) => RunCursor::After(row.id),
                    RunCursor::Newest | RunCursor::Before(_) => RunCursor::Before(row.id),
                };
                if search.matches(&row.ended, text.as_deref()) {
                    page.rows.push(row);
                }
            }
        }
        page.is_cut = page.rows.len() <= PAGE && !is_all;
        Ok(framed(page, search.from, at))
    }

    /// The next rows in one direction, chosen by the part of the search that narrows most.
    async fn some_runs(&self, search: &RunSearch, at: RunCursor) -> StoreResult<Vec<RunRow>> {
        let (order, edge) = match at {
            RunCursor::Newest => ("id < $1 ORDER BY id DESC", i64::MAX),
            RunCursor::Before(id) => ("id < $1 ORDER BY id DESC", id),
            RunCursor::After(id) => ("id > $1 ORDER BY id", id),
        };
        let filter = match search {
            RunSearch { repository: Some(_), .. } => "lower(repository) = $2 AND",
            RunSearch { number: Some(_), .. } => "number = $2 AND",
            RunSearch { conclusion: Some(_), .. } => "conclusion = $2 AND",
            _ => "",
        };
        let select = format!("SELECT * FROM runs WHERE {filter} {order} LIMIT {CHUNK}");
        let query = sqlx::query(AssertSqlSafe(select)).bind(edge);
        let query = match search {
            RunSearch { repository: Some(name), .. } => query.bind(clean(&name.to_lowercase())),
            RunSearch { number: Some(number), .. } => query.bind(*number),
            RunSearch { conclusion: Some(word), .. } => query.bind(clean(&word.to_lowercase())),
            _ => query,
        };
        query.fetch_all(&mut *self.connection().await?).await?.iter().map(row_of).collect()
    }

    /// The sums of the last days, the oldest first.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn run_days(&self, days: i64) -> StoreResult<(i64, Vec<RunDay>)> {
        let today = self.now().await?.div_euclid(DAY);
        let query = sqlx::query(
            "SELECT day, conclusion, runs, cost_usd, milliseconds FROM run_days
             WHERE day > $1 AND day <= $2 ORDER BY day, conclusion",
        );
        let rows =
            query.bind(today - days).bind(today).fetch_all(&mut *self.connection().await?).await?;
        let day = |row: &AnyRow| {
            Ok(RunDay {
                day: get(row, "day")?,
                conclusion: get(row, "conclusion")?,
                runs: get(row, "runs")?,
                cost_usd: get(row, "cost_usd")?,
                milliseconds: get(row, "milliseconds")?,
            })
        };
        Ok((today, rows.iter().map(day).collect::<StoreResult<_>>()?))
    }
}

/// The page, newest first and not longer than it may be, with the ways to those beside it.
fn framed(mut page: RunPage, from: RunCursor, reached: RunCursor) -> RunPage {
    let has_more = page.rows.len() > PAGE;
    page.rows.truncate(PAGE);
    let last = page.rows.last().map(|row| row.id);
    let (is_upwards, start) = match from {
        RunCursor::After(id) => (true, Some(RunCursor::Before(id.saturating_add(1)))),
        RunCursor::Before(id) => (false, Some(RunCursor::After(id.saturating_sub(1)))),
        RunCursor::Newest => (false, None),
    };
    let first = page.rows.first().map(|row| row.id);
    let ahead = match last {
        Some(last) if has_more && is_upwards => Some(RunCursor::After(last)),
        Some(last) if has_more => Some(RunCursor::Before(last)),
        _ if page.is_cut => Some(reached),
        _ => None,
    };
    let behind = match (first, start) {
        (Some(first), Some(_)) if is_upwards => Some(RunCursor::Before(first)),
        (Some(first), Some(_)) => Some(RunCursor::After(first)),
        (_, start) => start,
    };
    (page.newer, page.older) = if is_upwards { (ahead, behind) } else { (behind, ahead) };
    if is_upwards {
        page.rows.reverse();
    }
    page
}
