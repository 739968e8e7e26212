//! What a campaign would do with each repository, before it does it.

use super::campaign::Campaign;
use super::fleet::Fleet;
use crate::error::{Failure, Result};
use crate::store::model::NewTarget;

/// What a campaign is going to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Sorted by repository; also those that are skipped, with the reason, and those that are finished.
    pub targets: Vec<Planned>,
    pub estimate: Estimate,
}

/// One target of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub target: NewTarget,
    /// It is finished already and is not worked on again; says how it ended.
    pub finished: Option<String>,
}

/// What it is expected to cost, from the campaign's own history where there is one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Targets that will be worked on.
    pub targets: usize,
    pub cost_usd: f64,
    /// The most that it can cost by the limits.
    pub most_usd: Option<f64>,
    pub agent_seconds: u64,
    /// By the pace of writes.
    pub publish_seconds: u64,
}

/// Looks, and decides for each repository. Reads only.
pub async fn make(_fleet: &Fleet, _campaign: &Campaign) -> Result<Plan> {
    Err(Failure::internal("not there yet"))
}
