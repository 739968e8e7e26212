//! Pages, tables and issues about a campaign. All are made of a [`CampaignView`], and the page also of
//! its events.

mod figures;
mod issue;
mod live;
mod outage;
mod page;
mod status;
mod table;

use patchwright_types::campaign::CampaignView;

pub use figures::{Eta, Figures, dollars, duration, moment};
pub use issue::{issue_body, ticked};
pub use live::{Waiting, changes, frame};
pub use outage::{outage, service};
pub use page::page;
pub use status::{Status, status};
pub use table::{list, table};

/// How far a campaign is, in a line.
pub fn progress(view: &CampaignView) -> String {
    live::summary(view, &Figures::compute(view))
}
