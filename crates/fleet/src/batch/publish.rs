//! The publisher: a stored change becomes one pull request.
//!
//! [`work`] is one job: it decides what is to happen with the branch and with pull requests that are there already
//! ([`choice`]), pushes, opens or updates, and writes down what became of it. It may die anywhere and be run again, or
//! be run twice at once: every step looks before it writes, and nothing is written with a lost lease. The model is
//! never asked.

mod choice;
mod decorate;
pub(super) mod publish_error;
mod repository_snapshot;
pub(super) mod timing;
mod vetted;

use std::sync::Arc;

use self::choice::PublishChoice;
pub use self::choice::{BranchPulls, ClosedPull, decide};
use self::publish_error::PublishError;
use self::repository_snapshot::RepositorySnapshot;
use super::campaign::Campaign;
use super::drive;
use super::fleet::Fleet;
use super::lease::HeldJob;
use super::pace;
use crate::store::{StoreError, StoreResult};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::github::GitHubForge;
use patchwright_forge::{
    Forge, ForgeError, Operation, PullRequest, PullRequestDraft, StateProblem,
};
use patchwright_git::{Oid, blocking, commit};
use patchwright_task::decorate::beside_edits;
use patchwright_task::publish::is_no_rewrite;
use patchwright_task::signing::{Doubt, Signer};
use patchwright_types::campaign::{
    CampaignState, Changeset, ErrorClass, JobEnd, JobKind, Millis, NewJob, Target, TargetEnd,
    TargetState,
};
use patchwright_types::events::CampaignEvent;
use patchwright_types::run_facts::RunFacts;

/// Attempts after transient errors; the last ones are half an hour apart.
pub(super) const ATTEMPTS: i64 = 8;
/// How often a branch that moves meanwhile is looked at again.
const TRIES: u32 = 3;

/// The job that publishes a target's changeset: one at a time for each token.
pub fn job(fleet: &Fleet, target: &Target) -> NewJob {
    job_for(&fleet.token, target)
}

/// The job that publishes a target's changeset, by the token's fingerprint.
pub(super) fn job_for(token: &str, target: &Target) -> NewJob {
    NewJob {
        kind: JobKind::Publish,
        key: format!("publish:{}", target.id),
        campaign: Some(target.campaign.clone()),
        subject: target.id.to_string(),
        lane: Some(format!("publish:{token}")),
        organization: None,
        priority: 10,
        max_attempts: ATTEMPTS,
        reserve_usd: 0.0,
        run_at: 0,
    }
}

/// What became of it.
enum PublishOutcome {
    /// There is a pull request of ours.
    Published { pull: Box<PullRequest>, operation: Operation, said: Option<String> },
    /// There is nothing to publish, and why.
    Settled { state: TargetState, reason: String, pull: Option<(u64, String)> },
    /// Not now; does not count as an attempt.
    Later { after: Millis, why: String },
}

/// What was done to the branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BranchWrite {
    /// It was as it should be.
    None,
    Pushed,
}

/// Publishes, and ends the job with what became of it.
///
/// # Errors
/// When the store cannot be used. What GitHub and git do to us is an end of the job.
pub async fn work(fleet: &Fleet, held: Arc<HeldJob>) -> Result<()> {
    match publish_one(fleet, &held).await {
        // Another worker holds the job now and will write its end.
        Err(StoreError::LeaseLost { .. }) => return Ok(()),
        result => result.map_err(Failure::from)?,
    }
    match &held.job.campaign {
        Some(campaign) => go_on(fleet, campaign).await,
        None => Ok(()),
    }
}

/// The next wave may wait for what was published just now, and the command that began the campaign may have ended.
async fn go_on(fleet: &Fleet, campaign: &str) -> Result<()> {
    match fleet.store.campaign(campaign).await {
        Ok(_) => Box::pin(drive::advance(fleet, campaign)).await.map(drop),
        Err(StoreError::NotFound(_)) => Ok(()),
        Err(err) => Err(err.into()),
    }
}

