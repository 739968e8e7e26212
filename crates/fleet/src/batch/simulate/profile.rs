//! What runs are like: how long they take, what they cost, and what becomes of them. From a campaign that was
//! run, else from figures that are written down here and in `docs/scale.md`.
//!
//! Length, cost and fate of a measured run are drawn together, as they were measured: long runs are the dear
//! ones, and the ones that fail.

use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use crate::store::{Store, StoreResult};
use patchwright_types::campaign::{ErrorClass, Millis, TargetState};
use patchwright_types::dollars;

/// State changes that are read at a time.
const CHANGES: i64 = 5_000;
/// Fewer ended runs say too little.
pub const ENOUGH: usize = 10;

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    Changed,
    Unchanged,
    /// For a reason that another attempt does not mend.
    Failed(ErrorClass),
    /// For a reason that may pass.
    Passing(ErrorClass),
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledRun {
    pub length: Millis,
    pub cost_usd: f64,
    pub fate: RunEnd,
}

/// Figures for runs nobody has measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AssumedProfile {
    /// Half of the runs are shorter, in milliseconds; one of ten takes longer than three times that.
    pub median: Millis,
    /// Cost of the run of median length; a run costs in proportion to its length.
    #[serde(serialize_with = "dollars::rounded")]
    pub cost_usd: f64,
    /// Share of all attempts that fail.
    pub failing: f64,
    pub passing: f64,
    /// Share of the runs that do not fail and change nothing.
    pub unchanged: f64,
}

impl Default for AssumedProfile {
    fn default() -> AssumedProfile {
        AssumedProfile {
            median: 6 * 60_000,
            cost_usd: 0.40,
            failing: 0.05,
            passing: 0.02,
            unchanged: 0.08,
        }
    }
}

/// What runs are like.
#[derive(Clone, Debug, PartialEq)]
pub enum Profile {
    Measured {
        /// The campaign that they are of.
        of: String,
        runs: Vec<SampledRun>,
        /// Bytes of the pack of a change.
        pack: usize,
    },
    Assumed(AssumedProfile),
}

/// Bytes of the pack of a change of a few files.
const PACK: usize = 2_000;
/// The logarithm of a run's length has this deviation: the 90th percentile is three times the median.
const SPREAD: f64 = 0.857;

impl Profile {
    /// The profile of the runs of a campaign that have ended, when there are enough of them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn measured(store: &Store, campaign: &str) -> StoreResult<Option<Profile>> {
        let view = store.view(campaign).await?;
        let mut lengths = lengths(store, campaign).await?;
        let mut runs = Vec::new();
        let mut passing = 0;
        for target in &view.targets {
            let Some(length) = lengths.remove(&target.id) else { continue };
            let Some(fate) = fate(target.state, target.class) else { continue };
            if target.tokens == 0 && target.cost_usd == 0.0 && fate != RunEnd::Unchanged {
                // Nothing was asked of the model: it says nothing about runs.
                continue;
            }
            // What was paid for earlier attempts is in the sum, as their time is not.
            runs.push(SampledRun { length, cost_usd: target.cost_usd.max(0.0), fate });
            passing += target.attempts.saturating_sub(1).max(0);
        }
        if runs.len() < ENOUGH {
            return Ok(None);
        }
        for number in 0..passing {
            let at = usize::try_from(number).unwrap_or_default() % runs.len();
            let Some(like) = runs.get(at).copied() else { break };
            let fate = RunEnd::Passing(ErrorClass::Sandbox);
            runs.push(SampledRun { fate, cost_usd: 0.0, length: like.length / 2 });
        }
        let pack = store.average_pack(campaign).await?;
        let pack = usize::try_from(pack).ok().filter(|bytes| *bytes > 0).unwrap_or(PACK);
        Ok(Some(Profile::Measured { of: campaign.to_owned(), runs, pack }))
    }

    /// The run of a target's attempt: the same whatever else happens.
    pub(super) fn draw(&self, seed: u64, target: usize, attempt: i64) -> SampledRun {
        let own = (target as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ attempt.unsigned_abs();
        let mut random = StdRng::seed_from_u64(seed ^ own.rotate_left(17));
        match self {
            Profile::Measured { runs, .. } => {
                let at = random.random_range(0..runs.len().max(1));
                runs.get(at).copied().unwrap_or(SampledRun {
                    length: 1_000,
                    cost_usd: 0.0,
                    fate: RunEnd::Unchanged,
                })
            }
            Profile::Assumed(assumed) => assumed.draw(&mut random),
        }
    }

    pub(super) fn pack(&self) -> usize {
        match self {
            Profile::Measured { pack, .. } => *pack,
            Profile::Assumed(_) => PACK,
        }
    }
}

