//! Commits get their signatures right before they are pushed, whoever has made them and for whichever branch.

use std::sync::Arc;

use serde_json::json;

use super::authorship::trailer_lines;
use super::failures;
use super::run::Run;
use super::workspace::RUN_TRAILER;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::text;
use patchwright_base::ui::Ui;
use patchwright_config::{Config, publish};
use patchwright_forge::{Forge, ForgeError, Repository, Staged, staging_branch};
use patchwright_git::clone::Repo;
use patchwright_git::push::NewCommits;
use patchwright_git::signing::{self, SigningKey};
use patchwright_git::{GitError, Oid, blocking, commit};
use patchwright_journal::Entry;

/// Commits of one push that are signed.
const MOST: usize = 200;
/// What is against commits that have to be verified.
pub(super) const UNSIGNED: &str =
    "`commits.require-verified` wants verified commits, and nobody signs them";
/// What would have somebody sign them.
pub(super) const SIGN: &str = "set `commits.signing` to `github` to have GitHub sign them, or to `ssh` with a key in \
                               `PATCHWRIGHT_SIGNING_KEY`";
/// What the forge is shown a signature with.
const SAMPLE: &str = "Whether this signature is verified\n";

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
    /// Where the forge is asked about a signature, when not where the commits go.
    pub asked_at: Option<&'a Repository>,
    /// Who is told of a branch that could not be taken away.
    pub ui: Ui,
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
            asked_at: None,
            ui: run.environment.ui,
        })
    }

    /// Whether signing takes a branch of our own, as far as that can be told before.
    ///
    /// # Errors
    /// When the forge does not say who we are.
    pub(super) async fn stages(self) -> std::result::Result<bool, ForgeError> {
        match self.config.commits.signing {
            publish::Signing::None => Ok(false),
            publish::Signing::Ssh => Ok(self.config.commits.require_verified),
            // As an App we have it done without one.
            publish::Signing::Github => {
                let viewer = self.forge.viewer().await?;
                Ok(!viewer.is_some_and(|us| us.is_machine()))
            }
        }
    }

    /// These commits with signatures, when the configuration wants them signed. Where it wants them verified, they are.
    ///
    /// # Errors
    /// When one cannot be signed, or would not be verified.
    pub async fn signed(
        self,
        repository: &Repository,
        repo: &Repo,
        commits: NewCommits,
    ) -> std::result::Result<NewCommits, ForgeError> {
        let by = self.config.commits.signing;
        if by == publish::Signing::None {
            if self.config.commits.require_verified {
                let message = format!("{UNSIGNED}; nothing was pushed");
                return Err(ForgeError::Unverified { message, hint: SIGN.to_owned() });
            }
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
        let tip = onto.unwrap_or(tip);
        if by == publish::Signing::Ssh && self.config.commits.require_verified {
            self.must_verify(repository, repo, tip).await?;
        }
        Ok(NewCommits { tip, since })
    }

    /// The forge is asked before the commit is on its branch: from there it may be merged, by the forge itself, before
    /// anybody has heard that it is not verified.
    async fn must_verify(
        self,
        repository: &Repository,
        repo: &Repo,
        commit: Oid,
    ) -> std::result::Result<(), ForgeError> {
        let (copy, key) = (repo.clone(), self.key.cloned());
        let sample = blocking(move || {
            let sample = commit::sample(&copy, commit, SAMPLE)?;
            key.map(|key| key.sign(&copy, sample)).transpose()
        });
        let Some(sample) = sample.await.map_err(of_git)? else {
            return Err(unsignable(repository, "there is no key".to_owned()));
        };
        let at = self.asked_at.unwrap_or(repository);
        let Staged { made: told, left } =
            self.forge.try_verification(at, repo.path(), sample, self.work).await?;
        self.tell(left);
        if told.verified {
            return Ok(());
        }
        let why = told.words();
        let message = format!("GitHub would not verify the commit: {why}; nothing was pushed");
        Err(ForgeError::Unverified { message, hint: self.remedy() })
    }

    /// What would have the forge verify our signatures.
    fn remedy(self) -> String {
        let key = self.key.map(|key| key.fingerprint()).unwrap_or_default();
        let email = self.config.identity.committer_email();
        format!(
            "add the key {key} as a signing key to the account with the confirmed address `{email}`"
        )
    }

    fn tell(self, left: Option<String>) {
        if let Some(left) = left {
            self.ui.say(&left);
        }
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
        // The forge's account becomes the author, which it is of what it has signed for us before.
        let is_ours = trailer_lines(&facts.message).any(|line| line.starts_with(RUN_TRAILER));
        if !is_ours
            && facts.author_email != self.config.identity.email
            && facts.author_email != self.config.identity.committer_email()
        {
            let subject = text::line(facts.message.lines().next().unwrap_or_default());
            let why = format!(
                "the commit \u{201c}{subject}\u{201d} is somebody else's and would lose its author"
            );
            return Err(unsignable(repository, why));
        }
        let signed = self.forge.sign(&repository.id, repo.path(), made, self.work).await?;
        self.tell(signed.left);
        Ok(signed.made)
    }

    /// Whether a commit that is on its branch already is signed as commits are to be.
    ///
    /// # Errors
    /// When it must be verified, and the forge cannot be asked.
    pub async fn has_signed(
        self,
        repository: &Repository,
        commit: Oid,
        facts: &commit::CommitFacts,
    ) -> std::result::Result<bool, ForgeError> {
        let wanted = &self.config.commits;
        if wanted.signing == publish::Signing::None {
            return Ok(true);
        }
        if !facts.is_signed {
            return Ok(false);
        }
        match self.forge.verification(&repository.id, &commit.to_string()).await {
            // Our key would sign the same again.
            Ok(told) => Ok(told.verified
                || (wanted.signing == publish::Signing::Ssh && !wanted.require_verified)),
            Err(err) if wanted.require_verified => Err(err),
            Err(_) => Ok(true),
        }
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
        let refused = Failure::refused(format!("{said}; no pull request was opened"));
        Ok(Some(Doubt::Refused(refused.hint(self.remedy()))))
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

/// A commit with its signature. A branch that this takes is taken away by whichever attempt of the run comes after one
/// that was killed, also when nobody is to sign by then.
pub(super) async fn sign(
    run: &Run<'_>,
    repository: &Repository,
    (repo, commit): (&Repo, Oid),
) -> Result<Oid> {
    let signer = Signer::of(run)?;
    let branch = staging_branch(&run.folder.id);
    let stages = signer.stages().await.map_err(failure)?;
    if stages {
        run.folder.intends(STAGE, &branch, json!({}))?;
    } else if was_interrupted(run) {
        let left = signer.forge.unstage(&repository.id, signer.work).await.map_err(failure)?;
        signer.tell(left);
    }
    let commits = signer.signed(repository, repo, commit.into()).await.map_err(failure)?;
    if stages {
        run.folder.did(STAGE, &branch, json!({}))?;
    }
    Ok(commits.tip)
}

/// How the journal calls it that a staging branch is there.
const STAGE: &str = "stage";

/// An attempt was killed while its staging branch was there.
fn was_interrupted(run: &Run<'_>) -> bool {
    let last = run.folder.find(|entry| match entry {
        Entry::EffectIntended { effect, .. } if effect == STAGE => Some(true),
        Entry::EffectDone { effect, .. } if effect == STAGE => Some(false),
        _ => None,
    });
    last.unwrap_or_default()
}

/// Says what the forge has against the signature of a commit that is on its branch, with the pull request there
/// already.
pub(super) async fn tell_doubt(run: &Run<'_>, repository: &Repository, head: Oid) {
    let Ok(signer) = Signer::of(run) else { return };
    match signer.doubt(repository, head).await {
        Ok(None) => {}
        Ok(Some(Doubt::Said(words))) => run.environment.ui.say(&words),
        Ok(Some(Doubt::Refused(failure))) => run.environment.ui.warn(&failure.message),
        Err(err) => {
            let words = format!("whether GitHub verifies commit {} is not known", head.short());
            run.environment.ui.say(&format!("{words}: {err}"));
        }
    }
}

/// The failure for an error of signing.
fn failure(err: ForgeError) -> Failure {
    match err {
        // Says it all.
        ForgeError::Unverified { .. } => Failure::from(err),
        err => failures::of_forge("the commit cannot be signed", err),
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
