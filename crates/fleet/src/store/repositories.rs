//! Which repository a target is of: GitHub's node id says it, whatever the repository is called now.
//!
//! Rows of older versions have only a name. They get the id when a campaign looks at its repositories, and
//! a row of a repository that is called otherwise now follows it.

use std::collections::BTreeMap;

use sqlx::AssertSqlSafe;

use super::db::{Write, clean, get};
use super::targets::{COLUMNS, target_of};
use super::{Store, StoreResult};
use patchwright_types::campaign::{NewTarget, Target, TargetState};

/// A repository as it was seen on the forge just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRepository {
    /// GitHub's node id.
    pub id: String,
    /// `OWNER/REPO` as it is called now.
    pub name: String,
    /// As it was asked for: the forge led from this name to it.
    pub asked: String,
}

/// Of each repository (and number) the target that counts: the newest, but for one that was only skipped. That says
/// nothing about an older one that has a pull request, or is at work.
#[derive(Default)]
pub(super) struct NewestTargets(BTreeMap<(String, Option<i64>), Target>);

impl NewestTargets {
    /// The next one, in the order of their ids.
    pub(super) fn add(&mut self, target: Target) {
        let key = (target.identity(), target.number);
        let is_hidden = is_idle(&target)
            && self.0.get(&key).is_some_and(|older| {
                !is_idle(older) && older.state != TargetState::Superseded && older.id != target.id
            });
        if !is_hidden {
            self.0.insert(key, target);
        }
    }

    /// Sorted by what they are of.
    pub(super) fn into_targets(self) -> Vec<Target> {
        self.0.into_values().collect()
    }
}

/// Skipped, and never worked on.
fn is_idle(target: &Target) -> bool {
    target.state == TargetState::Skipped && target.run.is_none()
}

/// Repositories that one statement asks for.
const MOST_ASKED: usize = 150;

impl Store {
    /// Writes down what these repositories of a campaign are and how they are called. Returns how many
    /// targets have another name now.
    pub async fn see_repositories(
        &self,
        campaign: &str,
        seen: &[SeenRepository],
    ) -> StoreResult<usize> {
        if seen.is_empty() {
            return Ok(0);
        }
        let mut write = self.write().await?;
        let mut renamed = 0;
        for one in seen {
            for name in [&one.name, &one.asked] {
                adopt(&mut write, campaign, one, name).await?;
            }
            renamed += rename(&mut write, campaign, one).await?;
        }
        write.commit().await?;
        Ok(renamed)
    }

    /// A campaign's targets of these repositories, each by its id, or by its name in lower case, also of those whose id
    /// is known: of each repository (and number) the one that counts.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn targets_of(
        &self,
        campaign: &str,
        identities: &[String],
    ) -> StoreResult<Vec<Target>> {
        let mut newest = NewestTargets::default();
        for some in identities.chunks(MOST_ASKED) {
            let places = |from: usize| {
                let places: Vec<String> =
                    (from..some.len() + from).map(|at| format!("${at}")).collect();
                places.join(", ")
            };
            let select = format!(
                "SELECT {COLUMNS} FROM targets WHERE campaign = $1
                 AND (COALESCE(repository_id, lower(repository)) IN ({})
                    OR lower(repository) IN ({})) ORDER BY id",
                places(2),
                places(2 + some.len())
            );
            let mut query = sqlx::query(AssertSqlSafe(select)).bind(campaign);
            for identity in some.iter().chain(some) {
                query = query.bind(clean(identity));
            }
            for row in &query.fetch_all(&mut *self.connection().await?).await? {
                newest.add(target_of(row)?);
            }
        }
        Ok(newest.into_targets())
    }

    /// One target's repository is called otherwise now. Nothing is written when it is another repository.
    pub async fn rename_target(&self, target: i64, id: &str, name: &str) -> StoreResult<()> {
        let mut write = self.write().await?;
        let row = sqlx::query("SELECT campaign FROM targets WHERE id = $1 AND repository_id = $2");
        let row = row.bind(target).bind(id).fetch_optional(write.db()).await?;
        if let Some(row) = row {
            let campaign: String = get(&row, "campaign")?;
            let seen =
                SeenRepository { id: id.to_owned(), name: name.to_owned(), asked: name.to_owned() };
            rename(&mut write, &campaign, &seen).await?;
        }
        write.commit().await
    }
}

/// It is skipped because it cannot be read, and was read since that was found out or before: it is no second repository
/// of that name.
pub(super) async fn is_read_already(
    write: &mut Write<'_>,
    campaign: &str,
    target: &NewTarget,
) -> StoreResult<bool> {
    if target.repository_id.is_some() || target.skipped.is_none() {
        return Ok(false);
    }
    let known = sqlx::query(
        "SELECT 1 AS one FROM targets WHERE campaign = $1 AND lower(repository) = $2
         AND repository_id IS NOT NULL AND COALESCE(number, 0) = $3 LIMIT 1",
    )
    .bind(campaign)
    .bind(target.repository.to_ascii_lowercase())
    .bind(target.number.unwrap_or_default());
    Ok(known.fetch_optional(write.db()).await?.is_some())
}

/// Rows of this name that no id is known of, in all campaigns of the same name. One that would become the
/// double of another row stays as it is.
async fn adopt(
    write: &mut Write<'_>,
    campaign: &str,
    seen: &SeenRepository,
    name: &str,
) -> StoreResult<()> {
    sqlx::query(
        "UPDATE targets SET repository_id = $1
         WHERE repository_id IS NULL AND lower(repository) = $2
            AND campaign IN (SELECT o.id FROM campaigns c JOIN campaigns o ON o.name = c.name
                WHERE c.id = $3)
            AND NOT EXISTS (SELECT 1 FROM targets o WHERE o.campaign = targets.campaign
                AND COALESCE(o.repository_id, lower(o.repository)) = $4
                AND COALESCE(o.number, 0) = COALESCE(targets.number, 0)
                AND o.base_sha = targets.base_sha)",
    )
    .bind(seen.id.as_str())
    .bind(name.to_ascii_lowercase())
    .bind(campaign)
    .bind(seen.id.as_str())
    .execute(write.db())
    .await?;
    Ok(())
}

/// Targets and their changes follow the repository to its new name.
async fn rename(
    write: &mut Write<'_>,
    campaign: &str,
    seen: &SeenRepository,
) -> StoreResult<usize> {
    let now = write.now;
    let rows = sqlx::query(
        "UPDATE targets SET repository = $1, updated_at = $2
         WHERE campaign = $3 AND repository_id = $4 AND repository <> $5 RETURNING id",
    )
    .bind(seen.name.as_str())
    .bind(now)
    .bind(campaign)
    .bind(seen.id.as_str())
    .bind(seen.name.as_str())
    .fetch_all(write.db())
    .await?;
    for row in &rows {
        let target: i64 = get(row, "id")?;
        sqlx::query("UPDATE changesets SET repository = $1 WHERE target = $2")
            .bind(seen.name.as_str())
            .bind(target)
            .execute(write.db())
            .await?;
        let text = format!("its repository is called `{}` now", seen.name);
        write.say(campaign, Some(target), "renamed", Some(&text));
    }
    Ok(rows.len())
}
