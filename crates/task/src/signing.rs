//! Commits get their signatures right before they are pushed, whoever has made them and for whichever branch.

use std::sync::Arc;

use super::run::Run;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_config::{Config, publish};
use patchwright_forge::{Forge, ForgeError, Repository};
use patchwright_git::clone::Repo;
use patchwright_git::push::NewCommits;
use patchwright_git::signing::{self, SigningKey};
use patchwright_git::{GitError, Oid, blocking, commit};

/// Commits of one push that are signed.
const MOST: usize = 200;

/// The operator's key, when commits are to be signed with it.
///
/// # Errors
/// When it cannot be used.
pub fn key(config: &Config, env: &Env) -> Result<Option<Arc<SigningKey>>> {
    match config.commits.signing {
        publish::Signing::Ssh => SigningKey::of(env).map(Arc::new).map(Some),
        publish::Signing::None | publish::Signing::Github => Ok(None),
    }
}

/// Who signs, and for whom.
#[derive(Clone, Copy)]
pub struct Signer<'a> {
    pub forge: &'a dyn Forge,
    pub config: &'a Config,
    pub key: Option<&'a Arc<SigningKey>>,
    /// What tells the work that the commits belong to from other work.
    pub work: &'a str,
}

impl<'a> Signer<'a> {
    /// # Errors
    /// Without a forge.
    pub(super) fn of(run: &'a Run<'_>) -> Result<Signer<'a>> {
        Ok(Signer {
            forge: run.world.forge()?.as_ref(),
            config: &run.config,
            key: run.world.signing_key.as_ref(),
            work: &run.folder.id,
        })
    }

    /// These commits with signatures, when the configuration wants them signed.
    ///
    /// # Errors
    /// When one cannot be.
    pub async fn signed(
        self,
        repository: &Repository,
        repo: &Repo,
        commits: NewCommits,
    ) -> std::result::Result<NewCommits, ForgeError> {
        let by = self.config.commits.signing;
        if by == publish::Signing::None {
            return Ok(commits);
        }
        let (copy, NewCommits { tip, since }) = (repo.clone(), commits);
        let row = blocking(move || match since {
            None => Ok(Some(vec![tip])),
            Some(since) => commit::between(&copy, since, tip, MOST),
        });
        let Some(row) = row.await.map_err(of_git)? else {
            return Err(unsignable(repository, format!("there are more than {MOST} commits")));
        };
        let mut onto: Option<Oid> = since;
        for commit in row {
            onto = Some(self.sign(by, repository, repo, commit, onto).await?);
        }
        Ok(NewCommits { tip: onto.unwrap_or(tip), since })
    }

    /// One commit, on the one that was signed before it.
    async fn sign(
        self,
        by: publish::Signing,
        repository: &Repository,
        repo: &Repo,
        commit: Oid,
        onto: Option<Oid>,
    ) -> std::result::Result<Oid, ForgeError> {
        let (copy, key) = (repo.clone(), self.key.cloned());
        let made = blocking(move || {
            let moved = match onto {
                Some(parent) => signing::moved_onto(&copy, commit, parent)?,
                None => commit,
            };
            let signed = match (by, &key) {
                (publish::Signing::Ssh, Some(key)) => key.sign(&copy, moved)?,
                _ => moved,
            };
            Ok((signed, commit::read(&copy, signed)?))
        });
        let (made, facts) = made.await.map_err(of_git)?;
        if facts.is_signed {
            return Ok(made);
        }
        if by == publish::Signing::Ssh {
            return Err(unsignable(repository, "there is no key".to_owned()));
        }
        // The forge's account becomes the author.
        if facts.author_email != self.config.identity.email
            && facts.author_email != self.config.identity.committer_email()
        {
            let why =
                format!("commit {} is somebody else's and would lose its author", commit.short());
            return Err(unsignable(repository, why));
        }
        self.forge.sign(&repository.id, repo.path(), made, self.work).await
    }

    /// What the forge says about the signature of what was pushed, where that is not plain: `None` when it is
    /// verified, or was not to be signed.
    ///
    /// # Errors
    /// When a commit must be verified, and the forge cannot be asked.
    pub async fn doubt(
        self,
        repository: &Repository,
        head: Oid,
    ) -> std::result::Result<Option<Doubt>, ForgeError> {
        if self.config.commits.signing != publish::Signing::Ssh {
            return Ok(None);
        }
        let told = self.forge.verification(&repository.id, &head.to_string()).await;
        let why = match told {
            Ok(told) if told.verified => return Ok(None),
            Ok(told) => told.words().to_owned(),
            Err(err) if self.config.commits.require_verified => return Err(err),
            Err(err) => format!("it could not be asked: {err}"),
        };
        let said = format!("GitHub does not verify commit {}: {why}", head.short());
        if !self.config.commits.require_verified {
            return Ok(Some(Doubt::Said(said)));
        }
        let key = self.key.map(|key| key.fingerprint()).unwrap_or_default();
        let email = self.config.identity.committer_email();
        let refused = Failure::refused(format!("{said}; no pull request was opened"));
        Ok(Some(Doubt::Refused(refused.hint(format!(
            "add the key {key} as a signing key to the account with the confirmed address `{email}`"
        )))))
    }
}

/// The forge does not verify what was pushed.
#[derive(Debug)]
pub enum Doubt {
    /// People are told.
    Said(String),
    /// It has to be verified, so that nothing is proposed.
    Refused(Failure),
}

/// # Errors
/// When a commit that was pushed must be verified and is not.
pub(super) async fn must_be_verified(
    run: &Run<'_>,
    repository: &Repository,
    head: Oid,
) -> Result<()> {
    match Signer::of(run)?.doubt(repository, head).await.map_err(Failure::from)? {
        None => Ok(()),
        Some(Doubt::Said(words)) => {
            run.environment.ui.say(&words);
            Ok(())
        }
        Some(Doubt::Refused(failure)) => Err(failure),
    }
}

fn unsignable(repository: &Repository, message: String) -> ForgeError {
    ForgeError::Invalid { action: format!("signing a commit for `{}`", repository.id), message }
}

fn of_git(error: GitError) -> ForgeError {
    match error {
        GitError::Machine(message) => ForgeError::Machine { message },
        error => ForgeError::Git { message: error.to_string() },
    }
}
