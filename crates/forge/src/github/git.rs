//! Fetching from GitHub and pushing to it, with the patience that the API's requests have: an outage is
//! waited out for minutes, a rate limit for as long as it lasts, and a token that has ended is replaced.
//!
//! A push comes at the end of work that was paid for, so it waits longest. Each attempt takes its own
//! turn to write and passes the gate, so that nobody else waits while it waits.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use super::GitHubForge;
use super::layers::Effect;
use super::limits::{LIMIT_WAITS, LimitedAccount, Limiter};
use super::token::Scope;
use super::waiting;
use crate::transfer::{self, PushSpec, TransferError};
use crate::{ForgeError, Repository, RepositoryId};
use patchwright_base::error::Service;
use patchwright_git::transport::{Credentials, Remote};
use patchwright_git::{GitError, PushOutcome};

/// How long trouble at the beginning of a run is waited out.
const FETCH_PATIENCE: Duration = Duration::from_mins(5);
/// How long trouble is waited out that would lose paid work.
const PUSH_PATIENCE: Duration = Duration::from_mins(15);
/// How often a branch that somebody else is writing is tried.
const LOCKED_TRIES: u32 = 5;

/// What has gone wrong so far with one fetch or push.
struct RetryState {
    since: Instant,
    patience: Duration,
    failures: u32,
    limits: u32,
    renewed: bool,
    /// Whose limits it falls under.
    account: LimitedAccount,
}

impl RetryState {
    fn new(patience: Duration, account: LimitedAccount) -> RetryState {
        let since = Instant::now();
        RetryState { since, patience, failures: 0, limits: 0, renewed: false, account }
    }
}

impl GitHubForge {
    /// With whose requests GitHub counts those about this repository.
    pub fn limited_account(&self, repository: &RepositoryId) -> LimitedAccount {
        self.api.token.limited_account(&Scope::of_repository(repository))
    }

    pub(super) async fn fetch_patiently(
        &self,
        repository: &Repository,
        into: &Path,
        refs: &[String],
        depth: u32,
    ) -> Result<(), ForgeError> {
        let mut trouble = RetryState::new(FETCH_PATIENCE, self.limited_account(&repository.id));
        loop {
            self.api.admission().open(&trouble.account).await?;
            let (remote, credentials) = self.remote(repository, "read").await?;
            let name = remote.name();
            let Err(err) = transfer::fetch(remote, into, refs, depth).await else {
                self.api.gate.works(Service::Git);
                waiting::git_answers(&self.git_server());
                return Ok(());
            };
            self.wait_out(&mut trouble, err, credentials.as_ref())
                .await
                .map_err(|err| err.into_forge_error(&name, "read"))?;
        }
    }

    pub(super) async fn look_beside(
        &self,
        repository: &Repository,
        names: &[String],
    ) -> Result<Vec<String>, ForgeError> {
        let mut trouble = RetryState::new(FETCH_PATIENCE, self.limited_account(&repository.id));
        loop {
            self.api.admission().open(&trouble.account).await?;
            let (remote, credentials) = self.remote(repository, "read").await?;
            let name = remote.name();
            let err = match transfer::branches_beside(remote, names).await {
                Ok(found) => {
                    waiting::git_answers(&self.git_server());
                    return Ok(found);
                }
                Err(err) => err,
            };
            self.wait_out(&mut trouble, err, credentials.as_ref())
                .await
                .map_err(|err| err.into_forge_error(&name, "read"))?;
        }
    }

