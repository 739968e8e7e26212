//! What the commits say that a branch has and its base has not.

use std::collections::{BTreeMap, BinaryHeap};

use super::repo::{self, Repo};
use super::{GitError, Oid};

/// Commits that are looked at.
const MAX_STEPS: usize = 20_000;
/// Commits of the base that are looked at after the last one of the branch: clocks differ.
const MAX_BEHIND: usize = 100;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnMessages {
    /// The newest first.
    pub messages: Vec<String>,
    /// What decides whose a commit is was here. Otherwise commits that are older than the base are left out: among them
    /// may be those of the base's own history.
    pub is_whole: bool,
}

/// Whose a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Branch,
    Base,
}

/// Both histories, followed at once, the newest commit first.
struct Walk<'g> {
    git: &'g git2::Repository,
    next: BinaryHeap<(i64, git2::Oid)>,
    owners: BTreeMap<git2::Oid, Owner>,
    is_whole: bool,
}

impl Walk<'_> {
    fn add(&mut self, commit: git2::Oid, owner: Owner) {
        match (self.owners.get(&commit), owner) {
            // What comes before a commit that turns out to be the base's is the base's, too.
            (None, _) | (Some(Owner::Branch), Owner::Base) => {}
            (Some(_), _) => return,
        }
        match self.git.find_commit(commit) {
            Ok(found) => {
                self.owners.insert(commit, owner);
                self.next.push((found.time().seconds(), commit));
            }
            // History ends where it was not fetched.
            Err(_) => self.is_whole &= owner == Owner::Base,
        }
    }

    fn has_more_of_branch(&self) -> bool {
        self.next.iter().any(|(_, commit)| self.is_of_branch(*commit))
    }

    fn is_of_branch(&self, commit: git2::Oid) -> bool {
        self.owners.get(&commit) == Some(&Owner::Branch)
    }
}

/// The messages of the commits that `head` reaches and `base` does not, as `git log base..head` has them, at most `most`:
/// after a merge of the base branch its commits are not among them. Merges say nothing about a change and are left out.
///
/// # Errors
/// When the repository cannot be opened.
pub fn own_messages(
    repo: &Repo,
    base: Oid,
    head: Oid,
    most: usize,
) -> Result<OwnMessages, GitError> {
    let git = repo.git()?;
    let (next, owners) = (BinaryHeap::new(), BTreeMap::new());
    let mut walk = Walk { git: &git, next, owners, is_whole: true };
    walk.add(base.0, Owner::Base);
    walk.add(head.0, Owner::Branch);
    let (mut own, mut behind) = (Vec::new(), 0);
    for _ in 0..MAX_STEPS {
        let Some((time, id)) = walk.next.pop() else { break };
        let Ok(commit) = git.find_commit(id) else { continue };
        let owner = if walk.is_of_branch(id) { Owner::Branch } else { Owner::Base };
        let parents = repo::parents(&commit);
        match owner {
            Owner::Branch => {
                behind = 0;
                if parents.len() < 2 {
                    own.push((id, time, message(&commit)));
                }
            }
            Owner::Base => behind += 1,
        }
        let is_over = behind > MAX_BEHIND || own.len() >= 10 * most;
        if is_over && (own.len() >= 10 * most || !walk.has_more_of_branch()) {
            break;
        }
        for parent in parents {
            walk.add(parent, owner);
        }
    }
    let is_whole = walk.is_whole;
    let since = git.find_commit(base.0).map_or(i64::MIN, |base| base.time().seconds());
    let is_own = |(id, time, _): &(git2::Oid, i64, String)| {
        walk.is_of_branch(*id) && (is_whole || *time > since)
    };
    let messages = own.into_iter().filter(is_own).map(|(_, _, message)| message).take(most);
    Ok(OwnMessages { messages: messages.collect(), is_whole })
}

fn message(commit: &git2::Commit<'_>) -> String {
    String::from_utf8_lossy(commit.message_bytes()).into_owned()
}
