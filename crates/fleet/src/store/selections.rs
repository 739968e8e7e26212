//! Which repositories a campaign may touch. Each job asks for one of them, so each has a row: a hundred thousand
//! jobs of a campaign ask a hundred thousand times for three rows, not for a list of all.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use sqlx::AssertSqlSafe;

use super::db::{clean, get};
use super::{Store, StoreResult};

/// Before the id of a repository; no name has a colon.
pub const ID: &str = "id:";

/// Names that one statement writes: far below what either database takes.
const CHUNK: usize = 400;

/// Whether some names are selected. `$1` is the campaign; a name that is asked for is never empty, so what is not
/// asked for is not found.
pub(super) const SELECTED: &str = "SELECT s.has_ids AS has_ids, n.name AS name FROM selections s
     LEFT JOIN selected n ON n.campaign = s.campaign AND n.name IN ($2, $3, $4) WHERE s.campaign = $1";

/// What a campaign's selection says of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectedNames {
    /// GitHub's ids of its repositories are known.
    pub has_ids: bool,
    /// Those of the names, and the id after [`ID`], that were asked for and are selected.
    pub found: BTreeSet<String>,
}

impl Store {
    /// Keeps what a campaign selects now, in the place of what it selected before. Nothing is written when that is
    /// the same.
    ///
    /// # Errors
    /// When the database cannot be used; then what was selected before counts.
    pub async fn keep_selection(
        &self,
        campaign: &str,
        names: &BTreeSet<String>,
    ) -> StoreResult<()> {
        let digest = digest(names);
        let known = sqlx::query("SELECT digest FROM selections WHERE campaign = $1").bind(campaign);
        let known = known.fetch_optional(&mut *self.connection().await?).await?;
        if let Some(known) = known
            && get::<String>(&known, "digest")? == digest
        {
            return Ok(());
        }
        let has_ids = names.range(ID.to_owned()..).next().is_some_and(|one| one.starts_with(ID));
        let mut write = self.write().await?;
        // Whoever keeps another one at the same time waits for this row.
        let row = sqlx::query(
            "INSERT INTO selections (campaign, digest, has_ids) VALUES ($1, $2, $3)
             ON CONFLICT (campaign) DO UPDATE SET digest = excluded.digest, has_ids = excluded.has_ids",
        );
        let row = row.bind(campaign).bind(digest).bind(i64::from(has_ids));
        row.execute(write.db()).await?;
        let before = sqlx::query("DELETE FROM selected WHERE campaign = $1").bind(campaign);
        before.execute(write.db()).await?;
        // Without the one character that a database does not take, two may be one.
        let names: BTreeSet<String> = names.iter().map(|name| clean(name)).collect();
        let names: Vec<&String> = names.iter().collect();
        for chunk in names.chunks(CHUNK) {
            let rows: Vec<String> = (2..chunk.len() + 2).map(|at| format!("($1, ${at})")).collect();
            let insert =
                format!("INSERT INTO selected (campaign, name) VALUES {}", rows.join(", "));
            let mut query = sqlx::query(AssertSqlSafe(insert)).bind(campaign);
            for name in chunk {
                query = query.bind(name.as_str());
            }
            query.execute(write.db()).await?;
        }
        write.commit().await
    }

    /// Which of a repository's names (at most two), and whether its id, a campaign selects; `None` when nobody has
    /// looked yet what it selects.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn selected(
        &self,
        campaign: &str,
        names: [Option<&str>; 2],
        id: Option<&str>,
    ) -> StoreResult<Option<SelectedNames>> {
        let [first, second] = names.map(|name| clean(name.unwrap_or_default()).to_lowercase());
        let id = id.map(|id| format!("{ID}{}", clean(id))).unwrap_or_default();
        let rows = sqlx::query(SELECTED).bind(campaign).bind(first).bind(second).bind(id);
        let rows = rows.fetch_all(&mut *self.connection().await?).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let has_ids = get::<i64>(row, "has_ids")? != 0;
        let found = rows.iter().map(|row| get::<Option<String>>(row, "name"));
        let found: StoreResult<Vec<Option<String>>> = found.collect();
        Ok(Some(SelectedNames { has_ids, found: found?.into_iter().flatten().collect() }))
    }
}

fn digest(names: &BTreeSet<String>) -> String {
    let mut hash = Sha256::new();
    for name in names {
        hash.update(name.as_bytes());
        hash.update([0]);
    }
    hex::encode(&hash.finalize()[..16])
}
