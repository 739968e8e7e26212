//! Pushing exactly one commit, or a row of them, to exactly one branch, if that branch is where we expect it to be.
//!
//! The expectation is checked against what the server advertises, and again by the server itself,
//! because the request names the old value. That lease is the only reason why a push may rewrite a
//! branch. The pack is made here and not by libgit2's own push: that one looks for common history
//! among the advertised branches, and when the base branch has moved meanwhile it would send, or
//! from a shallow clone fail to send, everything.

use std::collections::HashSet;

use git2::{Buf, Direction, Repository, Tree};

use super::clone::{pause, remote_ref};
use super::refusal::{self, Rejection};
use super::repo::{Repo, parents};
use super::transport::{Line, Remote, receive_pack};
use super::{GitError, Oid, PushOutcome, helper};

/// Largest request body: a push is a bounded change.
const MAX_REQUEST: usize = 1 << 30;

/// The capabilities that we request: a status per ref, and remarks beside it.
const CAPABILITIES: &str =
    concat!("report-status side-band-64k agent=patchwright/", env!("CARGO_PKG_VERSION"));

/// Commits that a remote has not got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewCommits {
    /// What the branch shall point to.
    pub tip: Oid,
    /// The commit in the line of first parents that the remote has; without it that is the tip's parent. Of a
    /// merge, the remote has the other parents as well.
    pub since: Option<Oid>,
}

impl From<Oid> for NewCommits {
    /// One new commit.
    fn from(tip: Oid) -> NewCommits {
        NewCommits { tip, since: None }
    }
}

/// Most commits that are pushed at once.
const MAX_COMMITS: usize = 200;

/// Pushes `commits` to `refs/heads/<branch>`, which must point to `expected` now (`None`: must not
/// exist).
///
/// # Errors
/// [`GitError::Moved`] when it does not, [`GitError::Rejected`] with the server's own words, or what
/// the connection gave. When the answer was lost, the branch is looked up before this fails.
pub fn push(
    repo: &Repo,
    remote: &Remote,
    commits: NewCommits,
    branch: &str,
    expected: Option<Oid>,
) -> Result<PushOutcome, GitError> {
    push_when(repo, remote, commits, branch, expected, &|_| Ok(()))
}

/// [`push`] with a gate: `permit` gets the number of the attempt (from 1) right before its pack is sent,
/// and its error ends the push.
///
/// # Errors
/// As [`push`], and what `permit` gave.
pub fn push_when(
    repo: &Repo,
    remote: &Remote,
    commits: NewCommits,
    branch: &str,
    expected: Option<Oid>,
    permit: &dyn Fn(u32) -> Result<(), GitError>,
) -> Result<PushOutcome, GitError> {
    let reference = format!("refs/heads/{branch}");
    if branch.starts_with('-') || !git2::Reference::is_valid_name(&reference) {
        return Err(GitError::Unacceptable("the branch has an invalid name".to_owned()));
    }
    let lease = Lease { commit: commits.tip, reference, expected };
    let pack = pack(&repo.git()?, commits)?;
    if let Some(path) = remote.local_path() {
        // A folder is written directly, so there is one attempt and nothing to look up.
        permit(1)?;
        return lease.push_to_folder(path, &pack);
    }
    for attempt in 1.. {
        let error = match lease.push_over_http(remote, &pack, &|| permit(attempt)) {
            Err(
                error @ (GitError::Transport(_)
                | GitError::ProxyAway(_)
                | GitError::Rejected { .. }),
            ) => error,
            result => return result,
        };
        // Until the branch was looked up nobody knows whether the push happened.
        match lease.look_up(remote, error) {
            Err(error) if error.is_worth_retrying() && attempt < remote.limits.tries => {
                pause(attempt);
            }
            result => return result,
        }
    }
    Err(GitError::Transport("the push was given up".to_owned()))
}

/// One ref, what it shall become and what it must be now.
struct Lease {
    commit: Oid,
    reference: String,
    expected: Option<Oid>,
}

impl Lease {
    /// `Some` when there is nothing to do.
    fn check(&self, actual: Option<Oid>) -> Result<Option<PushOutcome>, GitError> {
        if actual == Some(self.commit) {
            return Ok(Some(PushOutcome::UpToDate));
        }
        if actual == self.expected {
            return Ok(None);
        }
        let name = |oid: Option<Oid>| oid.map_or("nothing".to_owned(), |oid| oid.to_string());
        Err(GitError::Moved {
            reference: self.reference.clone(),
            expected: name(self.expected),
            actual: name(actual),
        })
    }

