//! The commits of a pull request put onto another commit: replayed one by one where they are all ours, merged
//! where others have committed to the branch as well.

use chrono::{DateTime, Utc};

use crate::workspace::is_ours;
use patchwright_git::clone::Repo;
use patchwright_git::commit::{self, CommitFacts, CommitSpec, Identity};
use patchwright_git::merge::{self, Conflict, ConflictKind, Labels, MergeResult};
use patchwright_git::push::NewCommits;
use patchwright_git::{GitError, Oid, diff, tree};
use patchwright_report::rebase::{self as said, Method};

/// Most commits that are replayed.
pub(super) const MAX_COMMITS: usize = 50;
/// The trailer of the newest commit of a branch that we have rebased; the run's id follows.
pub(super) const REBASED_TRAILER: &str = "Patchwright-Rebased-In: ";

/// A pull request and where it is to be put.
#[derive(Clone, Debug)]
pub(super) struct RebaseSpec {
    pub repo: Repo,
    /// Where the pull request left its base branch.
    pub old: Oid,
    /// What the branch stands on and the base has taken back: it and all below it stay behind.
    pub left_out: Option<Oid>,
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

/// What an agent has made of a merge with conflicts.
#[derive(Clone, Debug)]
pub(super) struct Resolution {
    /// A commit of it on the base.
    pub made: Oid,
    /// The merged tree.
    pub merged: Oid,
    /// As much of that as comes back out of a sandbox in which nobody has changed anything.
    pub seen: Oid,
    pub conflicts: Vec<Conflict>,
    /// What the sandbox had and cannot be in a commit: path and reason.
    pub refused: Vec<(String, String)>,
}

/// What came of it.
pub(super) enum ResolutionResult {
    /// What is pushed, and the files that stay as the merge has them, because they do not come out of a sandbox.
    Resolved(RebasedCommits, Vec<String>),
    /// Why nothing is pushed.
    Undecided(String),
}

impl RebaseSpec {
    /// What the files of the branch are compared with.
    pub(super) fn old_side(&self) -> Oid {
        self.left_out.unwrap_or(self.old)
    }

    /// The commit after which those come that are put on the base.
    fn since(&self) -> Oid {
        self.left_out.unwrap_or(self.base)
    }

    /// Nothing of what is put on the base is anybody else's.
    pub(super) fn is_all_ours(&self) -> Result<bool, GitError> {
        let ours = |facts: &CommitFacts| is_ours(facts, &self.committer.email);
        let most = u32::try_from(MAX_COMMITS).unwrap_or(u32::MAX);
        Ok(commit::follow(&self.repo, self.head, self.since(), most, &ours)?.is_none())
    }

    fn labels<'a>(&'a self, change: &'a str) -> Labels<'a> {
        Labels { base: &self.base_branch, change }
    }

    fn change_label(&self) -> String {
        format!("pull request #{}", self.number)
    }

