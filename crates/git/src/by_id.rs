//! Fetching commits by their ids: in one request, where the older versions of the protocol take three. In version 2 what
//! is wanted is said at once, so nothing has to be listed or negotiated before. What is here already is not asked for, unless
//! only the server can tell whether whoever asks may have it: then it answers with an empty pack.
//!
//! Called by [`super::clone`], which goes the older way with servers that do not speak this one.

use std::collections::BTreeSet;

use super::clone::{is_commit_id, kept_as};
use super::incoming::holds;
use super::partial::{self, Part, PartRequest};
use super::quarantine::Quarantine;
use super::repo::Repo;
use super::transport::{Line, Remote};
use super::{GitError, Oid, helper};

/// Commits that a server is told of.
const MAX_HAVES: usize = 100;
/// Ends of our history that a server is told of. All of them have to be told, or it sends too little.
const MAX_ENDS: usize = 50_000;

/// The file that marks a mirror for which the server is asked at each fetch, also for commits that are there.
const ASKED: &str = "always-asked";

/// A depth that git takes for all of history.
const ALL: u32 = 0x7fff_ffff;

/// Marks `repo` so that each fetch into it asks the server, also for commits that are there.
pub(super) fn always_ask(repo: &Repo) -> Result<(), GitError> {
    let path = repo.path().join(ASKED);
    if !path.exists() {
        fs_err::write(path, "")?;
    }
    Ok(())
}

/// Brings commits into `repo`, `depth` commits deep (0: all of history). False when that has to be done in another way:
/// not all of `refs` are whole ids, or the server speaks no version 2.
///
/// # Errors
/// Those of a fetch; [`GitError::NotFound`] when the server does not have one.
pub(super) fn fetch(
    repo: &Repo,
    remote: &Remote,
    refs: &[String],
    depth: u32,
) -> Result<bool, GitError> {
    if !refs.iter().all(|reference| is_commit_id(reference)) {
        return Ok(false);
    }
    let commits: Vec<Oid> = refs.iter().map(|id| id.parse()).collect::<Result<_, _>>()?;
    let second = remote.second_version();
    let Line::Http(session) = second.line()? else { return Ok(false) };
    let is_asked = remote.is_asked_always() || repo.path().join(ASKED).exists();
    let wanted = if is_asked { commits.clone() } else { missing(repo, &commits, depth)? };
    if !wanted.is_empty() {
        let Some(lines) = history(repo, &wanted, depth)? else { return Ok(false) };
        let place = Quarantine::new(repo)?;
        let request = PartRequest { lines, wanted: wanted.clone() };
        match helper::receive_part(&session, repo, place.path(), request) {
            Ok(Part::Received) => {}
            Ok(Part::Unanswered(why)) => {
                tracing::debug!(why, "the server speaks no version 2 of git's protocol");
                return Ok(false);
            }
            // A repository that was renamed, as a rule. A request that only reads is redirected.
            Err(GitError::Unacceptable(_)) if !session.has_answered() => return Ok(false),
            Err(GitError::NotFound(_)) if session.has_answered() => return Err(absent(&wanted)),
            Err(error) => return Err(error),
        }
        place.keep_packs(repo)?;
        place.keep_shallow(repo)?;
    }
    let git = repo.git()?;
    for (reference, commit) in refs.iter().zip(commits) {
        // The helper, which a hostile pack may have taken over, only says that it is there.
        let is_whole = git.find_commit(commit.0).is_ok_and(|commit| commit.tree().is_ok());
        if !is_whole {
            return Err(GitError::NotFound(reference.clone()));
        }
        git.reference(&kept_as(reference)?, commit.0, true, "fetch")?;
    }
    Ok(true)
}

/// Those that are not here with so much of their history.
fn missing(repo: &Repo, commits: &[Oid], depth: u32) -> Result<Vec<Oid>, GitError> {
    let git = repo.git()?;
    let enough = if depth == 0 { u32::MAX } else { depth };
    let is_missing = |commit: &&Oid| !holds(&git, commit.0, enough);
    Ok(commits.iter().filter(is_missing).copied().collect())
}

/// How much of history is wanted, and which part of it is here; `None` when that is too much for one request.
fn history(repo: &Repo, wanted: &[Oid], depth: u32) -> Result<Option<Vec<String>>, GitError> {
    let ends = partial::shallow_of(repo);
    if ends.len() > MAX_ENDS {
        return Ok(None);
    }
    let git = repo.git()?;
    let mut tips = BTreeSet::new();
    for reference in git.references()? {
        tips.extend(reference?.target());
    }
    // Those that are wanted come first, so that the server need not send them again.
    let (first, others): (Vec<git2::Oid>, Vec<git2::Oid>) =
        tips.into_iter().partition(|tip| wanted.iter().any(|wanted| wanted.0 == *tip));
    let deepen = match depth {
        0 if ends.is_empty() => None,
        0 => Some(ALL),
        depth => Some(depth),
    };
    let deepen = deepen.map(|depth| format!("deepen {depth}"));
    let ends = ends.iter().map(|id| format!("shallow {id}"));
    let tips = first.iter().chain(&others).take(MAX_HAVES).map(|id| format!("have {id}"));
    Ok(Some(deepen.into_iter().chain(ends).chain(tips).collect()))
}

fn absent(wanted: &[Oid]) -> GitError {
    let ids: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    GitError::NotFound(ids.join(", "))
}
