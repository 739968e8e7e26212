//! The commits of a pull request put onto another commit: replayed one by one where they are all ours, merged
//! where others have committed to the branch as well.

use chrono::{DateTime, Utc};

use crate::workspace::is_ours;
use patchwright_git::clone::Repo;
use patchwright_git::commit::{self, CommitFacts, CommitSpec, Identity};
use patchwright_git::merge::{self, Conflict, ConflictKind, Labels, MergeResult};
use patchwright_git::push::NewCommits;
use patchwright_git::{GitError, Oid, diff, tree};
use patchwright_report::rebase::Method;

/// Most commits that are replayed.
const MAX_COMMITS: usize = 50;
/// The trailer of the newest commit of a branch that we have rebased; the run's id follows.
pub(super) const REBASED_TRAILER: &str = "Patchwright-Rebased-In: ";

/// A pull request and where it is to be put.
#[derive(Clone, Debug)]
pub(super) struct RebaseSpec {
    pub repo: Repo,
    /// Where the pull request left its base branch.
    pub old: Oid,
    /// The base branch as it is now.
    pub base: Oid,
    pub head: Oid,
    pub base_branch: String,
    pub branch: String,
    pub number: u64,
    /// Who commits, and when.
    pub committer: Identity,
    pub time: DateTime<Utc>,
    pub run: String,
}

/// What putting it there comes to.
#[derive(Debug)]
pub(super) enum Attempt {
    /// It is there already.
    UpToDate,
    /// The base branch has the whole change already.
    Contained,
    Fits(RebasedCommits),
    Conflicts {
        /// Everything that could be merged, with conflict markers.
        tree: Oid,
        files: Vec<Conflict>,
    },
}

/// What is to be pushed in the place of the head.
#[derive(Clone, Copy, Debug)]
pub(super) struct RebasedCommits {
    pub commits: NewCommits,
    pub method: Method,
}

impl RebaseSpec {
    /// Nothing on the branch is anybody else's.
    fn is_all_ours(&self) -> Result<bool, GitError> {
        let ours = |facts: &CommitFacts| is_ours(facts, &self.committer.email);
        let most = u32::try_from(MAX_COMMITS).unwrap_or(u32::MAX);
        Ok(commit::follow(&self.repo, self.head, self.base, most, &ours)?.is_none())
    }

    fn labels<'a>(&'a self, change: &'a str) -> Labels<'a> {
        Labels { base: &self.base_branch, change }
    }

    fn change_label(&self) -> String {
        format!("pull request #{}", self.number)
    }

    /// Tries it without anybody's help.
    pub(super) fn attempt(&self) -> Result<Attempt, GitError> {
        if self.old == self.base {
            return Ok(Attempt::UpToDate);
        }
        let is_all_ours = self.is_all_ours()?;
        let now = diff::tree_of(&self.repo, self.base)?;
        if is_all_ours && let Some(tip) = self.replayed()? {
            return Ok(if tip == self.base {
                Attempt::Contained
            } else {
                let commits = NewCommits { tip, since: Some(self.base) };
                Attempt::Fits(RebasedCommits { commits, method: Method::Replayed })
            });
        }
        let (old, head) = (self.tree_of(self.old)?, self.tree_of(self.head)?);
        let change = self.change_label();
        match merge::with_markers(&self.repo, old, now, head, self.labels(&change))? {
            MergeResult::Clean(tree) if tree == now => Ok(Attempt::Contained),
            MergeResult::Clean(tree) => Ok(Attempt::Fits(self.with_tree(tree, is_all_ours)?)),
            MergeResult::Conflicts { tree, files } => Ok(Attempt::Conflicts { tree, files }),
        }
    }

    fn tree_of(&self, commit: Oid) -> Result<Oid, GitError> {
        diff::tree_of(&self.repo, commit)
    }

    /// The tip of the same commits on the base; `None` when one of them does not fit there.
    fn replayed(&self) -> Result<Option<Oid>, GitError> {
        let Some(commits) = commit::between(&self.repo, self.base, self.head, MAX_COMMITS)? else {
            return Ok(None);
        };
        let mut tip = self.base;
        let trailer = format!("{REBASED_TRAILER}{}", self.run);
        for commit in &commits {
            let facts = commit::read(&self.repo, *commit)?;
            let Some(parent) = facts.parents.first() else { return Ok(None) };
            let (old, now) = (self.tree_of(*parent)?, self.tree_of(tip)?);
            let Some(tree) = merge::onto(&self.repo, old, now, facts.tree)? else {
                return Ok(None);
            };
            // The base has this one already.
            if tree == now {
                continue;
            }
            let committer = (&self.committer, self.time);
            tip = commit::replay(&self.repo, *commit, tip, tree, committer, Some(&trailer))?;
        }
        Ok(Some(tip))
    }

