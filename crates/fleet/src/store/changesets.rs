//! Stored changes: what an agent run left to be published.

use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use super::db::{Write, clean, get};
use super::targets::{COLUMNS as TARGET, SAME_REPOSITORY, target_of};
use super::{Store, StoreError, StoreResult};
use patchwright_types::campaign::{Changeset, Target};

fn list_of(row: &AnyRow, name: &str) -> StoreResult<Vec<String>> {
    let text: String = get(row, name)?;
    serde_json::from_str(&text)
        .map_err(|err| StoreError::Unusable(format!("`{name}` of a stored change: {err}")))
}

fn changeset_of(row: &AnyRow) -> StoreResult<Changeset> {
    Ok(Changeset {
        target: get(row, "target")?,
        repository: get(row, "repository")?,
        base_branch: get(row, "base_branch")?,
        base_sha: get(row, "base_sha")?,
        branch: get(row, "branch")?,
        commit: get(row, "commit_sha")?,
        tree: get(row, "tree")?,
        pack: get(row, "pack")?,
        title: get(row, "title")?,
        body: get(row, "body")?,
        marker: get(row, "marker")?,
        draft: get::<i64>(row, "draft")? != 0,
        labels: list_of(row, "labels")?,
        reviewers: list_of(row, "reviewers")?,
        change_id: get(row, "change_id")?,
        files: get(row, "files")?,
        lines_added: get(row, "lines_added")?,
        lines_removed: get(row, "lines_removed")?,
    })
}

fn list_text(list: &[String]) -> String {
    serde_json::Value::from(list.to_vec()).to_string()
}

/// Stores a change as that of a target, in place of an older one.
pub(super) async fn put_changeset(
    write: &mut Write<'_>,
    target: i64,
    change: &Changeset,
) -> StoreResult<()> {
    let now = write.now;
    sqlx::query("DELETE FROM changesets WHERE target = $1")
        .bind(target)
        .execute(write.db())
        .await?;
    sqlx::query(
        "INSERT INTO changesets (target, repository, base_branch, base_sha, branch, commit_sha, tree,
            pack, title, body, marker, draft, labels, reviewers, change_id, files, lines_added,
            lines_removed, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)",
    )
    .bind(target)
    .bind(change.repository.as_str())
    .bind(change.base_branch.as_str())
    .bind(change.base_sha.as_str())
    .bind(change.branch.as_str())
    .bind(change.commit.as_str())
    .bind(change.tree.as_str())
    .bind(change.pack.clone())
    .bind(clean(&change.title))
    .bind(clean(&change.body))
    .bind(change.marker.as_str())
    .bind(i64::from(change.draft))
    .bind(list_text(&change.labels))
    .bind(list_text(&change.reviewers))
    .bind(change.change_id.as_str())
    .bind(change.files)
    .bind(change.lines_added)
    .bind(change.lines_removed)
    .bind(now)
    .execute(write.db())
    .await?;
    Ok(())
}

impl Store {
    pub async fn changeset(&self, target: i64) -> StoreResult<Option<Changeset>> {
        let row = sqlx::query("SELECT * FROM changesets WHERE target = $1").bind(target);
        row.fetch_optional(&mut *self.connection().await?)
            .await?
            .as_ref()
            .map(changeset_of)
            .transpose()
    }

    /// Targets of the repository of this one, of any campaign, whose stored change has this id, newest first.
    pub async fn same_change(&self, of: &Target, change_id: &str) -> StoreResult<Vec<Target>> {
        let select = format!(
            "SELECT {TARGET} FROM targets WHERE {SAME_REPOSITORY}
             AND id IN (SELECT target FROM changesets WHERE change_id = $4) ORDER BY id DESC"
        );
        let id = of.repository_id.as_deref().unwrap_or_default();
        let rows = sqlx::query(AssertSqlSafe(select)).bind(id).bind(id);
        let rows = rows.bind(of.repository.to_ascii_lowercase());
        let rows = rows.bind(change_id).fetch_all(&mut *self.connection().await?).await?;
        rows.iter().map(target_of).collect()
    }

    /// How many bytes the stored changes of a campaign have on average; 0 without one.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn average_pack(&self, campaign: &str) -> StoreResult<i64> {
        let row = sqlx::query(
            "SELECT CAST(COALESCE(AVG(LENGTH(c.pack)), 0) AS BIGINT) AS bytes FROM changesets c
             WHERE c.target IN (SELECT t.id FROM targets t WHERE t.campaign = $1)",
        );
        get(&row.bind(campaign).fetch_one(&mut *self.connection().await?).await?, "bytes")
    }
}
