//! What a plan is expected to cost and how long it takes: from the campaign's own history, else from
//! that of other campaigns with the same model, else nothing but the upper bound.

use serde::Serialize;

use super::campaign::{Campaign, CampaignMode, PublishAs};
use super::fleet::Fleet;
use super::pace;
use super::plan::PlannedTarget;
use super::worker;
use patchwright_base::error::Result;
use patchwright_config::Source;
use patchwright_types::campaign::{CampaignView, Target};

/// Writes for one pull request: itself, its labels, its reviewers.
const WRITES_FOR_PULL: u64 = 3;
/// Writes for one review: itself, the sticky comment, the check.
const WRITES_FOR_REVIEW: u64 = 3;
/// Campaigns that are looked at for what runs cost.
const MOST_LOOKED_AT: usize = 20;

/// What it is expected to cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// Targets that will be worked on.
    pub targets: usize,
    /// Ended runs that the averages are made of; with none, they are unknown.
    pub samples: usize,
    pub cost_usd: Option<f64>,
    /// The most that it can cost by the limits.
    pub most_usd: Option<f64>,
    /// With as many runs at once as the limits, or this machine, allow.
    pub agent_seconds: Option<u64>,
    /// By the pace of writes.
    pub publish_seconds: u64,
}

/// Sums of what ended runs cost and how long they took.
#[derive(Default)]
struct Sums {
    runs: usize,
    cost_usd: f64,
    seconds: f64,
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate"
)]
pub(super) async fn estimate(
    fleet: &Fleet,
    campaign: &Campaign,
    view: Option<&CampaignView>,
    targets: &[PlannedTarget],
) -> Result<Estimate> {
    let work: Vec<&PlannedTarget> = targets.iter().filter(|planned| planned.is_work()).collect();
    let count = work.len();
    let mut sums = Sums::default();
    sums.take(view.map(|view| view.targets.as_slice()).unwrap_or_default());
    if sums.runs == 0 {
        look_elsewhere(fleet, campaign, &mut sums).await?;
    }
    let at_once = campaign.limits.concurrency.map_or(worker::room().get(), |most| most as usize);
    let rounds = count.div_ceil(at_once.max(1));
    let average = |sum: f64| (sums.runs > 0).then(|| sum / sums.runs as f64);
    let spent = view.map_or(0.0, |view| view.campaign.spent_usd);
    let all = per_run(fleet, campaign) * count as f64;
    let left = campaign.limits.budget_usd.map(|budget| (budget - spent).max(0.0));
    Ok(Estimate {
        targets: count,
        samples: sums.runs,
        cost_usd: average(sums.cost_usd).map(|cost| cost * count as f64),
        most_usd: Some(left.map_or(all, |left| left.min(all))).filter(|most| most.is_finite()),
        agent_seconds: average(sums.seconds).map(|seconds| (seconds * rounds as f64).ceil() as u64),
        publish_seconds: publish_seconds(campaign, &work),
    })
}

/// What one run may cost.
fn per_run(fleet: &Fleet, campaign: &Campaign) -> f64 {
    let config = &fleet.config;
    let is_flag = config.sources.get("limits.max-cost-usd") == Some(&Source::Flag);
    let own = campaign.agent.max_cost_usd.filter(|_| !is_flag);
    own.unwrap_or(config.limits.max_cost_usd)
}

/// Other campaigns with the same model, the newest first.
async fn look_elsewhere(fleet: &Fleet, campaign: &Campaign, sums: &mut Sums) -> Result<()> {
    let rows = fleet.store.campaigns(None).await?;
    for row in rows.iter().filter(|row| row.id != campaign.id()).take(MOST_LOOKED_AT) {
        // One that another version has written is no example.
        let Ok(other) = serde_json::from_str::<Campaign>(&row.spec) else { continue };
        if other.agent.model == campaign.agent.model && other.mode == campaign.mode {
            sums.take(&fleet.store.view(&row.id).await?.targets);
        }
    }
    Ok(())
}

impl Sums {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn take(&mut self, targets: &[Target]) {
        for target in targets {
            let Some((from, to)) = target.started_at.zip(target.ended_at) else { continue };
            if !target.state.is_settled() || to < from || target.tokens == 0 {
                continue;
            }
            self.runs += 1;
            self.cost_usd += target.cost_usd;
            self.seconds += (to - from) as f64 / 1_000.0;
        }
    }
}

/// How long GitHub's limits stretch the writes.
fn publish_seconds(campaign: &Campaign, work: &[&PlannedTarget]) -> u64 {
    let writes = work.iter().map(|planned| match campaign.mode {
        CampaignMode::Report => 0,
        CampaignMode::Review => WRITES_FOR_REVIEW,
        CampaignMode::Pr => match campaign.published(&planned.target.repository) {
            PublishAs::Held => 0,
            PublishAs::Ready | PublishAs::Draft => WRITES_FOR_PULL,
        },
    });
    let writes: u64 = writes.sum();
    let limits = pace::LIMITS;
    let positive = |limit: i64| u64::try_from(limit).unwrap_or(1).max(1);
    let per_hour = positive(limits.per_hour);
    let per_hour =
        campaign.limits.creations_per_hour.map_or(per_hour, |own| per_hour.min(own.into()));
    let by_gap = (writes * positive(limits.gap)).div_ceil(1_000);
    let by_minute = (writes * 60).div_ceil(positive(limits.per_minute));
    let by_hour = if writes > per_hour { (writes * 3_600).div_ceil(per_hour.max(1)) } else { 0 };
    by_gap.max(by_minute).max(by_hour)
}
