//! The store itself, in a file that is thrown away, with the simulation's clock: claims, leases, outages, the
//! pace of writes and the steps of the campaign are the product's own, down to the SQL.

use std::collections::BTreeMap;
use std::path::Path;

use super::options::Options;
use super::queue::{CampaignStatus, Capacity, ClaimedJob, JobVerdict, TargetVerdict};
use super::requests::WRITES_OF_A_PULL;
use crate::batch::campaign::Campaign;
use crate::batch::drive::{self, StepOutcome};
use crate::batch::outage::TIMES;
use crate::batch::waves::{self, WaveStep};
use crate::batch::{publish, target};
use crate::store::{OutageEffect, Store, StoreSize};
use patchwright_base::error::{Failure, Result, Service};
use patchwright_types::campaign::{
    CampaignRow, CampaignState, Changeset, JobEnd, JobKind, Lease, Millis, NewTarget, Target,
    TargetEnd, TargetState,
};
use patchwright_types::run_facts::RunFacts;

/// Nobody renews leases here, so they last for longer than any campaign.
const LEASE: Millis = 100 * 365 * 86_400_000;
/// Nobody is asked with it.
const TOKEN: &str = "simulated";

pub(super) struct RealQueue {
    store: Store,
    reserve: f64,
    campaign: Campaign,
    id: String,
    options: Options,
    pack: Vec<u8>,
    /// By place.
    targets: Vec<i64>,
    places: BTreeMap<i64, usize>,
}