async fn publish_one(fleet: &Fleet, held: &Arc<HeldJob>) -> StoreResult<()> {
    let store = &fleet.store;
    let Ok(id) = held.job.subject.parse() else {
        let why = format!("the job is about `{}`, which is no target", held.job.subject);
        return store.end_job(&held.lease, &JobEnd::Failed { why }).await;
    };
    let target = match store.target(id).await {
        // The database is not trusted: a job of one campaign must not publish a target of another.
        Ok(target) if held.job.campaign.as_ref() != Some(&target.campaign) => {
            let why = format!("target {id} is of another campaign");
            return store.end_job(&held.lease, &JobEnd::Failed { why }).await;
        }
        Ok(target) => target,
        Err(StoreError::NotFound(what)) => {
            let why = format!("{what} is gone");
            return store.end_job(&held.lease, &JobEnd::Failed { why }).await;
        }
        Err(err) => return Err(err),
    };
    // Closed or superseded since it was queued, or published by an attempt that died before it
    // could write so.
    if !matches!(target.state, TargetState::Ready | TargetState::Publishing) {
        return store.end_job(&held.lease, &JobEnd::Done).await;
    }
    let ended = match Publisher::prepare(fleet, held, target.clone()).await? {
        Ok(publisher) => publisher.run().await,
        Err(trouble) => Err(trouble),
    };
    match ended {
        Err(PublishError::Store(err)) => Err(err),
        Err(PublishError::Forge(ForgeError::Fenced { .. })) => Ok(()),
        Ok(end) => finish(fleet, held, &target, end).await,
        Err(trouble) => publish_error::end(fleet, held, &target, trouble).await,
    }
}

/// Everything that one job needs.
struct Publisher<'a> {
    fleet: &'a Fleet,
    held: &'a Arc<HeldJob>,
    forge: Arc<GitHubForge>,
    campaign: Campaign,
    target: Target,
    changeset: Changeset,
    commit: Oid,
    base: Oid,
}

type PublishResult<T> = std::result::Result<T, PublishError>;

