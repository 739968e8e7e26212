//! What a campaign would do with each repository, before it does it.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};

use super::campaign::{Campaign, CampaignMode};
use super::continued;
use super::decide::{self, PlanVerdict, decide, decide_pull, refused};
use super::fitting;
use super::fleet::Fleet;
use super::planned::TextInterner;
use super::select::{Candidate, Discovery};
use super::{estimate, waves};
use crate::store::{SeenRepository, StoreError};
use patchwright_base::error::Result;
use patchwright_forge::github::PullFacts;
use patchwright_types::campaign::{CampaignView, Millis, Target};

pub use super::estimate::Estimate;
pub use super::planned::{Decision, PlannedTarget};

/// The largest matrix that GitHub Actions takes.
pub const MOST_SHARDS: usize = 256;
/// The wave of a target that has none yet.
const NO_WAVE: i64 = -1;

/// What a campaign is going to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Sorted by repository; also those that are skipped, with the reason, and those that are finished.
    pub targets: Vec<PlannedTarget>,
    pub estimate: Estimate,
    /// What the store has to learn about repositories that it knows: their ids, or other names.
    pub seen: Vec<SeenRepository>,
    /// Open pull requests that are left as they are although their base branches have moved.
    pub fitting: Vec<FittingPull>,
}

/// An open pull request that fits where its base branch is by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittingPull {
    /// Where the store has it.
    pub target: Option<i64>,
    pub repository: String,
    pub number: u64,
    /// Where the base branch is.
    pub base_sha: String,
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
    let begun = fleet.store.now().await?;
    let mut discovery = Discovery::begin(fleet, campaign).await?;
    let mut planner = Planner::new(fleet, campaign);
    while let Some(part) = discovery.next().await? {
        for (candidate, known) in planner.with_known(part).await? {
            planner.plan(candidate, &known).await?;
        }
    }
    drop(discovery);
    let view = match fleet.store.view(&campaign.id()).await {
        Ok(view) => Some(view),
        Err(StoreError::NotFound(_)) => None,
        Err(err) => return Err(err.into()),
    };
    let fitting = std::mem::take(&mut planner.fitting);
    let (mut targets, seen) = planner.finish(view.as_ref(), begun);
    assign_waves(campaign, &mut targets);
    let estimate = estimate::estimate(fleet, campaign, view.as_ref(), &targets).await?;
    Ok(Plan { targets, estimate, seen, fitting })
}

impl FittingPull {
    fn of(candidate: &Candidate, known: Option<&Target>) -> Option<FittingPull> {
        let pull = candidate.pull_requests.iter().find(|pull| pull.open)?;
        Some(FittingPull {
            target: known.map(|target| target.id),
            repository: candidate.repository.clone(),
            number: pull.number,
            base_sha: candidate.base_sha.clone()?,
        })
    }
}

/// Decides about each repository as it is found: of a hundred thousand, only the targets are kept.
struct Planner<'a> {
    fleet: &'a Fleet,
    campaign: &'a Campaign,
    targets: Vec<PlannedTarget>,
    seen: Vec<SeenRepository>,
    fitting: Vec<FittingPull>,
    texts: TextInterner,
}

