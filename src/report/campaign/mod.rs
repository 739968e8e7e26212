//! Pages, tables and issues about a campaign.

use crate::store::model::{CampaignView, Event};

/// The page of a campaign: self-contained HTML, with filters and a burn-down.
pub fn page(_view: &CampaignView, _events: &[Event]) -> String {
    String::new()
}

/// The body of its tracking issue, with `marker` as a line of it.
pub fn issue_body(_view: &CampaignView, _marker: &str) -> String {
    String::new()
}

/// `batch status`: a table for a terminal.
pub fn table(_view: &CampaignView) -> String {
    String::new()
}
