//! What the bare repository says about commits: how two relate, which lines a review may comment on,
//! and where those lines are after a push.

use std::path::Path;

use git2::{DiffOptions, ErrorCode, Patch, Repository};

use super::store::{StoredThread, trouble};
use crate::{Comparison, ForgeError, InlineComment, PullRequest, Side};
use patchwright_git::Oid;
use patchwright_git::clone::Repo;
use patchwright_git::hunks::{self, Diff, Hunk};

/// Lines of the diff that are kept with a thread.
const SHOWN: usize = 12;

fn open(path: &Path) -> Result<Repository, ForgeError> {
    Repository::open_bare(path).map_err(|err| trouble(&err))
}

/// A commit, by its full id or by the name of a branch.
fn commit(git: &Repository, name: &str) -> Option<git2::Oid> {
    let id = git2::Oid::from_str(name).ok().filter(|_| name.len() == 40);
    let id = id.or_else(|| git.refname_to_id(&format!("refs/heads/{name}")).ok())?;
    git.find_commit(id).ok().map(|commit| commit.id())
}

/// How `head` relates to `base`.
pub(super) fn compare(path: &Path, base: &str, head: &str) -> Result<Comparison, ForgeError> {
    let git = open(path)?;
    let (Some(base), Some(head)) = (commit(&git, base), commit(&git, head)) else {
        return Ok(Comparison::Unknown);
    };
    let counts = git.graph_ahead_behind(head, base).map_err(|err| trouble(&err))?;
    Ok(match counts {
        (0, 0) => Comparison::Identical,
        (_, 0) => Comparison::Ahead,
        (0, _) => Comparison::Behind,
        _ => Comparison::Diverged,
    })
}

/// The commit is the head of the pull request, or one between its base and its head.
pub(super) fn is_part(path: &Path, pull: &PullRequest, sha: &str) -> Result<bool, ForgeError> {
    let in_head = compare(path, sha, &pull.head_sha)?;
    let in_base = compare(path, sha, &pull.base_sha)?;
    let contains = |found| matches!(found, Comparison::Identical | Comparison::Ahead);
    Ok(contains(in_head) && !contains(in_base))
}

/// What the pull request changes up to one of its commits.
pub(super) fn changes(path: &Path, pull: &PullRequest, sha: &str) -> Result<Diff, ForgeError> {
    let repo = Repo::open(path).map_err(|err| git_error(&err))?;
    let git = open(path)?;
    let (Some(base), Some(head)) = (commit(&git, &pull.base_sha), commit(&git, sha)) else {
        return Ok(Diff::default());
    };
    let parted = match git.merge_base(base, head) {
        Ok(parted) => parted,
        Err(err) if err.code() == ErrorCode::NotFound => base,
        Err(err) => return Err(trouble(&err)),
    };
    let tree = |id: git2::Oid| -> Result<Oid, ForgeError> {
        git.find_commit(id).map(|commit| Oid(commit.tree_id())).map_err(|err| trouble(&err))
    };
    hunks::hunks(&repo, tree(parted)?, tree(head)?).map_err(|err| git_error(&err))
}

fn git_error(err: &patchwright_git::GitError) -> ForgeError {
    ForgeError::Git { message: err.to_string() }
}

/// The hunk that holds all lines of the comment; `None` when they are not on the diff.
fn hunk<'a>(diff: &'a Diff, comment: &InlineComment) -> Option<&'a Hunk> {
    let file = diff.files.iter().find(|file| file.path == comment.path)?;
    let has = |hunk: &Hunk, number: u32| {
        hunk.lines.iter().any(|line| match comment.side {
            Side::Left => line.old == Some(number),
            Side::Right => line.new == Some(number),
        })
    };
    let in_order = comment.start_line.is_none_or(|start| start < comment.line);
    file.hunks.iter().find(|hunk| {
        in_order
            && has(hunk, comment.line)
            && comment.start_line.is_none_or(|start| has(hunk, start))
    })
}

/// The comments that are not on the diff, by their place in the list.
pub(super) fn off_the_diff(diff: &Diff, comments: &[InlineComment]) -> Vec<usize> {
    let places = comments.iter().enumerate();
    places.filter(|(_, comment)| hunk(diff, comment).is_none()).map(|(place, _)| place).collect()
}

/// The end of the diff up to the commented line, as people see it above the comment.
pub(super) fn shown(diff: &Diff, comment: &InlineComment) -> String {
    let Some(hunk) = hunk(diff, comment) else { return String::new() };
    let is_it = |line: &hunks::Line| match comment.side {
        Side::Left => line.old == Some(comment.line),
        Side::Right => line.new == Some(comment.line),
    };
    let end = hunk.lines.iter().position(is_it).map_or(0, |place| place + 1);
    let lines = hunk.lines.iter().take(end).skip(end.saturating_sub(SHOWN));
    let lines = lines.map(|line| {
        let sign = match (line.old, line.new) {
            (None, _) => '+',
            (_, None) => '-',
            _ => ' ',
        };
        format!("{sign}{}", line.text)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Where the last line of a thread is in `head`; `None` when one of its lines has changed since.
pub(super) fn line_now(
    path: &Path,
    kept: &StoredThread,
    head: &str,
) -> Result<Option<u32>, ForgeError> {
    let Some(line) = kept.thread.line else { return Ok(None) };
    // The old version stays what it was.
    if kept.side == Side::Left || kept.commit == head {
        return Ok(Some(line));
    }
    let git = open(path)?;
    let blob = |sha: &str| {
        let tree = git.find_commit(commit(&git, sha)?).ok()?.tree().ok()?;
        let entry = tree.get_path(Path::new(&kept.thread.path)).ok()?;
        git.find_blob(entry.id()).ok()
    };
    let (Some(old), Some(new)) = (blob(&kept.commit), blob(head)) else { return Ok(None) };
    if old.id() == new.id() {
        return Ok(Some(line));
    }
    let mut options = DiffOptions::new();
    options.context_lines(0);
    let change = Patch::from_blobs(&old, None, &new, None, Some(&mut options));
    let change = change.map_err(|err| trouble(&err))?;
    let first = kept.start_line.unwrap_or(line);
    let mut moved = i64::from(line);
    for number in 0..change.num_hunks() {
        let (hunk, _) = change.hunk(number).map_err(|err| trouble(&err))?;
        // A part without lines stands after the line that it is numbered with.
        let end = |start: u32, lines: u32| start + lines.max(1);
        let old_end = end(hunk.old_start(), hunk.old_lines());
        if hunk.old_lines() > 0 && hunk.old_start() <= line && first < old_end {
            return Ok(None);
        }
        if old_end <= first {
            moved = i64::from(line) + i64::from(end(hunk.new_start(), hunk.new_lines()))
                - i64::from(old_end);
        }
    }
    Ok(u32::try_from(moved).ok())
}
