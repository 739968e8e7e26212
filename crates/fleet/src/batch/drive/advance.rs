//! The step by which a campaign goes on. Workers take it too, so that a campaign nobody watches opens its waves.

use super::{campaign_of, is_being_published, pause, short_of_money};
use crate::batch::campaign::Campaign;
use crate::batch::fleet::Fleet;
use crate::batch::target;
use crate::batch::waves::{self, WaveStep};
use crate::store::StoreResult;
use patchwright_base::error::Result;
use patchwright_types::campaign::{CampaignRow, CampaignState, Target, TargetState};

/// What was done, or what is waited for, by one step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome {
    /// A wave was opened, or nothing changed.
    Going,
    /// The next wave waits, and for what.
    Waits(String),
    /// The campaign was stopped just now.
    Paused,
    /// Everything is settled, or what this process works on.
    Done,
}

/// Opens the next wave when it may be opened, stops or ends the campaign when it is time. Anybody may
/// call it at any time.
pub async fn advance(fleet: &Fleet, id: &str) -> Result<StepOutcome> {
    let store = &fleet.store;
    let mut going = StepOutcome::Going;
    // One step may make the next one possible: an empty wave, or one whose targets are all skipped.
    // Bounded, in case a campaign has more empty waves than anybody would write.
    for _ in 0..100 {
        let row = store.campaign(id).await?;
        if row.state != CampaignState::Running {
            return Ok(going);
        }
        let campaign = campaign_of(&row)?;
        if fleet.scope.is_everything()
            && let Some(why) = nothing_to_decide(fleet, &campaign, &row).await?
        {
            return Ok(StepOutcome::Waits(why));
        }
        let view = store.view(id).await?;
        let others = fleet.scope.left_to_others(&view);
        let view = fleet.scope.view_of(view);
        if let Some(why) = short_of_money(fleet, &campaign, &view) {
            // Stored changes have been paid for, so they are published before the campaign pauses.
            if !view.targets.iter().any(is_being_published) {
                pause(fleet, id, &why).await?;
                return Ok(StepOutcome::Paused);
            }
            return Ok(StepOutcome::Waits(why));
        }
        match waves::next(&campaign, &view) {
            WaveStep::Open(wave) => {
                open(fleet, &campaign, wave).await?;
                going = StepOutcome::Going;
            }
            WaveStep::Wait(why) => return Ok(StepOutcome::Waits(why)),
            WaveStep::Pause(why) => {
                pause(fleet, id, &why).await?;
                return Ok(StepOutcome::Paused);
            }
            WaveStep::Done => {
                if others == 0 {
                    store.set_campaign_state(id, CampaignState::Done, None).await?;
                }
                return Ok(StepOutcome::Done);
            }
        }
    }
    Ok(going)
}

/// Queues the targets of a wave that are worked on here.
async fn open(fleet: &Fleet, campaign: &Campaign, wave: i64) -> StoreResult<()> {
    let (store, scope, id) = (&fleet.store, &fleet.scope, campaign.id());
    let job_of = |target: &Target| target::job(fleet, campaign, target);
    let wanted = |target: &Target| scope.wants(target);
    if scope.only.is_empty() {
        store.open_wave_of(&id, wave, &wanted, &job_of).await?;
    } else {
        // The wave stays: what is not asked for by name would not wait for its turn any more.
        store.queue_waiting(&id, wave, &wanted, &job_of).await?;
    }
    Ok(())
}

/// What is waited for, when a few look-ups show that everything stays as it is. A campaign of thousands of
/// targets takes this step after each of them, and reading all of them each time would be most of its work.
async fn nothing_to_decide(
    fleet: &Fleet,
    campaign: &Campaign,
    row: &CampaignRow,
) -> StoreResult<Option<String>> {
    let standing = fleet.store.campaign_progress(&row.id).await?;
    let opens = standing.waiting.is_some_and(|wave| wave <= row.wave);
    // A budget and a failure rate are decided by what all targets came to.
    let short_of_money = row.budget_usd.is_some() && !standing.running;
    if !standing.busy || opens || standing.misconfigured || short_of_money {
        return Ok(None);
    }
    if let Some(most) = campaign.limits.max_failure_rate
        && may_be_above(fleet, row, most).await?
    {
        return Ok(None);
    }
    Ok(Some(format!("wave {}: some targets to go", row.wave + 1)))
}

/// So many have failed that the whole campaign has to be looked at. Counts of rows, in which a repository may
/// have failed several times: more failures than there are, and no fewer.
async fn may_be_above(fleet: &Fleet, row: &CampaignRow, most: f64) -> StoreResult<bool> {
    let store = &fleet.store;
    let failed = store.count_targets(&row.id, &[TargetState::Failed]).await?;
    if failed == 0 {
        return Ok(false);
    }
    let good: Vec<TargetState> = TargetState::ALL
        .iter()
        .copied()
        .filter(|state| {
            let is_stored = matches!(state, TargetState::Ready | TargetState::Publishing);
            is_stored
                || (state.is_success()
                    && !matches!(state, TargetState::Skipped | TargetState::Superseded))
        })
        .collect();
    let good = store.count_targets(&row.id, &good).await?;
    Ok(waves::share(failed, failed + good) >= most)
}
