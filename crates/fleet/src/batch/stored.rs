//! A change that can be published later, on another machine: a pack and the words that go with it.

use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_git::clone::Repo;
use patchwright_git::{GitError, Oid, blocking, bundle, change_id, diff};
use patchwright_report::commit_message;
use patchwright_task::campaign::StoredChange;
use patchwright_types::campaign::{Changeset, Target};

use super::campaign::{Campaign, PublishAs};

/// A git pack with `commit` and what it has that its parent has not.
pub fn pack(repo: &Repo, commit: Oid) -> Result<Vec<u8>> {
    bundle::pack(repo, commit).map_err(|err| failure("the change cannot be packed", err))
}

/// Brings a pack into a repository that has the commit's parent, and returns that. The pack is checked
/// to hold exactly `commit`.
///
/// # Errors
/// [`FailureKind::Refused`] when it holds anything else; nothing is kept of it then.
pub fn unpack(repo: &Repo, pack: &[u8], commit: Oid) -> Result<Oid> {
    bundle::unpack(repo, pack, commit)
        .map_err(|err| failure("the stored change cannot be unpacked", err))
}

/// Hash of a change without positions and context, the same on another base.
pub fn change_id(repo: &Repo, base_tree: Oid, tree: Oid) -> Result<String> {
    change_id::change_id(repo, base_tree, tree)
        .map_err(|err| failure("the change cannot be compared", err))
}

fn failure(message: &str, err: GitError) -> Failure {
    let kind = match &err {
        GitError::Unacceptable(_) => FailureKind::Refused,
        GitError::Machine(_) => FailureKind::Machine,
        _ => FailureKind::Internal,
    };
    Failure::new(kind, message).caused_by(err)
}

/// Everything that the publisher needs of a finished run.
pub async fn changeset(
    campaign: &Campaign,
    target: &Target,
    stored: &StoredChange,
) -> Result<Changeset> {
    let workspace = stored.workspace.clone();
    let (commit, tree) = (stored.commit, stored.change.tree);
    let packed = blocking(move || {
        let base = diff::tree_of(&workspace.repo, workspace.base)?;
        let id = change_id::change_id(&workspace.repo, base, tree)?;
        Ok((bundle::pack(&workspace.repo, commit)?, id))
    });
    let (pack, change_id) =
        packed.await.map_err(|err| failure("the change cannot be packed", err))?;
    let lines = |count: fn(&patchwright_git::tree::FileChange) -> u64| {
        let sum: u64 = stored.change.files.iter().map(count).sum();
        i64::try_from(sum).unwrap_or(i64::MAX)
    };
    let title = match campaign.title_for(&target.repository, &target.base_branch)? {
        Some(title) => commit_message::subject(&title),
        None => stored.title.clone(),
    };
    let body = serde_json::to_string(&stored.told)
        .map_err(|err| Failure::internal("what the run said cannot be stored").caused_by(err))?;
    Ok(Changeset {
        target: target.id,
        repository: target.repository.clone(),
        base_branch: target.base_branch.clone(),
        base_sha: target.base_sha.clone(),
        branch: campaign.branch(),
        commit: commit.to_string(),
        tree: tree.to_string(),
        pack,
        title,
        body,
        marker: stored.marker.clone(),
        draft: stored.draft || campaign.published(&target.repository) == PublishAs::Draft,
        labels: stored.labels.clone(),
        reviewers: stored.reviewers.clone(),
        change_id,
        files: i64::try_from(stored.change.files.len()).unwrap_or(i64::MAX),
        lines_added: lines(|file| file.added_lines),
        lines_removed: lines(|file| file.removed_lines),
    })
}
