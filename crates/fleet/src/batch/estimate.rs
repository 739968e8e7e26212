//! What a plan is expected to cost and how long it takes: from the campaign's own history, else from
//! that of other campaigns with the same model, else nothing but the upper bound.

use serde::Serialize;

use super::campaign::{Campaign, CampaignMode, PublishAs};
use super::continued::is_stored;
use super::fleet::Fleet;
use super::planned::PlannedTarget;
use super::worker;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Source;
use patchwright_report::campaign::Publishing;
use patchwright_task::world;
use patchwright_types::campaign::{CampaignView, Target};
use patchwright_types::dollars;

/// Campaigns that are looked at for what runs cost.
const MOST_LOOKED_AT: usize = 20;

/// What it is expected to cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// Targets that will be worked on.
    pub targets: usize,
    /// Ended runs that the averages are made of; with none, they are unknown.
    pub samples: usize,
    #[serde(serialize_with = "dollars::rounded_if_known")]
    pub cost_usd: Option<f64>,
    /// The most that it can cost by the limits.
    #[serde(serialize_with = "dollars::rounded_if_known")]
    pub most_usd: Option<f64>,
    /// What is left of the budget, when that is less than all runs may cost.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "dollars::rounded_if_known")]
    pub short_usd: Option<f64>,
    /// Of the targets, how many about that is enough for: one more is begun only when what it may cost is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affordable: Option<usize>,
    /// Nobody knows what the model costs, so no limit in dollars ends a run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub price_is_unknown: bool,
    /// With as many runs at once as the limits, or this machine, allow.
    pub agent_seconds: Option<u64>,
    /// By the pace of writes.
    pub publish_seconds: u64,
}

/// Sums of what ended runs cost and how long they took.
#[derive(Default)]
struct RunTotals {
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
    let count = targets.iter().filter(|planned| planned.is_work()).count();
    let mut sums = RunTotals::default();
    let known = view.map(|view| view.targets.as_slice()).unwrap_or_default();
    sums.take(known);
    if sums.runs == 0 {
        look_elsewhere(fleet, campaign, &mut sums).await?;
    }
    let at_once = campaign.limits.concurrency.map_or(worker::room().get(), |most| most as usize);
    // What is stored has been paid for.
    let stored = known.iter().filter(|target| is_stored(campaign, target)).count();
    let runs = count.saturating_sub(stored);
    let rounds = runs.div_ceil(at_once.max(1));
    let average = |sum: f64| (sums.runs > 0).then(|| sum / sums.runs as f64);
    let spent = view.map_or(0.0, |view| view.campaign.spent_usd);
    let each = per_run(fleet, campaign);
    let all = each * runs as f64;
    let left = campaign.limits.budget_usd.map(|budget| (budget - spent).max(0.0));
    let usual = average(sums.cost_usd).filter(|cost| *cost > 0.0).unwrap_or(each);
    let enough = |left: f64| {
        if left + 1e-6 < each { 0 } else { ((left - each).max(0.0) / usual) as usize + 1 }
    };
    let price_is_unknown = has_no_price(fleet, campaign);
    let short_usd = left.filter(|left| *left + 1e-6 < all && !price_is_unknown);
    let most_usd = Some(left.map_or(all, |left| left.min(all)));
    Ok(Estimate {
        targets: count,
        samples: sums.runs,
        cost_usd: average(sums.cost_usd)
            .map(|cost| cost * runs as f64)
            .filter(|_| !price_is_unknown),
        affordable: short_usd.map(|left| enough(left).min(runs)),
        short_usd,
        most_usd: most_usd.filter(|most| most.is_finite() && !price_is_unknown),
        price_is_unknown,
        agent_seconds: average(sums.seconds).map(|seconds| (seconds * rounds as f64).ceil() as u64),
        publish_seconds: publish_seconds(fleet, campaign, known, targets)?,
    })
}

/// The model is known, and its price is not. A model that cannot be found is told of when it is asked.
fn has_no_price(fleet: &Fleet, campaign: &Campaign) -> bool {
    let config = campaign.overlay(fleet.config.clone(), "", "");
    let model = config.and_then(|config| world::model(&config));
    model.is_ok_and(|model| model.price.is_none())
}

/// What one run may cost.
fn per_run(fleet: &Fleet, campaign: &Campaign) -> f64 {
    let config = &fleet.config;
    let is_flag = config.sources.get("limits.max-cost-usd") == Some(&Source::Flag);
    let own = campaign.agent.max_cost_usd.filter(|_| !is_flag);
    own.unwrap_or(config.limits.max_cost_usd)
}

/// Other campaigns with the same model, the newest first.
async fn look_elsewhere(fleet: &Fleet, campaign: &Campaign, sums: &mut RunTotals) -> Result<()> {
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

impl RunTotals {
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

/// How long GitHub's limits stretch the writes: as the campaign's page will reckon, too.
fn publish_seconds(
    fleet: &Fleet,
    campaign: &Campaign,
    known: &[Target],
    targets: &[PlannedTarget],
) -> Result<u64> {
    // What the operator's configuration adds to every pull request is written as well.
    let mut whole = campaign.clone();
    let own = &fleet.config.publish;
    if whole.publish.labels.is_empty() {
        whole.publish.labels.clone_from(&own.labels);
    }
    if whole.publish.reviewers.is_empty() {
        whole.publish.reviewers.clone_from(&own.reviewers);
    }
    if whole.publish.assignees.is_empty() {
        whole.publish.assignees.clone_from(&own.assignees);
    }
    whole.publish.code_owners = whole.publish.code_owners.or(Some(own.code_owners));
    whole.publish.milestone = whole.publish.milestone.or_else(|| own.milestone.clone());
    whole.publish.auto_merge = whole.publish.auto_merge.or(Some(own.auto_merge));
    let spec = serde_json::to_value(&whole)
        .map_err(|err| Failure::internal("the campaign cannot be written").caused_by(err))?;
    let is_published = |planned: &&PlannedTarget| {
        planned.is_work()
            && (campaign.mode != CampaignMode::Pr
                || campaign.published(&planned.repository) != PublishAs::Held)
    };
    let count = targets.iter().filter(is_published).count();
    let time = Publishing::of(&spec, known).time_for(0, count);
    Ok(u64::try_from(time / 1_000).unwrap_or_default())
}