impl RealQueue {
    /// A store with the campaign and its targets.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(super) async fn new(
        folder: &Path,
        campaign: &Campaign,
        row: &CampaignRow,
        options: &Options,
        (reserve, pack): (f64, usize),
    ) -> Result<RealQueue> {
        let store = Store::simulated(&folder.join("simulated.db"), options.start()).await?;
        store.put_campaign(row).await?;
        let waves = waves::assign(campaign, options.repositories);
        let new = |(place, wave): (usize, i64)| NewTarget {
            repository: options.name_of(place),
            repository_id: Some(format!("R_{place}")),
            number: None,
            base_branch: "main".to_owned(),
            base_sha: format!("{place:040x}"),
            wave,
            skipped: None,
        };
        let targets: Vec<NewTarget> = waves.into_iter().enumerate().map(new).collect();
        store.add_targets(&row.id, &targets).await?;
        let view = store.view(&row.id).await?;
        let mut ids = vec![0; options.repositories];
        let mut places = BTreeMap::new();
        for target in &view.targets {
            let place = target.base_sha.trim_start_matches('0');
            let place = usize::from_str_radix(place, 16).unwrap_or_default();
            places.insert(target.id, place);
            if let Some(id) = ids.get_mut(place) {
                *id = target.id;
            }
        }
        Ok(RealQueue {
            store,
            reserve,
            campaign: campaign.clone(),
            id: row.id.clone(),
            options: options.clone(),
            pack: vec![0x5a; pack],
            targets: ids,
            places,
        })
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// The name of a token in the store.
    pub(super) fn token(number: usize) -> String {
        format!("{TOKEN}-{number}")
    }

    pub(super) async fn size(&self) -> Result<StoreSize> {
        Ok(self.store().size().await?)
    }

    fn id_of(&self, place: usize) -> i64 {
        self.targets.get(place).copied().unwrap_or_default()
    }

    pub(super) async fn claim(&self, room: &Capacity) -> Result<Option<ClaimedJob>> {
        let mut kinds = Vec::new();
        // Which of the tokens is free is the lane's business.
        if room.publishers.contains(&true) {
            kinds.push(JobKind::Publish);
        }
        if room.runs {
            kinds.push(JobKind::Target);
        }
        let claimed = self.store().claim_of("worker", &kinds, Some(&self.id), LEASE).await?;
        let Some((job, lease)) = claimed else { return Ok(None) };
        let id: i64 = job.subject.parse().map_err(|_| {
            Failure::internal(format!("job {} is about no target: {}", job.id, job.subject))
        })?;
        let place = self.places.get(&id).copied().unwrap_or_default();
        let lane = match job.kind {
            JobKind::Publish => self.store().changeset(id).await?.map_or(0, |one| token_of(&one)),
            JobKind::Target | JobKind::Delivery => self.options.owner_of(place),
        };
        Ok(Some(ClaimedJob {
            target: place,
            kind: job.kind,
            lane,
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            lease: Some(lease),
        }))
    }

    pub(super) async fn next_due(&self) -> Result<Option<Millis>> {
        let store = self.store();
        let now = store.now().await?;
        let due = store.next_due(&[JobKind::Target, JobKind::Publish]).await?;
        // The lease of what runs ends in a hundred years, and is no news.
        let due = due.filter(|wait| *wait > 0 && *wait < LEASE / 2).map(|wait| now + wait);
        let outages = store.outages(Some(&self.id)).await?;
        let pauses = outages.iter().map(|outage| outage.until).filter(|until| *until > now);
        Ok(pauses.chain(due).min())
    }

    pub(super) async fn begin(&self, claimed: &ClaimedJob) -> Result<()> {
        let (lease, id) = (lease(claimed)?, self.id_of(claimed.target));
        let store = self.store();
        match claimed.kind {
            JobKind::Publish => store.begin_publishing(lease, id).await?,
            JobKind::Target | JobKind::Delivery => {
                let run = format!("simulated-{id}-{}", claimed.attempt);
                store.begin_target(lease, id, &run).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn end(
        &self,
        claimed: &ClaimedJob,
        verdict: &TargetVerdict,
        job: JobVerdict,
    ) -> Result<()> {
        let (lease, id) = (lease(claimed)?, self.id_of(claimed.target));
        let why = || "simulated".to_owned();
        let job_end = match job {
            JobVerdict::Done => JobEnd::Done,
            JobVerdict::Failed => JobEnd::Failed { why: why() },
            JobVerdict::Retry(after) => JobEnd::Retry { after, why: why() },
            JobVerdict::Later(after) => JobEnd::Later { after, why: why() },
        };
        let store = self.store();
        if claimed.kind == JobKind::Publish && verdict.state == TargetState::Ready {
            return Ok(store.end_job(lease, &job_end).await?);
        }
        let is_open = matches!(verdict.state, TargetState::Open | TargetState::Draft);
        let end = TargetEnd {
            state: verdict.state,
            class: verdict.class,
            reason: Some("a change as it could be, in some words".to_owned()),
            run: Some(format!("simulated-{id}-{}", claimed.attempt)),
            cost_usd: verdict.cost_usd,
            tokens: 100_000,
            pull_request: is_open.then_some(1),
            url: is_open.then(|| format!("https://github.com/{}/pull/1", self.name(claimed))),
            writes: if is_open { i64::from(WRITES_OF_A_PULL) } else { 0 },
            facts: RunFacts::default(),
        };
        let is_change = matches!(verdict.state, TargetState::Ready | TargetState::Held);
        let change = (is_change && claimed.kind == JobKind::Target)
            .then(|| self.changeset(claimed, verdict.token));
        let publish = match &change {
            Some(_) if verdict.state == TargetState::Ready => {
                let target = store.target(id).await?;
                Some(publish::job_for(&RealQueue::token(verdict.token), &target))
            }
            _ => None,
        };
        store.end_target(lease, id, &end, change.as_ref(), publish.as_ref(), &job_end).await?;
        Ok(())
    }

    fn name(&self, claimed: &ClaimedJob) -> String {
        self.options.name_of(claimed.target)
    }

    fn changeset(&self, claimed: &ClaimedJob, token: usize) -> Changeset {
        let hash = |what: usize| format!("{what:040x}");
        Changeset {
            target: self.id_of(claimed.target),
            repository: self.name(claimed),
            base_branch: "main".to_owned(),
            base_sha: hash(claimed.target),
            branch: self.campaign.branch(),
            commit: hash(claimed.target + 1),
            tree: hash(claimed.target + 2),
            pack: self.pack.clone(),
            title: "a change as it could be".to_owned(),
            body: "x".repeat(1_000),
            marker: format!("token:{token}"),
            draft: false,
            labels: self.campaign.publish.labels.clone(),
            reviewers: self.campaign.publish.reviewers.clone(),
            change_id: hash(claimed.target + 3),
            files: 3,
            lines_added: 20,
            lines_removed: 10,
        }
    }

    pub(super) async fn merged(&self, target: usize) -> Result<()> {
        let id = self.id_of(target);
        self.store().observe_target(id, TargetState::Merged, None, None).await?;
        Ok(())
    }

    pub(super) async fn cut_off(
        &self,
        claimed: &ClaimedJob,
        service: Service,
    ) -> Result<OutageEffect> {
        let why = "it does not answer";
        Ok(self.store().cut_off(lease(claimed)?, service, None, why, TIMES).await?)
    }

    pub(super) async fn works(&self, service: Service) -> Result<()> {
        self.store().works_again(service, Some(&self.id)).await?;
        Ok(())
    }

    /// As [`drive::advance`], which says on stderr what it does.
    pub(super) async fn advance(&self) -> Result<StepOutcome> {
        let store = self.store();
        let mut going = StepOutcome::Going;
        for _ in 0..100 {
            let view = store.view(&self.id).await?;
            if view.campaign.state != CampaignState::Running {
                return Ok(going);
            }
            if let Some(why) = drive::no_room(self.reserve, &view) {
                if view.targets.iter().any(drive::is_being_published) {
                    return Ok(StepOutcome::Waits(why));
                }
                return self.pause(&why).await;
            }
            match waves::next(&self.campaign, &view) {
                WaveStep::Open(wave) => {
                    let job_of =
                        |target: &Target| target::job_for(self.reserve, &self.campaign, target);
                    store.open_wave(&self.id, wave, &job_of).await?;
                    going = StepOutcome::Going;
                }
                WaveStep::Wait(why) => return Ok(StepOutcome::Waits(why)),
                WaveStep::Pause(why) => return self.pause(&why).await,
                WaveStep::Done => {
                    store.set_campaign_state(&self.id, CampaignState::Done, None).await?;
                    return Ok(StepOutcome::Done);
                }
            }
        }
        Ok(going)
    }

    async fn pause(&self, why: &str) -> Result<StepOutcome> {
        self.store.set_campaign_state(&self.id, CampaignState::Paused, Some(why)).await?;
        Ok(StepOutcome::Paused)
    }

    pub(super) async fn status(&self) -> Result<CampaignStatus> {
        let view = self.store().view(&self.id).await?;
        let mut states = BTreeMap::new();
        for target in &view.targets {
            *states.entry(target.state).or_default() += 1;
        }
        let row = view.campaign;
        Ok(CampaignStatus {
            state: row.state,
            reason: row.reason,
            spent_usd: row.spent_usd,
            states,
        })
    }
}

fn lease(claimed: &ClaimedJob) -> Result<&Lease> {
    claimed.lease.as_ref().ok_or_else(|| Failure::internal("a claim without a lease"))
}

fn token_of(changeset: &Changeset) -> usize {
    let number = changeset.marker.strip_prefix("token:");
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
}
