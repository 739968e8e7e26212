//! The tracking issue of a campaign: one, kept up to date, found again by its marker.
//!
//! Boxes in it that somebody with write access has ticked are honoured before it is written again:
//! those targets are tried once more. [`update`] may be called at any time and by several

use chrono::Timelike as _;

use super::campaign::Campaign;
use super::drive::campaign_of;
use super::fleet::Fleet;
use super::{pace, publish, target};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::github::GitHubForge;
use patchwright_forge::{Forge, ForgeError, Issue, RepositoryId, Role, StateProblem};
use patchwright_report::{self as report, campaign as pages};
use patchwright_types::campaign::{CampaignRow, CampaignState, Millis, Target};

/// Between two edits.
const APART: Millis = 3 * 60_000;

/// When the issue is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateTiming {
    /// When the last edit is long enough ago.
    Due,
    /// At the end of a command: whenever it was written before.
    AtTheEnd,
}

/// Brings the issue up to date, when the campaign has one and it is time. It is closed with its campaign.
///
/// # Errors
/// When GitHub or the store cannot be used. The campaign continues without its issue.
pub async fn update(fleet: &Fleet, id: &str, when: UpdateTiming) -> Result<()> {
    let row = fleet.store.campaign(id).await?;
    let campaign = campaign_of(&row)?;
    let Some(place) = &campaign.tracking_issue else { return Ok(()) };
    let repository: RepositoryId = place.parse().map_err(Failure::usage)?;
    if !is_time(fleet, id, when).await? {
        return Ok(());
    }
    let limits = pace::limits(fleet, Some(&campaign));
    let gate = pace::gate(&fleet.store, &fleet.token, limits, None);
    let forge = fleet.forge.gated(gate);
    let tracker = Tracker { fleet, forge, campaign, row, repository };
    tracker.update().await
}

/// Brings the issue of a campaign up to date that has stopped, once after that: nobody else may have seen its end.
///
/// # Errors
/// As [`update`].
pub(super) async fn ended(fleet: &Fleet, row: &CampaignRow) -> Result<()> {
    let written = fleet.store.value(&format!("tracked:{}", row.id)).await?;
    let written = written.and_then(|at| at.parse::<Millis>().ok());
    // Never written: it has no issue, or its end was before there was a worker that looks.
    if written.is_none_or(|at| at > row.updated_at) {
        return Ok(());
    }
    update(fleet, &row.id, UpdateTiming::AtTheEnd).await
}

/// Whether the last edit, of any process, is long enough ago.
async fn is_time(fleet: &Fleet, id: &str, when: UpdateTiming) -> Result<bool> {
    let name = format!("tracked:{id}");
    let now = fleet.store.now().await?;
    let before = fleet.store.value(&name).await?.and_then(|before| before.parse::<Millis>().ok());
    let apart = pace::scaled_wait(fleet, APART);
    // A time in the future comes from a wrong clock. With an unreadable one, one edit too many is
    // made.
    let is_soon = before.is_some_and(|before| before <= now && now - before < apart);
    if is_soon && when == UpdateTiming::Due {
        return Ok(false);
    }
    // Written before the edit, so that a second process does not start the same edit.
    fleet.store.set_value(&name, &now.to_string()).await?;
    Ok(true)
}

struct Tracker<'a> {
    fleet: &'a Fleet,
    forge: GitHubForge,
    campaign: Campaign,
    row: CampaignRow,
    repository: RepositoryId,
}

