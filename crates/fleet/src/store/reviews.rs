//! How many reviews nobody asked for were begun lately, repository by repository: what strangers can
//! make an operator pay for is counted before it is paid.

use serde::{Deserialize, Serialize};

use super::db::{clean, get};
use super::{Store, StoreError, StoreResult};
use patchwright_types::campaign::Millis;

/// The window in which reviews are counted.
const DAY: Millis = 24 * 3_600_000;
/// Reviews of one repository that are remembered; no limit may be higher.
const MOST: usize = 10_000;
/// Pull requests of one repository for which we remember that the limit was announced there.
const TOLD: usize = 50;

/// A review that is about to be begun.
#[derive(Clone, Copy, Debug)]
pub struct PaidReview<'a> {
    pub repository: &'a str,
    pub number: u64,
    /// Login of the pull request's author.
    pub author: &'a str,
    /// The commit: the same one is counted once.
    pub head: &'a str,
}

/// How many may be begun in 24 hours, in one repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewCaps {
    pub per_pull_request: u32,
    pub per_author: u32,
    pub per_day: u32,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewSlot {
    /// Counted: go on.
    Free,
    /// This limit is reached; `is_first` says that nobody has been told on this pull request lately.
    Full { limit: &'static str, is_first: bool },
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct StartedReviews {
    begun: Vec<StartedReview>,
    /// Pull requests on which it was said that a limit is reached, and when.
    told: Vec<(u64, Millis)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StartedReview {
    at: Millis,
    number: u64,
    author: String,
    head: String,
}

impl StartedReviews {
    /// A time that is still to come was written by a clock that was wrong.
    fn forget_old(&mut self, now: Millis) {
        let is_recent = |at: Millis| (now - DAY..=now).contains(&at);
        self.begun.retain(|begun| is_recent(begun.at));
        self.told.retain(|(_, at)| is_recent(*at));
    }

    fn answer(&mut self, wish: &PaidReview<'_>, caps: &ReviewCaps, now: Millis) -> ReviewSlot {
        let of_it = |begun: &&StartedReview| begun.number == wish.number;
        if self.begun.iter().filter(of_it).any(|begun| begun.head == wish.head) {
            return ReviewSlot::Free;
        }
        let by_author = |begun: &&StartedReview| begun.author.eq_ignore_ascii_case(wish.author);
        let counts = [
            ("per-pull-request", self.begun.iter().filter(of_it).count(), caps.per_pull_request),
            ("per-author", self.begun.iter().filter(by_author).count(), caps.per_author),
            ("per-day", self.begun.len(), caps.per_day),
        ];
        let is_full =
            |count: usize, cap: u32| count >= usize::try_from(cap).unwrap_or(MOST).min(MOST);
        if let Some((limit, ..)) = counts.into_iter().find(|(_, count, cap)| is_full(*count, *cap))
        {
            // Pull requests are opened for nothing, and each answer is a write of ours.
            let is_first = self.told.len() < TOLD
                && !self.told.iter().any(|(number, _)| *number == wish.number);
            if is_first {
                self.told.push((wish.number, now));
            }
            return ReviewSlot::Full { limit, is_first };
        }
        self.begun.push(StartedReview {
            at: now,
            number: wish.number,
            author: wish.author.to_owned(),
            head: wish.head.to_owned(),
        });
        ReviewSlot::Free
    }
}

impl Store {
    /// Counts a review that nobody asked for, or says which limit is reached.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn begin_review(
        &self,
        wish: &PaidReview<'_>,
        caps: &ReviewCaps,
    ) -> StoreResult<ReviewSlot> {
        let name = format!("reviews:{}", wish.repository.to_lowercase());
        let mut write = self.write().await?;
        sqlx::query(
            "INSERT INTO kept (name, value) VALUES ($1, '{}') ON CONFLICT (name) DO NOTHING",
        )
        .bind(name.as_str())
        .execute(write.db())
        .await?;
        let select = write.lock_rows("SELECT value FROM kept WHERE name = $1");
        let row = sqlx::query(select).bind(name.as_str()).fetch_one(write.db()).await?;
        let text: String = get(&row, "value")?;
        let mut book: StartedReviews = serde_json::from_str(&text)
            .map_err(|err| StoreError::Unusable(format!("`{name}`: {err}")))?;
        let now = write.now;
        book.forget_old(now);
        let answer = book.answer(wish, caps, now);
        let text = serde_json::to_string(&book)
            .map_err(|err| StoreError::Other(format!("`{name}`: {err}")))?;
        sqlx::query("UPDATE kept SET value = $1 WHERE name = $2")
            .bind(clean(&text))
            .bind(name.as_str())
            .execute(write.db())
            .await?;
        write.commit().await?;
        Ok(answer)
    }
}
