//! Whether a change is published at this moment, and at all: windows, the number of open pull requests,
//! and the same change in another campaign.

use chrono::{DateTime, Utc};

use super::{PublishOutcome, PublishResult, Publisher};
use crate::batch::campaign::Campaign;
use crate::batch::{refresh, window};
use crate::store::StoreResult;
use patchwright_forge::{Forge, ForgeError};
use patchwright_types::campaign::{Millis, Target, TargetState};

/// Retry interval while publishing is not allowed.
pub(in crate::batch) const LOOK_AGAIN: Millis = 10 * 60_000;

/// When the campaign's next window opens, and after how many milliseconds a job looks again; `None` while one
/// is open.
pub(in crate::batch) fn closed(
    campaign: &Campaign,
    now: DateTime<Utc>,
) -> Option<(DateTime<Utc>, Millis)> {
    let opens = window::closed_until(&campaign.windows, now)?;
    Some((opens, (opens - now).num_milliseconds().clamp(1_000, 6 * LOOK_AGAIN)))
}

impl Publisher<'_> {
    /// Whether the campaign may publish at this moment.
    pub(super) async fn not_now(&self) -> PublishResult<Option<PublishOutcome>> {
        let now = self.fleet.clock.now();
        if let Some((opens, after)) = closed(&self.campaign, now) {
            let opens = opens.format("%Y-%m-%d %H:%M UTC");
            let why = format!("waits for the publishing window that opens at {opens}");
            return Ok(Some(PublishOutcome::Later { after, why }));
        }
        let Some(most) = self.campaign.limits.max_open_pull_requests else { return Ok(None) };
        // An update of a pull request that is open does not open another one.
        if self.open_already().await?.is_some() {
            return Ok(None);
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut open = self.open_count().await?;
        if open >= most {
            // The stored states may be old: people may have merged some of them since.
            refresh::refresh_if_stale(self.fleet, &self.target.campaign).await;
            open = self.open_count().await?;
        }
        if open < most {
            return Ok(None);
        }
        let why = format!(
            "waits: {open} pull requests of the campaign are open, and `max-open-pull-requests` is {most}"
        );
        Ok(Some(PublishOutcome::Later { after: LOOK_AGAIN, why }))
    }

    /// The newest target of this repository in a campaign of this name that has an open pull request.
    async fn open_already(&self) -> StoreResult<Option<Target>> {
        let history = self.history().await?;
        let is_open = |target: &Target| {
            matches!(target.state, TargetState::Open | TargetState::Draft)
                && target.id != self.target.id
        };
        Ok(history.into_iter().find(is_open))
    }

    async fn open_count(&self) -> StoreResult<usize> {
        let states = [TargetState::Open, TargetState::Draft];
        self.fleet.store.count_targets(&self.target.campaign, &states).await
    }

    /// Another campaign has proposed the very same change, or somebody has rejected it there.
    pub(super) async fn same_elsewhere(&self) -> PublishResult<Option<PublishOutcome>> {
        let (store, target) = (&self.fleet.store, &self.target);
        for other in store.same_change(target, &self.changeset.change_id).await? {
            let campaign = store.campaign(&other.campaign).await?.name;
            let Some(number) = other.pull_request.and_then(|number| u64::try_from(number).ok())
            else {
                continue;
            };
            // A campaign of the same name uses the same branch, which is checked anyway.
            if other.id == target.id || campaign == self.campaign.name {
                continue;
            }
            let pull = match self.forge.pull_request(&self.repository_id()?, number).await {
                Ok(pull) if !pull.merged => pull,
                Ok(_) | Err(ForgeError::NotFound { .. }) => continue,
                Err(err) => return Err(err.into()),
            };
            let how = if pull.open { "proposes" } else { "proposed" };
            let became = if pull.open { "" } else { ", which was closed unmerged" };
            let reason =
                format!("campaign `{campaign}` {how} the same change in {}{became}", pull.html_url);
            let pull = Some((pull.number, pull.html_url));
            return Ok(Some(PublishOutcome::Settled { state: TargetState::Skipped, reason, pull }));
        }
        Ok(None)
    }
}