impl<'a> Planner<'a> {
    fn new(fleet: &'a Fleet, campaign: &'a Campaign) -> Planner<'a> {
        let (targets, seen, fitting) = (Vec::new(), Vec::new(), Vec::new());
        Planner { fleet, campaign, targets, seen, fitting, texts: TextInterner::default() }
    }

    /// Repositories with what the store has of them.
    async fn with_known(&mut self, part: Vec<Candidate>) -> Result<Vec<(Candidate, OfRepository)>> {
        let identities = part.iter().flat_map(|candidate| {
            let names = [&candidate.asked, &candidate.repository].map(|name| name.to_lowercase());
            names.into_iter().chain(candidate.id.clone())
        });
        let identities: Vec<String> = identities.collect();
        let all = self.fleet.store.targets_of(&self.campaign.id(), &identities).await?;
        let known = KnownTargets::of(&all);
        let seen = &mut self.seen;
        let with = |mut candidate: Candidate| {
            if candidate.trouble.is_some() {
                // It was read before.
                candidate.id = candidate.id.take().or_else(|| known.id_of(&candidate));
            } else if known.has_nameless(&candidate) {
                seen.extend(seen_as(&candidate));
            }
            let known = known.of_repository(&candidate);
            (candidate, known)
        };
        Ok(part.into_iter().map(with).collect())
    }

    async fn plan(&mut self, mut candidate: Candidate, known: &OfRepository) -> Result<()> {
        let Planner { fleet, campaign, .. } = *self;
        let history = if candidate.pull_requests.is_empty() {
            Vec::new()
        } else {
            let Candidate { repository, id, .. } = &candidate;
            fleet.store.history(&campaign.name, repository, id.as_deref()).await?
        };
        let target = known.get(&None);
        candidate.fits = fitting::fits(fleet, campaign, &candidate, target, &history).await?;
        let candidate = &candidate;
        self.seen.extend(news(candidate, known, &history));
        let drafts = fleet.config.review.drafts;
        for (pull, verdict) in verdicts(campaign, drafts, candidate, known, &history) {
            let mut target = PlannedTarget::new(candidate, pull, &verdict, &mut self.texts);
            target.wave = known.get(&target.number).map_or(NO_WAVE, |target| target.wave);
            if candidate.fits && target.finished().is_some() {
                self.fitting.extend(FittingPull::of(candidate, known.get(&None)));
            }
            self.targets.push(target);
        }
        Ok(())
    }

    /// The targets by name. Looking at many repositories takes an hour, and workers do not wait for it: what they have
    /// changed since `begun` counts as it is now.
    fn finish(
        mut self,
        view: Option<&CampaignView>,
        begun: Millis,
    ) -> (Vec<PlannedTarget>, Vec<SeenRepository>) {
        let all = view.map(|view| view.targets.as_slice()).unwrap_or_default();
        let changed: HashMap<(String, Option<i64>), &Target> = all
            .iter()
            .filter(|target| target.updated_at >= begun)
            .map(|target| ((target.identity(), target.number), target))
            .collect();
        if !changed.is_empty() {
            for planned in &mut self.targets {
                let name = planned.repository.to_ascii_lowercase();
                let keys = [planned.repository_id.as_deref().map(str::to_owned), Some(name)];
                let mut keys = keys.into_iter().flatten().map(|key| (key, planned.number));
                let Some(target) = keys.find_map(|key| changed.get(&key)) else { continue };
                planned.wave = target.wave;
                if let Some(verdict) = decided_since(self.campaign, planned, target) {
                    planned.decide(&verdict, &mut self.texts);
                }
            }
        }
        // In place: a second list of so many would be as large again.
        self.targets.sort_unstable_by(|a, b| {
            let names = lower(&a.repository).cmp(lower(&b.repository));
            names.then_with(|| a.place.pull.cmp(&b.place.pull))
        });
        self.targets.shrink_to_fit();
        (self.targets, self.seen)
    }
}

fn lower(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().map(|byte| byte.to_ascii_lowercase())
}

/// What the store says now of a target that somebody has changed since it was planned, when that decides.
fn decided_since(
    campaign: &Campaign,
    planned: &PlannedTarget,
    target: &Target,
) -> Option<PlanVerdict> {
    let tip = Some(planned.base_sha.to_string()).filter(|tip| !tip.is_empty());
    if campaign.mode != CampaignMode::Review {
        return decide::settled(campaign, target, tip.as_deref());
    }
    let pull = PullFacts { head_sha: tip?, open: true, ..PullFacts::default() };
    Some(decide_pull(&pull, true, Some(target)))
}

/// What the store has of some repositories under this specification.
struct KnownTargets<'a> {
    by_id: HashMap<&'a str, Vec<&'a Target>>,
    /// Targets whose repository has no known id, by its name in lower case.
    by_name: HashMap<String, Vec<&'a Target>>,
    /// Of those with an id the newest, by the name in lower case that its repository had last.
    named: HashMap<String, &'a Target>,
}

/// The targets of one repository, by pull request.
type OfRepository = BTreeMap<Option<i64>, Target>;

