//! The publisher: a stored change becomes one pull request.

use std::sync::Arc;

use super::fleet::Fleet;
use super::lease::Held;
use crate::error::{Failure, Result};
use crate::store::model::{NewJob, Target};

/// The job that publishes a target's changeset: one at a time for each token.
pub fn job(_fleet: &Fleet, target: &Target) -> NewJob {
    NewJob {
        kind: crate::store::model::JobKind::Publish,
        key: format!("publish:{}", target.id),
        campaign: Some(target.campaign.clone()),
        subject: target.id.to_string(),
        lane: None,
        organization: None,
        priority: 0,
        max_attempts: 5,
        reserve_usd: 0.0,
        run_at: 0,
    }
}

/// Publishes, and ends the job with what became of it.
pub async fn work(_fleet: &Fleet, _held: Arc<Held>) -> Result<()> {
    Err(Failure::internal("not there yet"))
}
