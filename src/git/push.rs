//! Pushing exactly one commit to exactly one branch, if that branch is where we expect it to be.
//!
//! The expectation is checked against what the server advertises on the same connection; from there
//! on the server itself compares and swaps, because the push names the old value. That lease is the
//! only reason why a push may rewrite a branch.

use std::cell::RefCell;

use git2::{Direction, PushOptions, RemoteCallbacks};

use super::clone::{Repo, remote_ref};
use super::transport::Remote;
use super::{GitError, Oid, PushOutcome, printable};

/// Pushes `commit` to `refs/heads/<branch>`, which must point to `expected` now (`None`: must not
/// exist).
///
/// # Errors
/// [`GitError::Moved`] when it does not, [`GitError::Rejected`] with the server's own words, or what
/// the connection gave. When the answer was lost, the branch is looked up before this fails.
pub fn push(
    repo: &Repo,
    remote: &Remote,
    commit: Oid,
    branch: &str,
    expected: Option<Oid>,
) -> Result<PushOutcome, GitError> {
    let reference = format!("refs/heads/{branch}");
    if branch.starts_with('-') || !git2::Reference::is_valid_name(&reference) {
        return Err(GitError::Unacceptable("the branch has an invalid name".to_owned()));
    }
    let attempt = Attempt { repo, commit, reference, expected };
    match attempt.run(remote) {
        Ok(outcome) => Ok(outcome),
        Err(error @ (GitError::Transport(_) | GitError::Rejected { .. })) => {
            attempt.look_up(remote, error)
        }
        Err(error) => Err(error),
    }
}

struct Attempt<'a> {
    repo: &'a Repo,
    commit: Oid,
    reference: String,
    expected: Option<Oid>,
}

/// What the server says during a push.
#[derive(Default)]
struct Heard {
    /// The status of our ref when it was refused.
    refused: Option<String>,
    /// `remote: …` lines.
    remarks: String,
    /// The lease did not hold at the moment of pushing.
    moved: Option<GitError>,
}

impl Attempt<'_> {
    fn run(&self, remote: &Remote) -> Result<PushOutcome, GitError> {
        let git = self.repo.git()?;
        git.find_commit(self.commit.0)?;
        remote.run(|url| {
            let mut handle = git.remote_anonymous(url)?;
            let mut connection = handle.connect_auth(Direction::Push, None, None)?;
            let heads = connection.list()?;
            let actual = heads.iter().find(|head| head.name() == self.reference);
            let actual = actual.map(|head| Oid(head.oid()));
            if actual == Some(self.commit) {
                return Ok(PushOutcome::UpToDate);
            }
            self.check_lease(actual)?;
            self.send(connection.remote())
        })
    }

    fn check_lease(&self, actual: Option<Oid>) -> Result<(), GitError> {
        if actual == self.expected { Ok(()) } else { Err(self.moved(actual)) }
    }

    fn moved(&self, actual: Option<Oid>) -> GitError {
        let name = |oid: Option<Oid>| oid.map_or("nothing".to_owned(), |oid| oid.to_string());
        GitError::Moved {
            reference: self.reference.clone(),
            expected: name(self.expected),
            actual: name(actual),
        }
    }

    fn send(&self, remote: &mut git2::Remote<'_>) -> Result<PushOutcome, GitError> {
        let heard = RefCell::new(Heard::default());
        let mut options = PushOptions::new();
        options.remote_callbacks(self.listen(&heard)).packbuilder_parallelism(0);
        let refspec = format!("+{}:{}", self.commit, self.reference);
        let result = remote.push(&[refspec], Some(&mut options));
        drop(options);
        let heard = heard.into_inner();
        if let Some(moved) = heard.moved {
            return Err(moved);
        }
        if let Some(refused) = heard.refused {
            let reason = match printable(&heard.remarks, 2_000) {
                remarks if remarks.is_empty() => printable(&refused, 500),
                remarks => format!("{}\n{remarks}", printable(&refused, 500)),
            };
            return Err(GitError::Rejected { reference: self.reference.clone(), reason });
        }
        result?;
        Ok(PushOutcome::Pushed)
    }

    fn listen<'a>(&'a self, heard: &'a RefCell<Heard>) -> RemoteCallbacks<'a> {
        let mut callbacks = RemoteCallbacks::new();
        callbacks.push_negotiation(|updates| {
            let ours = |name: &[u8]| name == self.reference.as_bytes();
            let old = self.expected.map_or(git2::Oid::ZERO_SHA1, |oid| oid.0);
            match updates {
                [one] if ours(one.dst_refname_bytes()) && one.src() == old => Ok(()),
                _ => {
                    let actual = updates.first().map(|one| Oid(one.src()));
                    heard.borrow_mut().moved = Some(self.moved(actual));
                    Err(git2::Error::from_str("the branch has moved"))
                }
            }
        });
        callbacks.push_update_reference(|_, status| {
            if let Some(status) = status {
                heard.borrow_mut().refused = Some(status.to_owned());
            }
            Ok(())
        });
        callbacks.sideband_progress(|bytes| {
            let remarks = &mut heard.borrow_mut().remarks;
            if remarks.len() < 16_000 {
                remarks.push_str(&String::from_utf8_lossy(bytes));
            }
            true
        });
        callbacks
    }

    /// After a lost answer or a refusal: where is the branch really?
    fn look_up(&self, remote: &Remote, error: GitError) -> Result<PushOutcome, GitError> {
        let Ok(actual) = remote_ref(remote, &self.reference) else { return Err(error) };
        if actual == Some(self.commit) {
            return Ok(PushOutcome::Pushed);
        }
        self.check_lease(actual)?;
        Err(error)
    }
}