impl<'a> KnownTargets<'a> {
    /// Sorts these targets, the newest last.
    fn of(targets: &'a [Target]) -> KnownTargets<'a> {
        let (by_id, by_name, named) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut known = KnownTargets { by_id, by_name, named };
        for target in targets {
            let name = target.repository.to_lowercase();
            if let Some(id) = &target.repository_id {
                known.by_id.entry(id).or_default().push(target);
                let newest = known.named.entry(name).or_insert(target);
                if target.id > newest.id {
                    *newest = target;
                }
            } else {
                known.by_name.entry(name).or_default().push(target);
            }
        }
        known
    }

    /// What a repository is that could not be read. Its name is all that there is to go by, and of two that had it
    /// the later one is meant.
    fn id_of(&self, candidate: &Candidate) -> Option<String> {
        let names = [&candidate.repository, &candidate.asked].map(|name| name.to_lowercase());
        names.iter().find_map(|name| self.named.get(name)?.repository_id.clone())
    }

    /// There are targets of this name that no id is known of.
    fn has_nameless(&self, candidate: &Candidate) -> bool {
        let names = [&candidate.repository, &candidate.asked].map(|name| name.to_lowercase());
        names.iter().any(|name| self.by_name.contains_key(name))
    }

    /// A repository is what its id says. A name, also one that it had before, only leads to rows that have
    /// no id: another repository may have taken it over.
    fn of_repository(&self, candidate: &Candidate) -> OfRepository {
        let names = [&candidate.asked, &candidate.repository].map(|name| name.to_lowercase());
        let by_name = names.iter().filter_map(|name| self.by_name.get(name));
        let by_id = candidate.id.as_deref().and_then(|id| self.by_id.get(id));
        by_name.chain(by_id).flatten().map(|target| (target.number, (*target).clone())).collect()
    }
}

/// What the store does not know yet of a repository that it has targets of.
fn news(candidate: &Candidate, known: &OfRepository, history: &[Target]) -> Option<SeenRepository> {
    let is_new = |target: &Target| {
        target.repository_id.is_none() || target.repository != candidate.repository
    };
    let any = known.values().any(is_new) || history.iter().any(is_new);
    // What it is called is not known of one that could not be read.
    if any && candidate.trouble.is_none() { seen_as(candidate) } else { None }
}

fn seen_as(candidate: &Candidate) -> Option<SeenRepository> {
    let Candidate { id, repository, asked, .. } = candidate;
    let (name, asked) = (repository.clone(), asked.clone());
    id.clone().map(|id| SeenRepository { id, name, asked })
}

/// What is done with one repository, or with each of its open pull requests: the number of one, and its place.
fn verdicts(
    campaign: &Campaign,
    drafts: bool,
    candidate: &Candidate,
    known: &OfRepository,
    history: &[Target],
) -> Vec<(Option<(i64, usize)>, PlanVerdict)> {
    if campaign.mode != CampaignMode::Review {
        let known = known.get(&None);
        let verdict = continued::verdict(campaign, candidate, known, history)
            .unwrap_or_else(|| decide(campaign, candidate, known, history));
        return vec![(None, verdict)];
    }
    if let Some(trouble) = &candidate.trouble {
        return unread_pulls(trouble, known);
    }
    if let Some(why) = refused(campaign, candidate) {
        return vec![(None, PlanVerdict::skip(why))];
    }
    if candidate.pull_requests.is_empty() {
        return vec![(None, PlanVerdict::skip("no open pull request".to_owned()))];
    }
    let pulls = candidate.pull_requests.iter().enumerate().filter_map(|(place, pull)| {
        let number = i64::try_from(pull.number).ok()?;
        let verdict = decide_pull(pull, drafts, known.get(&Some(number)));
        Some((Some((number, place)), verdict))
    });
    pulls.collect()
}

/// Of a repository that cannot be read now, what is known of its pull requests stays.
fn unread_pulls(trouble: &str, known: &OfRepository) -> Vec<(Option<(i64, usize)>, PlanVerdict)> {
    let pulls: Vec<_> = known
        .values()
        .filter_map(|target| Some((target.number?, target)))
        .enumerate()
        .map(|(place, (number, target))| {
            (Some((number, place)), decide::as_it_was(target, trouble))
        })
        .collect();
    if pulls.is_empty() { vec![(None, PlanVerdict::unread(trouble.to_owned()))] } else { pulls }
}

/// Waves go by the order of `select.repositories`, then by name; a target that has a wave keeps it. `targets` are sorted
/// by name.
fn assign_waves(campaign: &Campaign, targets: &mut [PlannedTarget]) {
    let mut all: Vec<&mut PlannedTarget> = Vec::new();
    for planned in targets {
        match planned.decision {
            Decision::Skipped(_) | Decision::Unread(_) => planned.wave = 0,
            Decision::Work | Decision::Finished(_) => all.push(planned),
        }
    }
    // Stable: what is not listed stays in the order of names.
    all.sort_by_key(|planned| planned.place.listed);
    let waves = waves::assign(campaign, all.len());
    for (planned, wave) in all.into_iter().zip(waves) {
        if planned.wave == NO_WAVE {
            planned.wave = wave;
        }
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
    use patchwright_types::campaign::TargetState;
    use patchwright_types::run_facts::RunFacts;

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
            fits_sha: None,
            facts: RunFacts::default(),
        }
    }