impl<'a> Publisher<'a> {
    async fn prepare(
        fleet: &'a Fleet,
        held: &'a Arc<HeldJob>,
        target: Target,
    ) -> StoreResult<PublishResult<Publisher<'a>>> {
        let row = fleet.store.campaign(&target.campaign).await?;
        let broken = |class, message: String| Ok(Err(PublishError::Final { class, message }));
        if row.state == CampaignState::Closed {
            return broken(ErrorClass::Publish, "the campaign was closed".to_owned());
        }
        let campaign = match drive::campaign_of(&row) {
            Ok(campaign) => campaign,
            Err(failure) => return broken(ErrorClass::Configuration, failure.to_string()),
        };
        let Some(changeset) = fleet.store.changeset(target.id).await? else {
            return broken(ErrorClass::Internal, "there is no stored change".to_owned());
        };
        // GitHub compares names without case.
        let is_of_it = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
        if !is_of_it(&changeset.repository, &target.repository)
            || changeset.base_sha != target.base_sha
        {
            let message = "the stored change is of another repository or commit".to_owned();
            return broken(ErrorClass::Policy, message);
        }
        let ids = (changeset.commit.parse(), changeset.base_sha.parse());
        let (Ok(commit), Ok(base)) = ids else {
            return broken(ErrorClass::Internal, "the stored change names no commit".to_owned());
        };
        let limits = pace::limits(fleet, Some(&campaign));
        let gate = pace::gate(&fleet.store, &fleet.token, limits, Some(Arc::clone(held)));
        let outages = Arc::clone(&fleet.outages);
        let gate = gate.with_works(move |service| outages.works(service, None));
        let forge = Arc::new(fleet.forge.gated(gate));
        Ok(Ok(Publisher { fleet, held, forge, campaign, target, changeset, commit, base }))
    }

    async fn run(&self) -> PublishResult<PublishOutcome> {
        // First, while nothing is written: the job then only goes back to the queue.
        if let Some(later) = self.not_now().await? {
            return Ok(later);
        }
        let store = &self.fleet.store;
        store.begin_publishing(&self.held.lease, self.target.id).await?;
        if let Some(end) = self.same_elsewhere().await? {
            return Ok(end);
        }
        let place = match self.open_place().await? {
            Ok(place) => place,
            Err(end) => return Ok(end),
        };
        let mut moved = None;
        for _ in 0..TRIES {
            match self.choose(&place).await? {
                PublishChoice::End { state, reason, pull } => {
                    return Ok(PublishOutcome::Settled { state, reason, pull });
                }
                PublishChoice::Keep { tip } => {
                    self.leave_to_people(&place).await?;
                    return self.open_pull(&place, tip, BranchWrite::None).await;
                }
                PublishChoice::Push { expected } => match self.push(&place, expected).await {
                    Ok(tip) => return self.open_pull(&place, tip, BranchWrite::Pushed).await,
                    // The branch moved between the look and the push, so decide again.
                    Err(err @ ForgeError::Moved { .. }) => moved = Some(err),
                    Err(err) => return Err(err.into()),
                },
            }
        }
        Err(moved.map_or_else(
            || PublishError::Final {
                class: ErrorClass::Internal,
                message: "nothing was tried".into(),
            },
            PublishError::Forge,
        ))
    }

    async fn push(
        &self,
        place: &RepositorySnapshot,
        expected: Option<Oid>,
    ) -> Result<Oid, ForgeError> {
        if expected.is_some() {
            self.leave_to_people(place).await?;
        }
        let pushed = self.push_commit(place, place.vetted.commit, expected).await;
        match (pushed, expected) {
            (Err(err), Some(tip)) if is_no_rewrite(&err) => self.push_on_top(place, tip).await,
            (pushed, _) => pushed,
        }
    }

    /// Where a rule keeps branches from being rewritten, ours is added to.
    async fn push_on_top(&self, place: &RepositorySnapshot, tip: Oid) -> Result<Oid, ForgeError> {
        let (repo, commit) = (place.repo.clone(), place.vetted.commit);
        let made = blocking(move || commit::on_top(&repo, commit, tip)).await;
        let made = made.map_err(|err| ForgeError::Git { message: err.to_string() })?;
        match made {
            Some(commit) => self.push_commit(place, commit, Some(tip)).await,
            None => Ok(tip),
        }
    }

    async fn push_commit(
        &self,
        place: &RepositorySnapshot,
        commit: Oid,
        expected: Option<Oid>,
    ) -> Result<Oid, ForgeError> {
        let branch = self.campaign.branch();
        // Targets of other databases have the same numbers.
        let work = format!("{}-{}", branch.replace('/', "-"), self.target.id);
        let signer = self.signer(place, &work);
        let from = place.repo.path();
        let commits = signer.signed(&place.repository, &place.repo, commit.into()).await?;
        let tip = commits.tip;
        self.forge.push(&place.repository, from, commits, &branch, expected).await.map(|_| tip)
    }

    pub(super) fn signer<'s>(&'s self, place: &'s RepositorySnapshot, work: &'s str) -> Signer<'s> {
        Signer {
            forge: self.forge.as_ref(),
            config: &place.vetted.config,
            key: self.fleet.signing_key.as_ref(),
            work,
            asked_at: None,
            ui: self.fleet.ui,
        }
    }

    /// What GitHub has against the signature of what was pushed, for people.
    async fn doubt(&self, place: &RepositorySnapshot, head: Oid) -> PublishResult<Option<String>> {
        match self.signer(place, "").doubt(&place.repository, head).await? {
            None => Ok(None),
            Some(Doubt::Said(words)) => Ok(Some(words)),
            Some(Doubt::Refused(failure)) => Err(PublishError::refused(&failure)),
        }
    }

    async fn open_pull(
        &self,
        place: &RepositorySnapshot,
        head: Oid,
        write: BranchWrite,
    ) -> PublishResult<PublishOutcome> {
        let doubt = self.doubt(place, head).await?;
        let id = &place.repository.id;
        let draft = PullRequestDraft {
            title: place.vetted.title.clone(),
            body: place.vetted.body.clone(),
            head_repository: id.clone(),
            head_branch: self.campaign.branch(),
            base_branch: place.base_branch.clone(),
            moves_base: true,
            draft: place.vetted.draft,
        };
        let was_unfinished = !draft.draft && self.has_unfinished(place).await?;
        let opened = self.forge.open_or_update(id, &draft, &place.vetted.marker).await;
        let (mut pull, operation, edits) = match opened {
            Ok(opened) => opened,
            // The base branch got the same change meanwhile, and GitHub refuses an empty pull
            // request.
            Err(ForgeError::State { what: StateProblem::NothingToPropose, message }) => {
                let state = TargetState::Unchanged;
                return Ok(PublishOutcome::Settled { state, reason: message, pull: None });
            }
            Err(err) => return Err(err.into()),
        };
        // Its text is as it was, and its commits are new.
        let operation = match (operation, write) {
            (Operation::Unchanged, BranchWrite::Pushed) => Operation::Updated,
            (operation, _) => operation,
        };
        let caution = place.vetted.caution.clone();
        let said = caution.into_iter().chain(place.said.clone()).chain(doubt);
        let mut said: Vec<String> = said.collect();
        // A push does not change the draft state: when the new change fails its checks, the pull
        // request must become a draft, and what an earlier run left as one may be complete now.
        let is_unfit = draft.draft && !pull.draft && operation != Operation::Created;
        if is_unfit || (was_unfinished && pull.draft) {
            match self.forge.set_draft(id, pull.number, draft.draft).await {
                Ok(()) => pull.draft = draft.draft,
                Err(err) => said.push(not_fatal(err)?),
            }
        }
        let forge: &dyn Forge = self.forge.as_ref();
        match beside_edits(forge, id, (pull.number, &draft), edits).await {
            Ok(edited) => said.extend(edited),
            Err(err) => said.push(not_fatal(err)?),
        }
        said.extend(self.decorate(place, &pull, operation, head).await?);
        self.supersede(&pull).await?;
        let said = (!said.is_empty()).then(|| said.join("; "));
        Ok(PublishOutcome::Published { pull: Box::new(pull), operation, said })
    }

    /// Its open pull request is a draft because of what an earlier run said in it.
    async fn has_unfinished(&self, place: &RepositorySnapshot) -> PublishResult<bool> {
        if self.history().await?.iter().all(|target| target.pull_request.is_none()) {
            return Ok(false);
        }
        let id = &place.repository.id;
        let pulls = self.forge.pull_requests_from(id, id, &self.campaign.branch()).await?;
        let above = &place.vetted.above;
        let is_unfinished = |pull: &PullRequest| {
            pull.open && pull.draft && vetted::has_warning(&pull.body.replace('\r', ""), above)
        };
        Ok(pulls.iter().any(is_unfinished))
    }

    /// All targets of the repository in campaigns of this name.
    async fn history(&self) -> StoreResult<Vec<Target>> {
        let Target { repository, repository_id, .. } = &self.target;
        self.fleet.store.history(&self.campaign.name, repository, repository_id.as_deref()).await
    }

    /// Older targets whose pull request this is now.
    async fn supersede(&self, pull: &PullRequest) -> StoreResult<()> {
        let store = &self.fleet.store;
        for older in self.history().await? {
            let is_same = older.pull_request == i64::try_from(pull.number).ok();
            let is_open = matches!(older.state, TargetState::Open | TargetState::Draft);
            if is_same && is_open && older.id != self.target.id {
                let reason = format!(
                    "its pull request was brought up to date by a newer run: {}",
                    pull.html_url
                );
                store
                    .observe_target(older.id, TargetState::Superseded, Some(&reason), None)
                    .await?;
            }
        }
        Ok(())
    }
}

