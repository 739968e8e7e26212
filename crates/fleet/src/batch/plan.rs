//! What a campaign would do with each repository, before it does it.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::campaign::{Campaign, CampaignMode};
use super::decide::{PlanVerdict, decide, decide_pull, refused};
use super::fleet::Fleet;
use super::select::{Candidate, discover};
use super::{estimate, waves};
use crate::store::{SeenRepository, StoreError};
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
    /// What the store has to learn about repositories that it knows: their ids, or other names.
    #[serde(skip)]
    pub seen: Vec<SeenRepository>,
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
    let known = KnownTargets::of(view.as_ref());
    let mut targets = Vec::new();
    let mut places = Vec::new();
    let mut seen = Vec::new();
    // Each is given up as soon as its targets are made: of a hundred thousand, only these are kept.
    for candidate in candidates {
        let history = if candidate.pull_requests.is_empty() {
            Vec::new()
        } else {
            let Candidate { repository, id, .. } = &candidate;
            fleet.store.history(&campaign.name, repository, id.as_deref()).await?
        };
        let known = known.of_repository(&candidate);
        seen.extend(news(&candidate, &known, &history));
        let made = planned(fleet, campaign, &candidate, &known, &history);
        places.extend(made.iter().map(|one| WavePlace::of(&candidate, one, &known)));
        targets.extend(made);
    }
    assign_waves(campaign, &places, &mut targets);
    let estimate = estimate::estimate(fleet, campaign, view.as_ref(), &targets).await?;
    Ok(Plan { targets, estimate, seen })
}

/// What the store has under this specification, found without a look at the rest of it.
struct KnownTargets<'a> {
    by_id: HashMap<&'a str, Vec<&'a Target>>,
    /// Of those that no id is known of, by their names in lower case.
    by_name: HashMap<String, Vec<&'a Target>>,
}

/// The targets of one repository, by pull request.
type OfRepository<'a> = BTreeMap<Option<i64>, &'a Target>;

impl<'a> KnownTargets<'a> {
    fn of(view: Option<&'a CampaignView>) -> KnownTargets<'a> {
        let mut known = KnownTargets { by_id: HashMap::new(), by_name: HashMap::new() };
        for target in view.map(|view| view.targets.as_slice()).unwrap_or_default() {
            if let Some(id) = &target.repository_id {
                known.by_id.entry(id).or_default().push(target);
            } else {
                let name = target.repository.to_lowercase();
                known.by_name.entry(name).or_default().push(target);
            }
        }
        known
    }

    /// A repository is what its id says. A name, also one that it had before, only leads to rows that have
    /// no id: another repository may have taken it over.
    fn of_repository(&self, candidate: &Candidate) -> OfRepository<'a> {
        let names = [&candidate.asked, &candidate.repository].map(|name| name.to_lowercase());
        let by_name = names.iter().filter_map(|name| self.by_name.get(name));
        let by_id = candidate.id.as_deref().and_then(|id| self.by_id.get(id));
        by_name.chain(by_id).flatten().map(|target| (target.number, *target)).collect()
    }
}

/// What the store does not know yet of a repository that it has targets of.
fn news(
    candidate: &Candidate,
    known: &OfRepository<'_>,
    history: &[Target],
) -> Option<SeenRepository> {
    let id = candidate.id.as_ref()?;
    let is_new = |target: &Target| {
        target.repository_id.is_none() || target.repository != candidate.repository
    };
    let any = known.values().any(|target| is_new(target)) || history.iter().any(is_new);
    any.then(|| SeenRepository {
        id: id.clone(),
        name: candidate.repository.clone(),
        asked: candidate.asked.clone(),
    })
}