impl Tracker<'_> {
    async fn update(&self) -> Result<()> {
        let marker = report::marker("campaign", &self.campaign.name);
        let found = self.forge.marked_issue(&self.repository, self.known(), &marker).await;
        let found = found.map_err(|err| self.trouble(err))?;
        if let Some(issue) = &found {
            self.remember(issue).await?;
            self.honour_ticks(issue).await?;
        }
        // Campaigns of one name share an issue; only the newest may write it.
        let newest = self.fleet.store.campaigns(Some(&self.campaign.name)).await?;
        if newest.first().is_some_and(|newest| newest.id != self.row.id) {
            return Ok(());
        }
        let view = self.fleet.store.view(&self.row.id).await?;
        let body = self.fleet.redactor.redact(&pages::issue_body(&view, &marker));
        let title = self.fleet.redactor.redact(&self.title());
        let is_over = view.campaign.state == CampaignState::Closed;
        match found {
            Some(issue) => {
                let edited = self
                    .forge
                    .edit_issue(&self.repository, &issue, &title, &body, &marker, is_over)
                    .await;
                edited.map_err(|err| self.trouble(err))
            }
            None if is_over => Ok(()),
            None => {
                if !self.is_ours_to_create().await? {
                    return Ok(());
                }
                let made = self.forge.create_issue(&self.repository, &title, &body, &marker).await;
                let issue = made.map_err(|err| self.trouble(err))?;
                self.fleet.ui.say(&format!("tracking issue: {}", issue.html_url));
                self.remember(&issue).await
            }
        }
    }

    fn title(&self) -> String {
        let description = self.campaign.description.as_deref().unwrap_or_default();
        match description.lines().next().map(str::trim).unwrap_or_default() {
            "" => format!("Campaign {}", self.campaign.name),
            line => format!("Campaign {}: {line}", self.campaign.name),
        }
    }

    fn trouble(&self, err: ForgeError) -> Failure {
        let place = &self.repository;
        let hint = match &err {
            ForgeError::State { what: StateProblem::Transferred { to }, .. } => {
                let to = to.as_deref().and_then(|to| Some(to.rsplit_once('#')?.0));
                let to = to.unwrap_or("OWNER/REPO");
                Some(format!(
                    "set `tracking-issue: {to}` in the campaign's file to have one there, or transfer it back"
                ))
            }
            _ => None,
        };
        let failure = Failure::forge(format!(
            "the tracking issue in `{place}` could not be brought up to date"
        ))
        .caused_by(err);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// The number that we know it by, when it is in this repository.
    fn known(&self) -> Option<u64> {
        let (repository, number) = self.row.tracking_issue.as_deref()?.rsplit_once('#')?;
        let is_here = repository.eq_ignore_ascii_case(&self.repository.to_string());
        number.parse().ok().filter(|_| is_here)
    }

    async fn remember(&self, issue: &Issue) -> Result<()> {
        let name = format!("{}#{}", self.repository, issue.number);
        if self.row.tracking_issue.as_deref() != Some(name.as_str()) {
            self.fleet.store.set_tracking_issue(&self.row.id, &name).await?;
        }
        Ok(())
    }

    /// Two processes that miss the issue at once would both write one: the first of ten minutes does.
    async fn is_ours_to_create(&self) -> Result<bool> {
        let now = self.fleet.clock.now();
        let moment = format!("{} {}", now.format("%Y-%m-%d %H"), now.minute() / 10);
        let name = format!("tracking:{}:{}", self.campaign.name, self.repository);
        Ok(self.fleet.store.fire_once(&name, &moment).await?)
    }

    /// Targets whose box is ticked are tried again, when whoever edited the issue may write there.
    async fn honour_ticks(&self, issue: &Issue) -> Result<()> {
        let ticked = pages::ticked(&issue.body);
        if ticked.is_empty() || self.row.state == CampaignState::Closed {
            return Ok(());
        }
        let editor = self.forge.issue_editor(&self.repository, issue.number).await;
        // Anybody can be the author of text that we quote, so a tick counts only with a known
        // editor.
        let Ok(Some(editor)) = editor else {
            self.fleet.ui.warn(
                "boxes are ticked in the tracking issue, but GitHub does not say by whom; they are \
                 ignored",
            );
            return Ok(());
        };
        // Fails closed: if the role cannot be read, the ticks are ignored.
        let role = self.forge.role(&self.repository, &editor).await.unwrap_or(Role::None);
        if role < Role::Write {
            self.fleet.ui.warn(&format!(
                "`{editor}`, who ticked boxes in the tracking issue, may not write to `{}`; they are \
                 ignored",
                self.repository
            ));
            return Ok(());
        }
        let store = &self.fleet.store;
        let job_of = |target: &Target| target::job(self.fleet, &self.campaign, target);
        let publish_of = |target: &Target| publish::job(self.fleet, target);
        let count = store.retry_these(&self.row.id, &ticked, &job_of, &publish_of).await?;
        if count == 0 {
            return Ok(());
        }
        if self.row.state == CampaignState::Done {
            store.set_campaign_state(&self.row.id, CampaignState::Running, None).await?;
        }
        let text = format!("`{editor}` ticked {count} to be tried again");
        store.record(&self.row.id, None, "retry", Some(&text)).await?;
        self.fleet.ui.say(&text);
        Ok(())
    }
}
