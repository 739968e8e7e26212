//! The work on one repository of a campaign: an agent run that ends with a stored change, or a review.
//!
//! [`work`] is one attempt. What came of it goes into the store in one transaction with the end of the
//! job; only then is the run's own journal closed, so that a process that dies in between adopts the
//! result instead of asking the model again.

pub(super) mod verdict;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::verdict::AttemptVerdict;
use super::campaign::{Campaign, CampaignMode, PublishAs};
use super::drive;
use super::fleet::Fleet;
use super::lease::HeldJob;
use super::outage::{LastRequest, observe, observe_sandboxes};
use super::selection;
use crate::store::StoreError;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_config::Config;
use patchwright_forge::{Forge, RepositoryId};
use patchwright_sandbox::Sandbox;
use patchwright_task::campaign::{self, OwnBranch, RetryDecision, TargetError};
use patchwright_task::retention;
use patchwright_task::review;
use patchwright_task::run::{Claim, RunEnvironment};
use patchwright_task::signals::{Cancellation, Cause};
use patchwright_task::world::{self, Shared, World};
use patchwright_types::campaign::{
    ErrorClass, JobEnd, JobKind, NewJob, Target, TargetEnd, TargetState,
};
use patchwright_types::task::{CampaignRequest, ReviewRequest, Task};

/// Attempts at a target that fails for a reason that may pass.
const ATTEMPTS: u32 = 3;

/// The job that works on a target.
pub fn job(fleet: &Fleet, campaign: &Campaign, target: &Target) -> NewJob {
    job_for(drive::reserve(fleet, campaign), campaign, target)
}

/// The job that works on a target, when a run may cost so many dollars.
pub(super) fn job_for(reserve_usd: f64, campaign: &Campaign, target: &Target) -> NewJob {
    let owner = target.repository.split('/').next().unwrap_or_default();
    NewJob {
        kind: JobKind::Target,
        key: format!("target:{}", target.id),
        campaign: Some(target.campaign.clone()),
        subject: target.id.to_string(),
        // The lane keeps two runs out of one repository, also when they belong to different
        // campaigns.
        lane: Some(format!("repository:{}", target.identity())),
        organization: Some(owner.to_owned()),
        priority: 0,
        max_attempts: i64::from(campaign.limits.max_attempts.unwrap_or(ATTEMPTS).max(1)),
        reserve_usd,
        run_at: 0,
    }
}

/// Runs the agent (or the review), stores what came of it, and ends the job.
pub async fn work(fleet: &Fleet, held: Arc<HeldJob>) -> Result<()> {
    let work = TargetAttempt::load(fleet, held).await?;
    if let Some(why) = work.no_longer_selected().await? {
        let verdict = AttemptVerdict::settled(TargetState::Skipped, why);
        work.record(verdict, None, (0.0, 0)).await?;
        return drive::advance(fleet, &work.target.campaign).await.map(drop);
    }
    if let Some(why) = work.refusal().await? {
        let trouble = TargetError {
            class: ErrorClass::Policy,
            failure: Failure::refused(why),
            decision: RetryDecision::Final,
        };
        work.record(work.failed(&trouble).await?, None, (0.0, 0)).await?;
        return drive::advance(fleet, &work.target.campaign).await.map(drop);
    }
    let result = match work.campaign.mode {
        CampaignMode::Pr | CampaignMode::Report => Box::pin(work.agent()).await,
        CampaignMode::Review => Box::pin(work.review()).await,
    };
    match result {
        // Another worker has the job: nothing more is written, neither here nor on GitHub.
        Err(StoreError::LeaseLost { .. }) => Ok(()),
        Err(err) => Err(err.into()),
        Ok(()) => drive::advance(fleet, &work.target.campaign).await.map(drop),
    }
}

/// What an attempt works with.
struct TargetAttempt<'a> {
    fleet: &'a Fleet,
    held: Arc<HeldJob>,
    target: Target,
    campaign: Campaign,
}