/// What may fail without harm; a lost lease and a limit may not.
fn not_fatal(err: ForgeError) -> PublishResult<String> {
    if decorate::is_fatal(&err) { Err(err.into()) } else { Ok(err.to_string()) }
}

/// Writes down how it ended.
async fn finish(
    fleet: &Fleet,
    held: &HeldJob,
    target: &Target,
    end: PublishOutcome,
) -> StoreResult<()> {
    let (state, reason, pull) = match end {
        PublishOutcome::Later { after, why } => {
            let after = pace::scaled_wait(fleet, after);
            let why = fleet.redactor.redact(&why);
            return fleet.store.end_job(&held.lease, &JobEnd::Later { after, why }).await;
        }
        PublishOutcome::Settled { state, reason, pull } => (state, Some(reason), pull),
        PublishOutcome::Published { pull, operation, said } => {
            let words = format!(
                "{}: pull request #{}: {} ({})",
                target.repository,
                pull.number,
                pull.html_url,
                operation.word()
            );
            fleet.ui.say(&words);
            let state = if pull.draft { TargetState::Draft } else { TargetState::Open };
            (state, said, Some((pull.number, pull.html_url)))
        }
    };
    let reason = reason.map(|reason| fleet.redactor.redact(&reason));
    let (number, url) = pull.unzip();
    let end = TargetEnd {
        state,
        class: None,
        reason: reason.clone(),
        run: None,
        cost_usd: 0.0,
        tokens: 0,
        pull_request: number.and_then(|number| i64::try_from(number).ok()),
        url: url.clone(),
        writes: held.written(),
        facts: RunFacts::default(),
    };
    fleet.store.end_target(&held.lease, target.id, &end, None, None, &JobEnd::Done).await?;
    fleet.ui.event(&CampaignEvent::Published {
        campaign: &target.campaign,
        repository: &target.repository,
        state: state.word(),
        pull_request: number,
        url: url.as_deref(),
        reason: reason.as_deref(),
    });
    Ok(())
}
