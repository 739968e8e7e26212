//! The work on one repository of a campaign: an agent run that ends with a stored change.

use std::sync::Arc;

use super::campaign::Campaign;
use super::fleet::Fleet;
use super::lease::Held;
use crate::error::{Failure, Result};
use crate::store::model::{NewJob, Target};

/// The job that works on a target.
pub fn job(campaign: &Campaign, target: &Target) -> NewJob {
    let owner = target.repository.split('/').next().unwrap_or_default();
    NewJob {
        kind: crate::store::model::JobKind::Target,
        key: format!("target:{}", target.id),
        campaign: Some(target.campaign.clone()),
        subject: target.id.to_string(),
        lane: Some(format!("repository:{}", target.repository)),
        organization: Some(owner.to_owned()),
        priority: 0,
        max_attempts: i64::from(campaign.limits.max_attempts.unwrap_or(3)),
        reserve_usd: campaign.agent.max_cost_usd.unwrap_or_default(),
        run_at: 0,
    }
}

/// Runs the agent (or the review), stores what came of it, and ends the job.
pub async fn work(_fleet: &Fleet, _held: Arc<Held>) -> Result<()> {
    Err(Failure::internal("not there yet"))
}
