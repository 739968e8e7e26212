//! What a campaign would do with each repository, before it does it.

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::campaign::{Campaign, CampaignMode};
use super::decide::{PlanVerdict, decide, decide_pull, refused};
use super::fleet::Fleet;
use super::select::{Candidate, discover};
use super::{estimate, waves};
use crate::store::StoreError;
use patchwright_base::error::Result;
use patchwright_types::campaign::{CampaignView, NewTarget, Target};

pub use super::estimate::Estimate;

/// The largest matrix that GitHub Actions takes.
pub const MOST_SHARDS: usize = 256;

/// What a campaign is going to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Sorted by repository; also those that are skipped, with the reason, and those that are finished.
    pub targets: Vec<PlannedTarget>,
    pub estimate: Estimate,
}

/// One target of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedTarget {
    #[serde(flatten)]
    pub target: NewTarget,
    /// It is finished already and is not worked on again; says how it ended. It may be unknown to the
    /// store, so it is not to be added there.
    pub finished: Option<String>,
}

impl PlannedTarget {
    /// Something is left to do for it.
    pub fn is_work(&self) -> bool {
        self.target.skipped.is_none() && self.finished.is_none()
    }
}

impl Plan {
    /// The targets that are worked on.
    pub fn work(&self) -> impl Iterator<Item = &PlannedTarget> {
        self.targets.iter().filter(|planned| planned.is_work())
    }
}

/// Looks, and decides for each repository. Reads only.
///
/// # Errors
/// When nothing is selected, GitHub does not answer, or the store cannot be read.
pub async fn make(fleet: &Fleet, campaign: &Campaign) -> Result<Plan> {
    let candidates = discover(fleet, campaign).await?;
    let view = match fleet.store.view(&campaign.id()).await {
        Ok(view) => Some(view),
        Err(StoreError::NotFound(_)) => None,
        Err(err) => return Err(err.into()),
    };
    let mut targets = Vec::new();
    for candidate in &candidates {
        let history = if candidate.pull_requests.is_empty() {
            Vec::new()
        } else {
            fleet.store.history(&campaign.name, &candidate.repository).await?
        };
        let known = known_targets(view.as_ref(), &candidate.repository);
        targets.extend(planned(fleet, campaign, candidate, &known, &history));
    }
    assign_waves(campaign, &candidates, view.as_ref(), &mut targets);
    let estimate = estimate::estimate(fleet, campaign, view.as_ref(), &targets).await?;
    Ok(Plan { targets, estimate })
}

/// What the store has of a repository under this specification, by pull request.
fn known_targets<'a>(
    view: Option<&'a CampaignView>,
    repository: &str,
) -> BTreeMap<Option<i64>, &'a Target> {
    let targets = view.map(|view| view.targets.as_slice()).unwrap_or_default();
    let of_it = targets.iter().filter(|one| one.repository.eq_ignore_ascii_case(repository));
    of_it.map(|target| (target.number, target)).collect()
}

/// The targets of one repository: one, or one for each open pull request.
fn planned(
    fleet: &Fleet,
    campaign: &Campaign,
    candidate: &Candidate,
    known: &BTreeMap<Option<i64>, &Target>,
    history: &[Target],
) -> Vec<PlannedTarget> {
    let make = |number: Option<i64>, verdict: PlanVerdict| PlannedTarget {
        target: NewTarget {
            repository: candidate.repository.clone(),
            number,
            base_branch: candidate.base_branch.clone(),
            base_sha: verdict.base_sha,
            wave: 0,
            skipped: verdict.skipped,
        },
        finished: verdict.finished,
    };
    if campaign.mode != CampaignMode::Review {
        let previous = known.get(&None).copied();
        return vec![make(None, decide(campaign, candidate, previous, history))];
    }
    if let Some(why) = refused(campaign, candidate) {
        return vec![make(None, PlanVerdict::skip(why))];
    }
    if candidate.pull_requests.is_empty() {
        return vec![make(None, PlanVerdict::skip("no open pull request".to_owned()))];
    }
    let drafts = fleet.config.review.drafts;
    let pulls = candidate.pull_requests.iter().filter_map(|pull| {
        let number = i64::try_from(pull.number).ok()?;
        let previous = known.get(&Some(number)).copied();
        Some(make(Some(number), decide_pull(pull, drafts, previous)))
    });
    pulls.collect()
}

/// Waves go by the order of `select.repositories`, then by name; a repository that has a wave keeps it.
fn assign_waves(
    campaign: &Campaign,
    candidates: &[Candidate],
    view: Option<&CampaignView>,
    targets: &mut [PlannedTarget],
) {
    let listed: BTreeMap<&str, usize> = candidates
        .iter()
        .filter_map(|candidate| Some((candidate.repository.as_str(), candidate.listed?)))
        .collect();
    let place = |planned: &PlannedTarget| {
        let name = planned.target.repository.as_str();
        (listed.get(name).copied().unwrap_or(usize::MAX), name.to_lowercase())
    };
    let mut order: Vec<usize> = (0..targets.len()).collect();
    order.retain(|at| targets.get(*at).is_some_and(|one| one.target.skipped.is_none()));
    order.sort_by_cached_key(|at| targets.get(*at).map(place));
    let waves = waves::assign(campaign, order.len());
    for (at, wave) in order.into_iter().zip(waves) {
        let Some(planned) = targets.get_mut(at) else { continue };
        let known = known_targets(view, &planned.target.repository);
        let earlier = known.get(&planned.target.number).map(|target| target.wave);
        planned.target.wave = earlier.unwrap_or(wave);
    }
}

/// Which of `shards` parts a repository belongs to, counted from 1: by its name alone, so that it stays
/// where it is whatever else is selected.
pub fn shard_of(repository: &str, shards: usize) -> usize {
    let digest = Sha256::digest(repository.to_lowercase().as_bytes());
    let number = digest.iter().take(8).fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let shards = u64::try_from(shards.max(1)).unwrap_or(1);
    usize::try_from(number % shards).unwrap_or(0) + 1
}