/// The targets of one repository: one, or one for each open pull request.
fn planned(
    fleet: &Fleet,
    campaign: &Campaign,
    candidate: &Candidate,
    known: &OfRepository<'_>,
    history: &[Target],
) -> Vec<PlannedTarget> {
    let make = |number: Option<i64>, verdict: PlanVerdict| PlannedTarget {
        target: NewTarget {
            repository: candidate.repository.clone(),
            repository_id: candidate.id.clone(),
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

/// What decides about the wave of a target.
struct WavePlace {
    /// Its repository's place in `select.repositories`.
    listed: Option<usize>,
    /// The wave that it has already.
    earlier: Option<i64>,
}

impl WavePlace {
    fn of(candidate: &Candidate, planned: &PlannedTarget, known: &OfRepository<'_>) -> WavePlace {
        let earlier = known.get(&planned.target.number).map(|target| target.wave);
        WavePlace { listed: candidate.listed, earlier }
    }
}

/// Waves go by the order of `select.repositories`, then by name; a target that has a wave keeps it. `places` has one
/// for each of `targets`, which are sorted by name.
fn assign_waves(campaign: &Campaign, places: &[WavePlace], targets: &mut [PlannedTarget]) {
    let mut all: Vec<(&WavePlace, &mut PlannedTarget)> = places.iter().zip(targets).collect();
    all.retain(|(_, planned)| planned.target.skipped.is_none());
    // Stable: what is not listed stays in the order of names.
    all.sort_by_key(|(place, _)| place.listed.unwrap_or(usize::MAX));
    let waves = waves::assign(campaign, all.len());
    for ((place, planned), wave) in all.into_iter().zip(waves) {
        planned.target.wave = place.earlier.unwrap_or(wave);
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

#[cfg(test)]
mod tests {
    use crate::batch::campaign::parse;
    use crate::batch::plan::*;
    use crate::batch::select::Candidate;
    use patchwright_types::campaign::{CampaignRow, TargetState};

    fn candidate(id: Option<String>, name: &str) -> Candidate {
        let name = name.to_owned();
        Candidate { repository: name.clone(), asked: name, id, ..Candidate::default() }
    }

    fn target(id: Option<String>, name: &str, wave: i64) -> Target {
        Target {
            id: wave,
            campaign: "x".to_owned(),
            repository: name.to_owned(),
            repository_id: id,
            number: None,
            base_branch: "main".to_owned(),
            base_sha: "a".repeat(40),
            wave,
            state: TargetState::Open,
            class: None,
            reason: None,
            run: None,
            attempts: 1,
            cost_usd: 0.0,
            tokens: 0,
            pull_request: None,
            url: None,
            created_at: 0,
            updated_at: 0,
            started_at: None,
            ended_at: None,
            publishing_at: None,
            published_at: None,
            closed_at: None,
            writes: 0,
            closing_at: None,
        }
    }

    fn view(targets: Vec<Target>) -> CampaignView {
        let row = CampaignRow::started("x".into(), "x".into(), String::new(), String::new());
        CampaignView { campaign: row, targets, outages: Vec::new(), now: 0 }
    }

    #[test]
    fn a_repository_is_known_by_its_id_and_only_without_one_by_its_name() {
        let id = |number: i64| Some(format!("R_{number}"));
        let targets =
            vec![target(id(1), "a/one", 1), target(None, "a/Two", 2), target(id(3), "a/three", 3)];
        let view = view(targets);
        let known = KnownTargets::of(Some(&view));
        let found = |candidate: &Candidate| {
            known.of_repository(candidate).values().map(|target| target.wave).collect::<Vec<_>>()
        };
        assert_eq!(found(&candidate(id(1), "a/renamed")), [1]);
        assert_eq!(found(&candidate(id(2), "a/two")), [2], "it has no id yet");
        let redirected = Candidate { asked: "a/two".to_owned(), ..candidate(id(2), "b/two") };
        assert_eq!(found(&redirected), [2]);
        assert_eq!(found(&candidate(id(9), "a/three")), Vec::<i64>::new(), "it took over the name");
    }

    #[test]
    fn ten_thousand_known_repositories_keep_their_waves() {
        const ALL: i64 = 10_000;
        let name = |number: i64| format!("acme/app-{number}");
        let id = |number: i64| Some(format!("R_{number}"));
        let view = view((0..ALL).map(|at| target(id(at), &name(at), at % 7)).collect());
        let candidates: Vec<Candidate> = (0..ALL).map(|at| candidate(id(at), &name(at))).collect();
        let text = "name: x\nselect: {repositories: [a/b]}\ntask: {prompt: y}\n";
        let campaign = parse("c.yml", text, None).unwrap();
        let known = KnownTargets::of(Some(&view));
        let (mut targets, places): (Vec<PlannedTarget>, Vec<WavePlace>) = candidates
            .iter()
            .map(|candidate| {
                let of_it = known.of_repository(candidate);
                assert_eq!(news(candidate, &of_it, &[]), None);
                let new = NewTarget {
                    repository: candidate.repository.clone(),
                    repository_id: candidate.id.clone(),
                    number: None,
                    base_branch: String::new(),
                    base_sha: String::new(),
                    wave: 0,
                    skipped: None,
                };
                let planned = PlannedTarget { target: new, finished: None };
                let place = WavePlace::of(candidate, &planned, &of_it);
                (planned, place)
            })
            .unzip();
        assign_waves(&campaign, &places, &mut targets);
        assert!(targets.iter().zip(0..).all(|(planned, at)| planned.target.wave == at % 7));
    }
}