    fn push_over_http(
        &self,
        remote: &Remote,
        pack: &[u8],
        permit: &dyn Fn() -> Result<(), GitError>,
    ) -> Result<PushOutcome, GitError> {
        let Line::Http(session) = remote.line()? else {
            return Err(GitError::Machine("this remote is a folder".to_owned()));
        };
        let heads = helper::heads(&session, Direction::Push)?;
        let actual = heads.into_iter().find(|(name, _)| *name == self.reference);
        // Checked before the pack is sent, so that a branch that moved costs no upload. The server
        // checks the old value once more.
        if let Some(outcome) = self.check(actual.map(|(_, oid)| oid))? {
            return Ok(outcome);
        }
        permit()?;
        let request = self.request(pack);
        if request.len() > MAX_REQUEST {
            return Err(GitError::Unacceptable("the push is larger than 1 GiB".to_owned()));
        }
        self.read(&receive_pack(&session, request)?)?;
        Ok(PushOutcome::Pushed)
    }

    /// The body of `git-receive-pack` (`Documentation/gitprotocol-pack`): one command and the pack.
    fn request(&self, pack: &[u8]) -> Vec<u8> {
        // The protocol's "must not exist" is an old value of zeros.
        let old = self.expected.map_or(git2::Oid::ZERO_SHA1, |oid| oid.0);
        let command = format!("{old} {} {}\0{CAPABILITIES}", self.commit, self.reference);
        let mut body = format!("{:04x}{command}0000", command.len() + 4).into_bytes();
        body.extend_from_slice(pack);
        body
    }

    /// The answer: remarks on band 2, on band 1 whether the pack and our ref were accepted.
    fn read(&self, answer: &[u8]) -> Result<(), GitError> {
        let lost = || GitError::Transport("the answer to the push is incomplete".to_owned());
        let (mut status, mut remarks) = (Vec::new(), Vec::new());
        for line in lines(answer) {
            match line.ok_or_else(lost)? {
                [1, text @ ..] => status.extend_from_slice(text),
                // Band 3 is a fatal error, in words like those of band 2.
                [2 | 3, text @ ..] => remarks.extend_from_slice(text),
                _ => return Err(lost()),
            }
        }
        let mut refusal = None;
        let mut accepted = false;
        for line in lines(&status) {
            let text = String::from_utf8_lossy(line.ok_or_else(lost)?).trim_end().to_owned();
            if let Some(reason) = text.strip_prefix("unpack ") {
                if reason != "ok" {
                    refusal = Some(format!("the pack was not accepted: {reason}"));
                }
            } else if text == format!("ok {}", self.reference) {
                accepted = true;
            } else if let Some(reason) = text.strip_prefix(&format!("ng {} ", self.reference)) {
                // The first reason wins: after `unpack` failed, `ng` only repeats that it did.
                refusal.get_or_insert_with(|| reason.to_owned());
            }
        }
        match refusal {
            None if accepted => Ok(()),
            // Neither accepted nor refused: the connection ended before the status.
            None => Err(lost()),
            Some(refusal) => {
                let remarks = refusal::remarks(&String::from_utf8_lossy(&remarks));
                let why = Rejection::from_reason(&refusal, &remarks);
                let reason = refusal::reason(&refusal, &remarks);
                let reference = self.reference.clone();
                Err(GitError::Rejected { reference, reason, why })
            }
        }
    }

    /// After a lost answer or a refusal: where is the branch really?
    fn look_up(&self, remote: &Remote, error: GitError) -> Result<PushOutcome, GitError> {
        let Ok(actual) = remote_ref(remote, &self.reference) else { return Err(error) };
        match self.check(actual)? {
            Some(_) => Ok(PushOutcome::Pushed),
            None => Err(error),
        }
    }