    /// Tries it without anybody's help.
    pub(super) fn attempt(&self) -> Result<Attempt, GitError> {
        if self.old == self.base && self.left_out.is_none() {
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
        let common = match self.left_out {
            Some(left_out) => Some(self.tree_of(left_out)?),
            None => merge::common_tree(&self.repo, self.base, self.head)?,
        };
        let old = common.map_or_else(|| self.tree_of(self.old), Ok)?;
        let head = self.tree_of(self.head)?;
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
        let Some(commits) = commit::between(&self.repo, self.since(), self.head, MAX_COMMITS)?
        else {
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
        let commits = commit::between(&self.repo, self.since(), self.head, MAX_COMMITS)?;
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

    /// What is pushed of what an agent has made. What it did not touch is as in the merge, also where a collected change
    /// cannot have it (submodules, ignored files, odd names): falling back to the base would undo what is committed.
    pub(super) fn resolved(&self, by: &Resolution) -> Result<ResolutionResult, GitError> {
        let undecided = |why| Ok(ResolutionResult::Undecided(why));
        let mut kept = tree::differing_paths(&self.repo, by.seen, by.merged)?;
        let in_conflict = |path: &str| by.conflicts.iter().any(|conflict| conflict.path == path);
        let is_left = |path: &str| kept.contains(path) && !in_conflict(path);
        let refused: Vec<_> = by.refused.iter().filter(|(path, _)| !is_left(path)).collect();
        if !refused.is_empty() {
            return undecided(said::refused(&refused));
        }
        let facts = commit::read(&self.repo, by.made)?;
        let tree = tree::carry(&self.repo, by.seen, facts.tree, by.merged)?;
        if tree == self.tree_of(self.base)? {
            return undecided(said::nothing_left(&self.base_branch));
        }
        let rebased = self.with_resolution(by.made, &facts, tree)?;
        let marked = self.with_markers(rebased.commits.tip, &by.conflicts)?;
        if !marked.is_empty() {
            return undecided(said::markers_left(&marked));
        }
        let untouched = self.untouched(tree, by)?;
        if !untouched.is_empty() {
            return undecided(said::untouched(&untouched, &self.base_branch));
        }
        kept.retain(|path| !in_conflict(path));
        Ok(ResolutionResult::Resolved(rebased, kept.into_iter().collect()))
    }

    /// The commit that brings the branch to this tree, with the words of the one that an agent has made on the base.
    fn with_resolution(
        &self,
        made: Oid,
        facts: &CommitFacts,
        tree: Oid,
    ) -> Result<RebasedCommits, GitError> {
        if !self.is_all_ours()? {
            let (_, body) = facts.message.split_once('\n').unwrap_or_default();
            return self.merged(tree, &format!("{}\n{body}", self.merge_message()));
        }
        let tip = if tree == facts.tree {
            made
        } else {
            let committer = (&self.committer, self.time);
            commit::replay(&self.repo, made, self.base, tree, committer, None)?
        };
        Ok(RebasedCommits { commits: tip.into(), method: Method::Squashed })
    }

    /// The files in conflict that have to be decided by hand and are in `tree` as the merge has left them.
    fn untouched(&self, tree: Oid, by: &Resolution) -> Result<Vec<String>, GitError> {
        let is_same =
            |conflict: &Conflict| tree::is_same_at(&self.repo, tree, by.merged, &conflict.path);
        let mut left = Vec::new();
        for conflict in &by.conflicts {
            let is_left = match conflict.kind {
                ConflictKind::Unmerged => is_same(conflict)?,
                // One of the two has to go, or both have to become something else.
                ConflictKind::MovedApart => {
                    let mut all = true;
                    for half in by.conflicts.iter().filter(|half| half.from == conflict.from) {
                        all &= is_same(half)?;
                    }
                    all
                }
                ConflictKind::Marked
                | ConflictKind::DeletedOnBase
                | ConflictKind::DeletedByChange
                | ConflictKind::MovedOnBase
                | ConflictKind::MovedByChange => false,
            };
            if is_left {
                left.push(conflict.path.clone());
            }
        }
        Ok(left)
    }

    /// Subject of the commit that has the change when an agent has put it there.
    pub(super) fn title(&self) -> Result<String, GitError> {
        let commits = commit::between(&self.repo, self.since(), self.head, MAX_COMMITS)?;
        let oldest = commits.and_then(|commits| commits.first().copied()).unwrap_or(self.head);
        let message = commit::read(&self.repo, oldest)?.message;
        Ok(message.lines().next().unwrap_or_default().to_owned())
    }

    /// The files in which a commit still has our conflict markers.
    fn with_markers(&self, commit: Oid, conflicts: &[Conflict]) -> Result<Vec<String>, GitError> {
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
            let from = conflict.from.as_deref().map(patchwright_base::text::line);
            let was = from.as_ref().map(|from| format!(" (it was `{from}`)")).unwrap_or_default();
            match conflict.kind {
                ConflictKind::Marked => format!(
                    "{path}: changed by both{was}; between `<<<<<<< {base}` and `>>>>>>> {change}` stands what \
                     each has"
                ),
                ConflictKind::Unmerged => {
                    format!(
                        "{path}: changed by both and not merged; it is as on `{base}`, and has to be decided"
                    )
                }
                ConflictKind::DeletedOnBase => format!(
                    "{path}: deleted on `{base}`, changed by the pull request; it is as in the pull request"
                ),
                ConflictKind::DeletedByChange => format!(
                    "{path}: deleted by the pull request, changed on `{base}`; it is as on `{base}`"
                ),
                ConflictKind::MovedOnBase => format!(
                    "{path}: moved here on `{base}`{was}, deleted by the pull request; it is as on `{base}`"
                ),
                ConflictKind::MovedByChange => format!(
                    "{path}: moved here by the pull request{was}, deleted on `{base}`; it is as in the pull request"
                ),
                ConflictKind::MovedApart => format!(
                    "{path}: moved here by one of both{was}, and to another place by the other; both are there, and \
                     one has to go"
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