impl TargetAttempt<'_> {
    async fn load(fleet: &Fleet, held: Arc<HeldJob>) -> Result<TargetAttempt<'_>> {
        let subject = &held.job.subject;
        let id = subject.parse().map_err(|_| {
            Failure::internal(format!("job {} is about no target: {subject}", held.job.id))
        })?;
        let target = fleet.store.target(id).await?;
        let row = fleet.store.campaign(&target.campaign).await?;
        let campaign = drive::campaign_of(&row)?;
        Ok(TargetAttempt { fleet, held, target, campaign })
    }

    /// Why it is skipped: it was taken out of the campaign before anything was done for it.
    async fn no_longer_selected(&self) -> std::result::Result<Option<String>, StoreError> {
        let is_new = self.target.run.is_none();
        if !is_new || self.held.job.campaign.as_ref() != Some(&self.target.campaign) {
            return Ok(None);
        }
        self.refusal().await
    }

    /// Why nothing is done here: the database names what the campaign does not select.
    async fn refusal(&self) -> std::result::Result<Option<String>, StoreError> {
        if self.held.job.campaign.as_ref() != Some(&self.target.campaign) {
            return Ok(Some("the job is of another campaign".to_owned()));
        }
        let Target { repository, repository_id, .. } = &self.target;
        let id = repository_id.as_deref();
        selection::refusal(self.fleet, &self.campaign, repository, None, id).await
    }

    /// The forge through the gate, and the model as the campaign has it. What is wrong here is wrong for
    /// every repository, but for a sandbox that does not answer just now.
    async fn world(
        &self,
        config: &Config,
    ) -> std::result::Result<(World, LastRequest), TargetError> {
        let forge: Arc<dyn Forge> = self.held.forge(self.fleet);
        let shared = shared(self.fleet, config).await.map_err(|failure| match failure.kind {
            FailureKind::Usage => TargetError {
                class: ErrorClass::Configuration,
                failure,
                decision: RetryDecision::PauseCampaign,
            },
            _ => failure.into(),
        })?;
        let mut world =
            World::from_shared(&shared, forge, config, &self.fleet.env).map_err(|failure| {
                TargetError {
                    class: ErrorClass::Configuration,
                    failure,
                    decision: RetryDecision::PauseCampaign,
                }
            })?;
        let campaign = self.target.campaign.as_str();
        observe_sandboxes(&mut world, &self.fleet.outages, &self.held.sandbox);
        let last = observe(&mut world, &self.fleet.outages, Some(campaign));
        Ok((world, last))
    }

    fn config(&self) -> std::result::Result<Config, TargetError> {
        let Target { repository, base_branch, .. } = &self.target;
        let config = self.fleet.config.clone();
        self.campaign.overlay(config, repository, base_branch).map_err(|failure| TargetError {
            class: ErrorClass::Configuration,
            failure,
            decision: RetryDecision::PauseCampaign,
        })
    }

    fn repository(&self) -> Result<RepositoryId> {
        self.target.repository.parse().map_err(Failure::internal)
    }

    /// One attempt by the agent.
    async fn agent(&self) -> std::result::Result<(), StoreError> {
        let ready = async {
            let config = self.config()?;
            let (world, _) = self.world(&config).await?;
            Ok((world, config, self.request()?))
        };
        let (world, config, request) = match ready.await {
            Ok(ready) => ready,
            Err(trouble) => return self.record(self.failed(&trouble).await?, None, (0.0, 0)).await,
        };
        let watched = LeasedRun::new(self.fleet, &self.held);
        let title = headline(&self.campaign);
        let environment = watched.environment.clone();
        let (branch, known) = (self.branch(), self.target.tokens);
        let started = campaign::start(&world, config, request, environment, &title, branch, known);
        let started = match started {
            Ok(started) => started,
            Err(failure) => {
                let verdict = self.failed(&failure.into()).await?;
                return self.record(verdict, None, (0.0, 0)).await;
            }
        };
        if started.is_recovered {
            self.fleet.ui.say(&format!(
                "{}: the database has lost what run {} came to, and its result is taken again",
                self.target.repository,
                started.id()
            ));
        }
        self.fleet.store.begin_target(&self.held.lease, self.target.id, started.id()).await?;
        let attempt = started.work().await;
        let used = attempt.unaccounted(known);
        let run = Some(attempt.run().to_owned());
        let verdict = match &attempt.result {
            Ok(result) => self.finished(result).await?,
            Err(trouble) => self.failed(trouble).await?,
        };
        let verdict = AttemptVerdict { facts: attempt.facts(), ..verdict };
        self.record(verdict, run, used).await?;
        // The store has the result; an open journal only costs disk space.
        if let Err(failure) = attempt.close(&world) {
            self.fleet.ui.detail(&failure.to_string());
        }
        Ok(())
    }

    /// What a change will be for, where there is to be one.
    fn branch(&self) -> Option<OwnBranch> {
        let name = match self.campaign.mode {
            CampaignMode::Pr => self.campaign.branch(),
            CampaignMode::Review | CampaignMode::Report => return None,
        };
        Some(match self.campaign.published(&self.target.repository) {
            PublishAs::Held => OwnBranch::Stored(name),
            PublishAs::Ready | PublishAs::Draft => OwnBranch::Proposed(name),
        })
    }

    fn request(&self) -> Result<CampaignRequest> {
        let Target { repository, repository_id, base_branch, base_sha, .. } = &self.target;
        Ok(CampaignRequest {
            campaign: self.target.campaign.clone(),
            repository: self.repository()?,
            repository_id: repository_id.clone(),
            base_branch: base_branch.clone(),
            base_sha: base_sha.clone(),
            prompt: self.campaign.prompt_for(repository, base_branch)?,
            title: self.campaign.title_for(repository, base_branch)?,
            answer: self.campaign.mode == CampaignMode::Report,
        })
    }

    fn review_request(&self) -> Result<ReviewRequest> {
        let number = self.target.number.and_then(|number| u64::try_from(number).ok());
        let number = number.ok_or_else(|| Failure::internal("a review without a number"))?;
        let (repository, head) = (self.repository()?, Some(self.target.base_sha.clone()));
        let (full, only_judges) = (false, false);
        Ok(ReviewRequest { repository, number, trigger: None, head, full, only_judges })
    }

    /// One review of the target's pull request.
    async fn review(&self) -> std::result::Result<(), StoreError> {
        let ready = async {
            let config = self.config()?;
            let (world, model) = self.world(&config).await?;
            Ok((world, model, config, self.review_request()?))
        };
        let (world, model, config, request) = match ready.await {
            Ok(ready) => ready,
            Err(trouble) => return self.record(self.failed(&trouble).await?, None, (0.0, 0)).await,
        };
        let watched = LeasedRun::new(self.fleet, &self.held);
        let name = format!("review-{}", self.target.id);
        self.fleet.store.begin_target(&self.held.lease, self.target.id, &name).await?;
        let task = Task { kind: request.clone().into(), limits: config.limits.clone() };
        let environment = watched.environment.clone();
        let reviewing = review::run::review(&world, config, request, environment);
        let (verdict, run, used) = match Box::pin(reviewing).await {
            Ok(ended) => {
                let spending = &ended.reviewed.spending;
                let tokens = i64::try_from(spending.usage.total()).unwrap_or(i64::MAX);
                let verdict = self.of_review(&ended, model.outage()).await?;
                // A run that is resumed counts when it ends.
                let used = match verdict.job_end {
                    JobEnd::Done | JobEnd::Failed { .. } => (spending.cost_usd, tokens),
                    JobEnd::Retry { .. } | JobEnd::Later { .. } | JobEnd::Released => (0.0, 0),
                };
                (verdict, Some(ended.reviewed.run.clone()), used)
            }
            Err(failure) if failure.kind == FailureKind::NothingToDo => {
                (AttemptVerdict::settled(TargetState::Unchanged, failure.message), None, (0.0, 0))
            }
            Err(failure) => {
                let trouble = match watched.environment.cancellation.cause() {
                    Some(Cause::Lost) => TargetError {
                        class: ErrorClass::Lost,
                        failure,
                        decision: RetryDecision::Lost,
                    },
                    Some(Cause::Drained | Cause::Withdrawn) => TargetError {
                        class: ErrorClass::Lost,
                        failure,
                        decision: RetryDecision::Released,
                    },
                    None => failure.into(),
                };
                let verdict = self.failed(&trouble).await?;
                // A run that is resumed counts when it ends.
                let used = match verdict.job_end {
                    JobEnd::Failed { .. } => campaign::used_by_unfinished(&world, &task),
                    JobEnd::Done
                    | JobEnd::Retry { .. }
                    | JobEnd::Later { .. }
                    | JobEnd::Released => (0.0, 0),
                };
                (verdict, None, used)
            }
        };
        self.record(verdict, run, used).await
    }

    /// Writes down what came of the attempt, all in one transaction. A trouble that every repository
    /// would have stops the campaign first, so that no other one is begun.
    async fn record(
        &self,
        verdict: AttemptVerdict,
        run: Option<String>,
        (cost_usd, tokens): (f64, i64),
    ) -> std::result::Result<(), StoreError> {
        let AttemptVerdict { state, class, reason, url, changeset, publish, job_end, .. } = verdict;
        let AttemptVerdict { pause, lost, kept, facts, .. } = verdict;
        let (store, lease) = (&self.fleet.store, &self.held.lease);
        if lost {
            return Err(StoreError::LeaseLost { job: self.held.job.id });
        }
        if let Some(why) = pause {
            // A worker that lost its lease must not pause a campaign that another one is working
            // on.
            store.remaining(lease).await?;
            drive::pause(self.fleet, &self.target.campaign, &why).await?;
        }
        // The reason is also published in the tracking issue, where a path of this machine should
        // not be.
        let folder = self.fleet.state.display().to_string();
        let reason = reason.map(|reason| self.fleet.redactor.redact(&reason));
        let reason = reason.map(|reason| reason.replace(&folder, "$PATCHWRIGHT_STATE_DIR"));
        let kept = kept.as_deref();
        let pull_request = self.target.pull_request.or(kept.and_then(|kept| kept.pull_request));
        let url = url.or_else(|| self.target.url.clone());
        let url = url.or_else(|| kept.and_then(|kept| kept.url.clone()));
        let writes = self.held.written();
        let end = TargetEnd {
            state,
            class,
            reason,
            run,
            cost_usd,
            tokens,
            pull_request,
            url,
            writes,
            facts,
        };
        let (changeset, publish) = (changeset.as_deref(), publish.as_ref());
        store.end_target(lease, self.target.id, &end, changeset, publish, &job_end).await?;
        if let Some(kept) = kept.filter(|kept| drive::is_open(kept)) {
            let why = "its pull request goes on with a newer run, which had nothing to add";
            store.observe_target(kept.id, TargetState::Superseded, Some(why), None).await?;
        }
        Ok(())
    }
}