    /// One commit that brings the branch to this tree.
    fn with_tree(&self, tree: Oid, is_all_ours: bool) -> Result<RebasedCommits, GitError> {
        if !is_all_ours {
            let message = self.merge_message();
            return self.merged(tree, &message);
        }
        let commits = commit::between(&self.repo, self.base, self.head, MAX_COMMITS)?;
        let oldest = commits.and_then(|commits| commits.first().copied()).unwrap_or(self.head);
        let trailer = format!("{REBASED_TRAILER}{}", self.run);
        let committer = (&self.committer, self.time);
        let tip = commit::replay(&self.repo, oldest, self.base, tree, committer, Some(&trailer))?;
        Ok(RebasedCommits { commits: tip.into(), method: Method::Squashed })
    }

    fn merge_message(&self) -> String {
        format!("Merge branch '{}' into {}", self.base_branch, self.branch)
    }

    fn merged(&self, tree: Oid, message: &str) -> Result<RebasedCommits, GitError> {
        let spec = CommitSpec {
            author: self.committer.clone(),
            committer: self.committer.clone(),
            message: message.to_owned(),
            trailers: vec![format!("{REBASED_TRAILER}{}", self.run)],
            time: self.time,
        };
        let tip = commit::merge(&self.repo, self.head, self.base, tree, &spec)?;
        Ok(RebasedCommits { commits: tip.into(), method: Method::Merged })
    }

    /// What is pushed of a commit that an agent has made on the base.
    pub(super) fn resolved(&self, made: Oid) -> Result<RebasedCommits, GitError> {
        if self.is_all_ours()? {
            return Ok(RebasedCommits { commits: made.into(), method: Method::Squashed });
        }
        let facts = commit::read(&self.repo, made)?;
        let (_, body) = facts.message.split_once('\n').unwrap_or_default();
        self.merged(facts.tree, &format!("{}\n{body}", self.merge_message()))
    }

    /// Subject of the commit that has the change when an agent has put it there.
    pub(super) fn title(&self) -> Result<String, GitError> {
        let commits = commit::between(&self.repo, self.base, self.head, MAX_COMMITS)?;
        let oldest = commits.and_then(|commits| commits.first().copied()).unwrap_or(self.head);
        let message = commit::read(&self.repo, oldest)?.message;
        Ok(message.lines().next().unwrap_or_default().to_owned())
    }

    /// The files in which a commit still has our conflict markers.
    pub(super) fn unresolved(
        &self,
        commit: Oid,
        conflicts: &[Conflict],
    ) -> Result<Vec<String>, GitError> {
        let markers =
            [format!("<<<<<<< {}", self.base_branch), format!(">>>>>>> {}", self.change_label())];
        let is_marker = |line: &str| markers.iter().any(|marker| line.trim_end() == marker);
        let mut left = Vec::new();
        for conflict in conflicts.iter().filter(|it| it.kind == ConflictKind::Marked) {
            let content = tree::file_at(&self.repo, commit, &conflict.path)?.unwrap_or_default();
            if String::from_utf8_lossy(&content).lines().any(is_marker) {
                left.push(conflict.path.clone());
            }
        }
        Ok(left)
    }

    /// The files in conflict for the model, one a line.
    pub(super) fn described(&self, conflicts: &[Conflict]) -> String {
        let (base, change) = (&self.base_branch, self.change_label());
        let line = |conflict: &Conflict| {
            let path = patchwright_base::text::line(&conflict.path);
            match conflict.kind {
                ConflictKind::Marked => format!(
                    "{path}: changed by both; between `<<<<<<< {base}` and `>>>>>>> {change}` stands what \
                     each has"
                ),
                ConflictKind::Unmerged => {
                    format!("{path}: changed by both and not merged; it is as on `{base}`")
                }
                ConflictKind::DeletedOnBase => format!(
                    "{path}: deleted on `{base}`, changed by the pull request; it is as in the pull request"
                ),
                ConflictKind::DeletedByChange => format!(
                    "{path}: deleted by the pull request, changed on `{base}`; it is as on `{base}`"
                ),
            }
        };
        let mut lines: Vec<String> = conflicts.iter().take(MAX_LISTED).map(line).collect();
        if conflicts.len() > MAX_LISTED {
            lines.push(format!(
                "[{} more; `grep -rn '^<<<<<<< '` finds those with markers]",
                conflicts.len() - MAX_LISTED
            ));
        }
        lines.join("\n")
    }
}

/// Files in conflict that are told by name.
const MAX_LISTED: usize = 200;