    pub(super) async fn push_patiently(
        &self,
        repository: &Repository,
        what: PushSpec<'_>,
    ) -> Result<PushOutcome, ForgeError> {
        let mut trouble = RetryState::new(PUSH_PATIENCE, self.limited_account(&repository.id));
        loop {
            let (remote, credentials) = self.remote(repository, "push to").await?;
            let name = remote.name();
            let turn = self.api.limiter.write_turn(&trouble.account).await;
            self.api.admission().admit(Effect::Write, &trouble.account).await?;
            let gate = self.api.gate.clone();
            // The wait for a slot is over before the connection is opened; what is asked right before
            // the pack goes out takes no time.
            let permit = move || -> BoxFuture<'static, Result<(), ForgeError>> {
                let gate = gate.clone();
                Box::pin(async move { gate.check().await })
            };
            let pushed = transfer::push(remote, what, permit).await;
            Limiter::written(turn);
            let err = match pushed {
                Ok(outcome) => {
                    self.api.limiter.answered(&trouble.account);
                    self.api.gate.works(Service::Git);
                    waiting::git_answers(&self.git_server());
                    return Ok(outcome);
                }
                Err(err) => err,
            };
            self.wait_out(&mut trouble, err, credentials.as_ref())
                .await
                .map_err(|err| err.into_forge_error(&name, "push to"))?;
        }
    }

    /// Begins a push that is not made. Only a refusal that concerns the token is an error: whatever else happens, the
    /// push itself waits for; and a fork that was made a moment ago may not be there yet.
    pub(super) async fn ask_to_push(&self, repository: &Repository) -> Result<(), ForgeError> {
        let account = self.limited_account(&repository.id);
        self.api.admission().open(&account).await?;
        let mut is_renewed = false;
        loop {
            let (remote, credentials) = self.remote(repository, "push to").await?;
            let name = remote.name();
            let Err(err) = transfer::ask_to_push(remote).await else { return Ok(()) };
            match &err {
                GitError::Authentication { .. } => {
                    let may_be_better = !is_renewed
                        && credentials
                            .is_some_and(|used| self.api.token.refused(used.secret(), None));
                    if !may_be_better {
                        return Err(transfer::forge_error(&name, "push to", err));
                    }
                    is_renewed = true;
                }
                GitError::Forbidden { .. } => {
                    return Err(transfer::forge_error(&name, "push to", err));
                }
                other => {
                    tracing::debug!(error = %other, "whether a push is taken is not known");
                    return Ok(());
                }
            }
        }
    }

    /// Returns when it may be tried again.
    ///
    /// # Errors
    /// With the same trouble, when another attempt would not help or enough were made.
    async fn wait_out(
        &self,
        trouble: &mut RetryState,
        err: TransferError,
        credentials: Option<&Credentials>,
    ) -> Result<(), TransferError> {
        let TransferError::Git(git) = &err else { return Err(err) };
        let limiter = &self.api.limiter;
        match git {
            GitError::Limited { limit, .. } => {
                trouble.limits += 1;
                if trouble.limits > LIMIT_WAITS {
                    return Err(err);
                }
                tracing::warn!(error = %git, "waiting for a rate limit");
                let wait = self.api.admission().report_limit(&trouble.account, *limit).await;
                let wait = wait.map_err(TransferError::NotPermitted)?;
                waiting::for_limit(&self.git_server(), &trouble.account, wait);
                // The next attempt may have to wait for its turn before; the limit ends first.
                let open = self.api.admission().open(&trouble.account).await;
                open.map_err(TransferError::NotPermitted)
            }
            GitError::Authentication { .. } if !trouble.renewed => {
                trouble.renewed = true;
                let Some(credentials) = credentials else { return Err(err) };
                let may_be_better = self.api.token.refused(credentials.secret(), None);
                if may_be_better { Ok(()) } else { Err(err) }
            }
            git if git.is_worth_retrying() => {
                trouble.failures += 1;
                let is_over = if matches!(git, GitError::Rejected { .. }) {
                    trouble.failures >= LOCKED_TRIES
                } else {
                    trouble.since.elapsed() >= limiter.scaled(trouble.patience)
                };
                if is_over {
                    return Err(err);
                }
                let failed = (trouble.failures, trouble.since);
                waiting::for_git(&self.git_server(), git, failed, trouble.patience);
                tracing::warn!(error = %git, attempt = trouble.failures, "trying again");
                limiter.back_off(trouble.failures).await;
                Ok(())
            }
            _ => Err(err),
        }
    }

    /// The host of git's server, for people.
    fn git_server(&self) -> String {
        self.server_url.host_str().unwrap_or_default().to_owned()
    }

    /// Where git finds it, with our token when there is one.
    async fn remote(
        &self,
        repository: &Repository,
        verb: &str,
    ) -> Result<(Remote, Option<Credentials>), ForgeError> {
        let url = format!("{}.git", self.page_of(&repository.id));
        let token = self.api.token.for_git(&repository.id).await?;
        let credentials = token.map(Credentials::token);
        let remote = Remote::http(&self.http, &url, credentials.clone())
            .map_err(|err| transfer::forge_error(&url, verb, err))?;
        Ok((remote.tried_once(), credentials))
    }
}
