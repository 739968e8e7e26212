//! Which targets may be worked on: waves and their gates. Pure.

use super::campaign::Campaign;
use crate::store::model::CampaignView;

/// What happens next in a campaign.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The targets of this wave may be worked on now.
    Open(i64),
    /// Wait, and why.
    Wait(String),
    /// Stop for people to look, and why.
    Pause(String),
    /// Every target is settled.
    Done,
}

/// Decides from how the targets stand: opens the next wave when its gate lets it, pauses above the failure
/// rate.
pub fn next(_campaign: &Campaign, _view: &CampaignView) -> Step {
    Step::Wait("not there yet".to_owned())
}

/// Which wave each of `count` targets belongs to, in order.
pub fn assign(_campaign: &Campaign, count: usize) -> Vec<i64> {
    vec![0; count]
}
