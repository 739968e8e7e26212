//! Campaigns that no command watches: what became of their pull requests, and their tracking issues.
//!
//! Called by every worker. What it does is shared through the store, so that one of all does it, every few minutes.

use crate::batch::fleet::Fleet;
use crate::batch::{refresh, track};
use crate::store::StoreResult;
use patchwright_base::error::Result;
use patchwright_types::campaign::{CampaignRow, CampaignState, TargetState};

/// Looks after one campaign; trouble is no matter to the worker.
pub(super) async fn look(fleet: &Fleet, campaign: &CampaignRow) {
    let looked = match campaign.state {
        CampaignState::Running => while_it_runs(fleet, campaign).await,
        // It may have come to its end just now, in whichever process.
        CampaignState::Done | CampaignState::Paused => track::ended(fleet, campaign).await,
        CampaignState::Closed => Ok(()),
    };
    if let Err(failure) = looked {
        tracing::warn!(campaign = campaign.id, %failure, "a campaign cannot be looked after");
    }
}

async fn while_it_runs(fleet: &Fleet, campaign: &CampaignRow) -> Result<()> {
    if has_open(fleet, &campaign.id).await? {
        refresh::refresh_if_stale(fleet, &campaign.id).await;
    }
    track::update(fleet, &campaign.id, track::UpdateTiming::Due).await
}

async fn has_open(fleet: &Fleet, id: &str) -> StoreResult<bool> {
    let states = [TargetState::Open, TargetState::Draft];
    Ok(fleet.store.count_targets(id, &states).await? > 0)
}