impl AssumedProfile {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a time of hours"
    )]
    fn draw(&self, random: &mut StdRng) -> SampledRun {
        let factor = (SPREAD * normal(random)).exp().clamp(0.02, 50.0);
        let length = (self.median as f64 * factor) as Millis;
        let chance: f64 = random.random_range(0.0..1.0);
        let fate = if chance < self.failing {
            RunEnd::Failed(ErrorClass::Agent)
        } else if chance < self.failing + self.passing {
            RunEnd::Passing(ErrorClass::Sandbox)
        } else if random.random_range(0.0..1.0) < self.unchanged {
            RunEnd::Unchanged
        } else {
            RunEnd::Changed
        };
        SampledRun { length: length.max(1_000), cost_usd: self.cost_usd * factor, fate }
    }
}

/// From the standard normal distribution, by Box and Muller.
fn normal(random: &mut StdRng) -> f64 {
    let radius: f64 = random.random_range(f64::EPSILON..1.0);
    let angle: f64 = random.random_range(0.0..std::f64::consts::TAU);
    (-2.0 * radius.ln()).sqrt() * angle.cos()
}

/// How long the last run of each target took, by the events: from `running` to what came next.
async fn lengths(store: &Store, campaign: &str) -> StoreResult<HashMap<i64, Millis>> {
    let (mut began, mut lengths) = (HashMap::new(), HashMap::new());
    let mut after = 0;
    loop {
        let changes = store.state_changes(campaign, after, CHANGES).await?;
        let Some(last) = changes.last() else { return Ok(lengths) };
        after = last.event;
        for change in &changes {
            if change.state == TargetState::Running {
                began.insert(change.target, change.at);
            } else if let Some(from) = began.remove(&change.target) {
                lengths.insert(change.target, (change.at - from).max(1));
            }
        }
    }
}

fn fate(state: TargetState, class: Option<ErrorClass>) -> Option<RunEnd> {
    match state {
        TargetState::Ready
        | TargetState::Held
        | TargetState::Publishing
        | TargetState::Draft
        | TargetState::Open
        | TargetState::Merged
        | TargetState::Closed
        | TargetState::Reported => Some(RunEnd::Changed),
        TargetState::Unchanged => Some(RunEnd::Unchanged),
        // What failed after the run was published by nobody, but the run was good.
        TargetState::Failed => match class.unwrap_or(ErrorClass::Internal) {
            ErrorClass::Publish | ErrorClass::Conflict | ErrorClass::Access => {
                Some(RunEnd::Changed)
            }
            class => Some(RunEnd::Failed(class)),
        },
        TargetState::Waiting
        | TargetState::Queued
        | TargetState::Running
        | TargetState::Skipped
        | TargetState::Superseded => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::simulate::profile::{AssumedProfile, Profile, RunEnd};

    #[test]
    fn the_assumed_runs_are_as_they_are_described() {
        let assumed = AssumedProfile::default();
        let profile = Profile::Assumed(assumed.clone());
        let mut runs: Vec<_> = (0..20_000).map(|target| profile.draw(7, target, 1)).collect();
        assert_eq!(runs[5], profile.draw(7, 5, 1), "the same seed");
        assert_ne!(runs[5], profile.draw(8, 5, 1), "another seed");
        runs.sort_by_key(|run| run.length);
        let at = |percent: usize| runs[runs.len() * percent / 100].length;
        let median = assumed.median;
        assert!((at(50) - median).abs() < median / 10, "{}", at(50));
        assert!((at(90) - 3 * median).abs() < median / 3, "{}", at(90));
        let failed = runs.iter().filter(|run| matches!(run.fate, RunEnd::Failed(_))).count();
        assert!((900..1_100).contains(&failed), "{failed}");
    }
}