/// What a change is called when neither the campaign nor the model has a title for it.
fn headline(campaign: &Campaign) -> String {
    let description = campaign.description.as_deref().unwrap_or_default();
    let first = description.lines().map(str::trim).find(|line| !line.is_empty());
    first.map_or_else(|| format!("Campaign {}", campaign.name), str::to_owned)
}

/// Sandboxes that wait for runs.
const WARM: usize = 2;
/// Between two looks for what killed processes have left: those of other machines and containers show only after a
/// while that they are gone.
const SWEEP: Duration = Duration::from_mins(5);

/// Removes what killed processes left.
async fn sweep(sandbox: &dyn Sandbox) {
    match sandbox.sweep(None).await {
        Ok(left) if left.is_empty() => {}
        Ok(left) => tracing::info!(?left, "leftovers of killed processes were removed"),
        Err(err) => tracing::debug!(%err, "the sweep failed"),
    }
}

/// Sweeps leftovers of the sandbox from time to time, until the end.
async fn sweep_on(sandbox: Arc<dyn Sandbox>, ending: CancellationToken) {
    loop {
        tokio::select! {
            () = ending.cancelled() => return,
            () = tokio::time::sleep(SWEEP) => sweep(sandbox.as_ref()).await,
        }
    }
}

/// What all runs of this process share; the sandbox is made once it is needed.
pub async fn shared(fleet: &Fleet, config: &Config) -> Result<Shared> {
    let sandbox = fleet.sandbox.get_or_try_init(|| async {
        let sandbox = world::sandbox(config, &fleet.env, &fleet.state, WARM).await?;
        sweep(sandbox.as_ref()).await;
        tokio::spawn(sweep_on(Arc::clone(&sandbox), fleet.drain.clone()));
        let kept = retention::KEPT.at_least(fleet.retention);
        let (state, drain) = (fleet.state.clone(), fleet.drain.clone());
        tokio::spawn(retention::keep_small(state, fleet.clock, kept, drain));
        Ok::<_, Failure>(sandbox)
    });
    Ok(Shared {
        sandbox: Arc::clone(sandbox.await?),
        clock: fleet.clock,
        redactor: Arc::clone(&fleet.redactor),
        setup_secrets: world::setup_secrets(&fleet.env)?,
        state: fleet.state.clone(),
        http: fleet.http.clone(),
    })
}

/// The surroundings of a run that ends when the lease is lost or the worker ends.
pub struct LeasedRun {
    pub environment: RunEnvironment,
    watcher: JoinHandle<()>,
}

impl LeasedRun {
    pub fn new(fleet: &Fleet, held: &HeldJob) -> LeasedRun {
        let (cancel, why) = (CancellationToken::new(), Cancellation::default());
        let (lost, drain) = (held.lost(), fleet.drain.clone());
        let (token, cause) = (cancel.clone(), why.clone());
        let watcher = tokio::spawn(async move {
            tokio::select! {
                // When both are true, the lost lease counts: it forbids all writes.
                biased;
                () = lost.cancelled() => cause.cancel(&token, Cause::Lost),
                () = drain.cancelled() => cause.cancel(&token, Cause::Drained),
            }
        });
        let ui = fleet.ui.among_many();
        let run_url = fleet.env.run_url();
        let environment = RunEnvironment {
            ui,
            watcher: None,
            out: None,
            run_url,
            cancel,
            cancellation: why,
            asked: None,
            claim: Claim::Lease,
        };
        LeasedRun { environment, watcher }
    }
}

impl Drop for LeasedRun {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}