    fn push_to_folder(&self, path: &std::path::Path, pack: &[u8]) -> Result<PushOutcome, GitError> {
        let target =
            Repository::open(path).map_err(|_| GitError::NotFound(path.display().to_string()))?;
        let actual = match target.find_reference(&self.reference) {
            Ok(found) => Some(Oid(found.peel_to_commit()?.id())),
            Err(_) => None,
        };
        if let Some(outcome) = self.check(actual)? {
            return Ok(outcome);
        }
        // git refuses this too (`receive.denyCurrentBranch`): the working tree would no longer
        // match its branch.
        let is_checked_out = !target.is_bare()
            && target.find_reference("HEAD").is_ok_and(|head| {
                head.symbolic_target().is_ok_and(|name| name == Some(&self.reference))
            });
        if is_checked_out {
            return Err(GitError::Rejected {
                reference: self.reference.clone(),
                reason: "the branch is checked out there".to_owned(),
                why: Rejection::Rule,
            });
        }
        let odb = target.odb()?;
        let mut writer = odb.packwriter()?;
        std::io::Write::write_all(&mut writer, pack)?;
        writer.commit()?;
        let (name, new) = (self.reference.as_str(), self.commit.0);
        let swapped = match self.expected {
            None => target.reference(name, new, false, "push"),
            // Compare and swap: another process may have moved the branch since the check.
            Some(old) => target.reference_matching(name, new, true, old.0, "push"),
        };
        if let Err(error) = swapped {
            // A failed swap may mean that the branch moved, which has an error of its own.
            let now = target.refname_to_id(name).ok().map(Oid);
            self.check(now)?;
            return Err(error.into());
        }
        Ok(PushOutcome::Pushed)
    }
}

/// The pkt-lines of a message, without flushes; `None` for a broken one, which ends it.
fn lines(mut bytes: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        while !bytes.is_empty() {
            let length = bytes.get(..4).and_then(|digits| {
                usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
            });
            // Length 0 is a flush packet, which ends a section; 1 to 3 do not occur in this answer.
            match length {
                Some(0) => bytes = &bytes[4..],
                Some(length) if (4..=bytes.len()).contains(&length) => {
                    let line = &bytes[4..length];
                    bytes = &bytes[length..];
                    return Some(Some(line));
                }
                _ => {
                    bytes = &[];
                    return Some(None);
                }
            }
        }
        None
    })
}

/// A pack with the commits and what each does not share with its parents.
pub(super) fn pack(git: &Repository, commits: NewCommits) -> Result<Buf, GitError> {
    let mut builder = git.packbuilder()?;
    let mut next = Some(commits.tip.0);
    for _ in 0..MAX_COMMITS {
        let Some(oid) = next.filter(|oid| commits.since != Some(Oid(*oid))) else { break };
        let commit = git.find_commit(oid)?;
        builder.insert_object(commit.id(), None)?;
        for oid in new_in(git, &commit)? {
            builder.insert_object(oid, None)?;
        }
        let parent = parents(&commit).first().copied();
        next = parent.filter(|_| commits.since.is_some());
    }
    if let (Some(left), Some(since)) = (next, commits.since)
        && left != since.0
    {
        return Err(GitError::Unacceptable(format!(
            "there are more than {MAX_COMMITS} commits to push"
        )));
    }
    let mut pack = Buf::new();
    builder.write_buf(&mut pack)?;
    Ok(pack)
}

/// The trees and blobs of a commit that none of its parents has at the same place.
fn new_in(git: &Repository, commit: &git2::Commit<'_>) -> Result<Vec<git2::Oid>, GitError> {
    let tree = commit.tree()?;
    let mut all: Option<Vec<git2::Oid>> = None;
    for parent in parents(commit) {
        let mut fresh = Vec::new();
        differing(git, Some(&git.find_commit(parent)?.tree()?), &tree, &mut fresh)?;
        all = Some(match all {
            None => fresh,
            Some(mut known) => {
                let fresh: HashSet<git2::Oid> = fresh.into_iter().collect();
                known.retain(|oid| fresh.contains(oid));
                known
            }
        });
    }
    if let Some(all) = all {
        return Ok(all);
    }
    let mut fresh = Vec::new();
    differing(git, None, &tree, &mut fresh)?;
    Ok(fresh)
}

/// Adds to `fresh` the trees and blobs of `new` that are not at the same place in `base`.
pub(super) fn differing(
    git: &Repository,
    base: Option<&Tree<'_>>,
    new: &Tree<'_>,
    fresh: &mut Vec<git2::Oid>,
) -> Result<(), GitError> {
    if base.is_some_and(|base| base.id() == new.id()) {
        return Ok(());
    }
    fresh.push(new.id());
    for entry in new {
        let old = base.and_then(|base| base.get_name_bytes(entry.name_bytes()));
        if old.as_ref().is_some_and(|old| old.id() == entry.id()) {
            continue;
        }
        match entry.filemode() {
            // A submodule's commit lies in another repository.
            0o160_000 => {}
            0o040_000 => {
                let old = old.and_then(|old| git.find_tree(old.id()).ok());
                differing(git, old.as_ref(), &git.find_tree(entry.id())?, fresh)?;
            }
            _ => fresh.push(entry.id()),
        }
    }
    Ok(())
}
