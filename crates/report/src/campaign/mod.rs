//! Pages, tables and issues about a campaign. All are made of a [`CampaignView`], and the page also of
//! its [`History`].

mod figures;
mod history;
mod issue;
mod live;
mod outage;
mod page;
mod publishing;
mod status;
mod table;

use patchwright_types::campaign::{CampaignRow, CampaignView, ErrorClass};

pub use figures::{Eta, Figures, dollars, duration, moment};
pub use history::{History, NEWEST};
pub use issue::{issue_body, ticked};
pub use live::{Waiting, changes, frame};
pub use outage::{outage, service};
pub use page::{PageOptions, page, policy};
pub use publishing::Publishing;
pub use status::{Status, rfc3339, status};
pub use table::{list, table};

/// How far a campaign is, in a line.
pub fn progress(view: &CampaignView) -> String {
    live::summary(view, &Figures::compute(view))
}

/// The command that has the failed targets of a campaign tried again, all or those of a class, as it can be
/// pasted into a shell. It names the campaign by its id: there may be newer ones of the same name.
pub fn retry_command(campaign: &CampaignRow, class: Option<ErrorClass>) -> String {
    let id = patchwright_base::text::line(&campaign.id);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let id = if id.chars().all(is_plain) && !id.starts_with('-') {
        id
    } else {
        format!("'{}'", id.replace('\'', r"'\''"))
    };
    let class = class.map(|class| format!(" --class {}", class.word())).unwrap_or_default();
    format!("patchwright batch retry {id}{class}")
}

/// The command that answers a question of the model.
pub fn answer_command(campaign: &CampaignRow, repository: &str) -> String {
    let (command, repository) =
        (retry_command(campaign, None), patchwright_base::text::line(repository));
    format!("{command} --repository {repository} --run --instructions 'ANSWER'")
}