    #[test]
    fn a_repository_is_known_by_its_id_and_only_without_one_by_its_name() {
        let id = |number: i64| Some(format!("R_{number}"));
        let targets =
            vec![target(id(1), "a/one", 1), target(None, "a/Two", 2), target(id(3), "a/three", 3)];
        let known = KnownTargets::of(&targets);
        let found = |candidate: &Candidate| {
            known.of_repository(candidate).values().map(|target| target.wave).collect::<Vec<_>>()
        };
        assert_eq!(found(&candidate(id(1), "a/renamed")), [1]);
        assert_eq!(found(&candidate(id(2), "a/two")), [2], "it has no id yet");
        let redirected = Candidate { asked: "a/two".to_owned(), ..candidate(id(2), "b/two") };
        assert_eq!(found(&redirected), [2]);
        assert_eq!(found(&candidate(id(9), "a/three")), Vec::<i64>::new(), "it took over the name");
        // One that cannot be read has a name only.
        let taken = [target(id(8), "a/Three", 8), target(id(3), "a/three", 3)];
        let known = KnownTargets::of(&taken);
        assert_eq!(known.id_of(&candidate(None, "A/three")), id(8), "the later one");
        assert_eq!(known.id_of(&candidate(None, "a/four")), None);
    }

    fn campaign() -> Campaign {
        let text = "name: x\nselect: {repositories: [a/b]}\ntask: {prompt: y}\n";
        parse("c.yml", text, None).unwrap()
    }

    fn planned(candidate: &Candidate) -> PlannedTarget {
        let verdict = PlanVerdict { base_sha: "b".repeat(40), ..PlanVerdict::default() };
        let wave = NO_WAVE;
        PlannedTarget {
            wave,
            ..PlannedTarget::new(candidate, None, &verdict, &mut TextInterner::default())
        }
    }

    #[test]
    fn listed_repositories_come_first_and_a_target_keeps_the_wave_that_it_has() {
        let mut campaign = campaign();
        campaign.waves = parse(
            "c.yml",
            "name: x\nselect: {repositories: [a/b]}\ntask: {prompt: y}\nwaves: [{size: 2}, {size: 4}]\n",
            None,
        )
        .unwrap()
        .waves;
        let mut targets: Vec<PlannedTarget> = ["a/1", "a/2", "a/3", "a/4", "a/5", "a/6"]
            .map(|name| planned(&candidate(None, name)))
            .into();
        targets[4].place.listed = 0;
        targets[1].wave = 7;
        targets[2].decision = Decision::Skipped("it is archived".into());
        assign_waves(&campaign, &mut targets);
        let waves: Vec<i64> = targets.iter().map(|planned| planned.wave).collect();
        assert_eq!(waves, [0, 7, 0, 1, 0, 2]);
    }

    #[test]
    fn what_workers_did_while_repositories_were_looked_at_counts() {
        let campaign = campaign();
        let id = |number: i64| Some(format!("R_{number}"));
        let new = planned(&candidate(id(1), "a/one"));
        for (state, sha, expected) in [
            (TargetState::Running, "a", ("a", None)),
            (TargetState::Open, "a", ("a", Some("its pull request is open"))),
            (TargetState::Failed, "a", ("b", None)),
            (TargetState::Queued, "a", ("b", None)),
        ] {
            let known = Target { state, base_sha: sha.repeat(40), ..target(id(1), "a/one", 0) };
            let verdict = decided_since(&campaign, &new, &known);
            let mut now = new.clone();
            if let Some(verdict) = verdict {
                now.decide(&verdict, &mut TextInterner::default());
            }
            let (sha, finished) = expected;
            let told = (now.base_sha.to_string(), now.finished());
            assert_eq!(told, (sha.repeat(40), finished), "{state:?}");
        }
    }
}
