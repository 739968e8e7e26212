//! Ends a campaign: queued work is cancelled, open pull requests of ours are closed with a word, and
//! their branches removed.
//!
//! [`close`] may be interrupted anywhere and run again: it looks at each pull request and branch before
//! it writes, and does nothing that is done. What is not ours, or no longer what we pushed, is left.

use std::collections::HashSet;

use super::fleet::Fleet;
use super::{pace, refresh, track};
use crate::store::{Closing, Store, StoreError};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::github::{BranchRemoval, GitHubForge, LimitedAccount};
use patchwright_forge::{
    Forge, ForgeError, PullRequest, RepositoryId, StateProblem, same_repository,
};
use patchwright_git::Oid;
use patchwright_report as report;
use patchwright_types::campaign::{CampaignRow, CampaignState, CampaignView, Target, TargetState};
use patchwright_types::events::CampaignEvent;

/// Comments of a pull request, the newest, among which ours is looked for.
const MOST_COMMENTS: usize = 500;

/// How a campaign is ended.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub keep_branches: bool,
    /// Put below our own words in each pull request.
    pub comment: Option<String>,
    /// The campaign that takes over.
    pub superseded_by: Option<String>,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What was done, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Targets whose work was cancelled.
    pub cancelled: usize,
    /// Pull requests that were closed.
    pub closed: usize,
    /// Branches that were removed.
    pub removed: usize,
    /// Pull requests that could not be closed, or are not ours.
    pub left: usize,
    /// Pull requests of archived repositories, in which nobody can close them.
    pub archived: usize,
    /// In a dry run, pull requests that would be closed with commits of others on them.
    pub of_others: usize,
}

/// Ends every campaign of this name.
///
/// # Errors
/// When there is none, or neither GitHub nor the store can be used at all. What cannot be done in one
/// repository is printed and counted.
pub async fn close(fleet: &Fleet, name: &str, options: &Options) -> Result<Summary> {
    let rows = known(&fleet.store, name).await?;
    let gate = pace::gate(&fleet.store, &fleet.token, pace::limits(fleet, None), None);
    let forge = fleet.forge.gated(gate);
    let mut closing = CampaignClosing {
        fleet,
        forge,
        options,
        name,
        summary: Summary::default(),
        limited: HashSet::new(),
    };
    for row in &rows {
        closing.campaign(row).await?;
    }
    Ok(closing.summary)
}

/// The campaigns of this name, which can be asked for without a token.
///
/// # Errors
/// When no campaign has this name, or the database cannot be read.
pub async fn known(store: &Store, name: &str) -> Result<Vec<CampaignRow>> {
    let rows = store.campaigns(Some(name)).await?;
    if rows.is_empty() {
        return Err(Failure::usage(format!("there is no campaign `{name}`"))
            .hint("`patchwright batch status` lists the campaigns of this database"));
    }
    Ok(rows)
}

struct CampaignClosing<'a> {
    fleet: &'a Fleet,
    forge: GitHubForge,
    options: &'a Options,
    name: &'a str,
    summary: Summary,
    /// Accounts that GitHub takes nothing about any more, of an App.
    limited: HashSet<LimitedAccount>,
}

impl CampaignClosing<'_> {
    async fn campaign(&mut self, row: &CampaignRow) -> Result<()> {
        let store = &self.fleet.store;
        let why = self.why();
        if self.options.dry_run {
            let view = store.view(&row.id).await?;
            self.summary.cancelled +=
                view.targets.iter().filter(|target| is_queued(target)).count();
        } else {
            // Before anything else, so that no worker claims another job of it.
            store.set_campaign_state(&row.id, CampaignState::Closed, Some(&why)).await?;
            self.summary.cancelled += store.cancel_jobs(&row.id, &why).await?;
        }
        let view = store.view(&row.id).await?;
        // Also those whose place a newer one took: each may have a pull request of its own.
        for target in &store.targets_to_close(&row.id).await? {
            self.target(target, &why).await?;
        }
        if !self.options.dry_run
            && let Err(failure) =
                track::update(self.fleet, &row.id, track::UpdateTiming::AtTheEnd).await
        {
            self.fleet.ui.failure(&failure.to_string());
            self.summary.left += 1;
        }
        self.unfinished(&view);
        Ok(())
    }

    /// Work that is going on ends by itself, and is not published any more.
    fn unfinished(&self, view: &CampaignView) {
        let busy = |target: &&Target| {
            matches!(target.state, TargetState::Running | TargetState::Publishing)
        };
        let count = view.targets.iter().filter(busy).count();
        if count > 0 {
            self.fleet.ui.say(&format!(
                "{count} runs of `{}` are still going on; close it again when they have ended",
                view.campaign.id
            ));
        }
    }

    fn why(&self) -> String {
        match &self.options.superseded_by {
            Some(other) => format!("superseded by campaign `{other}`"),
            None => "the campaign was closed".to_owned(),
        }
    }

    async fn target(&mut self, target: &Target, why: &str) -> Result<()> {
        match target.state {
            TargetState::Held | TargetState::Ready if !self.options.dry_run => {
                let store = &self.fleet.store;
                store.observe_target(target.id, TargetState::Superseded, Some(why), None).await?;
                return Ok(());
            }
            TargetState::Open | TargetState::Draft => {}
            // People closed its pull request: our branch is left of it.
            TargetState::Closed if !self.options.keep_branches => {}
            // Begun by an earlier command that did not come to its end.
            _ if target.closing_at.is_some() => {}
            _ => return Ok(()),
        }
        let Some((repository, number)) = refresh::place(target) else {
            self.leave(target, "the database does not know its pull request");
            return Ok(());
        };
        let account = self.forge.limited_account(&repository);
        if self.limited.contains(&account) {
            self.leave(target, "GitHub limits this App there; run it again when that is over");
            return Ok(());
        }
        match self.pull(target, &repository, number).await {
            Ok(()) => Ok(()),
            // Nobody can do anything there, so nothing is left to do.
            Err(ForgeError::State { what: StateProblem::Archived, .. }) => {
                self.stays(target, &repository, number);
                Ok(())
            }
            // There is no branch any more, either.
            Err(ForgeError::NotFound { .. }) if target.state == TargetState::Closed => Ok(()),
            Err(err @ ForgeError::RateLimited { .. }) if account.owner().is_some() => {
                self.limited.insert(account);
                self.leave(target, &format!("{err}; run it again when that is over"));
                Ok(())
            }
            // A rate limit or a bad token would fail for every pull request that follows.
            Err(err @ (ForgeError::RateLimited { .. } | ForgeError::Authentication { .. })) => {
                Err(Failure::from(err).hint("what is closed stays closed; run it again"))
            }
            Err(err) => {
                self.leave(target, &format!("{err}; run it again to finish what is left"));
                Ok(())
            }
        }
    }

    fn stays(&mut self, target: &Target, repository: &RepositoryId, number: u64) {
        self.summary.archived += 1;
        self.fleet.ui.say(&format!(
            "{}: {repository}#{number} stays as it is, because the repository is archived; unarchive it and close \
             the campaign again to have it closed",
            target.repository
        ));
    }

    fn leave(&mut self, target: &Target, why: &str) {
        self.summary.left += 1;
        self.fleet.ui.failure(&format!("{}: left as it is: {why}", target.repository));
    }

    /// Closes one pull request and removes its branch. What has begun is written down first, so that a command
    /// that is cut off anywhere is finished by the next one, and nobody takes our closing for a rejection.
    async fn pull(
        &mut self,
        target: &Target,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<(), ForgeError> {
        let node_id = target.repository_id.as_deref();
        let found = same_repository(&self.forge, repository, node_id).await?;
        let repository = &found.id;
        if found.archived {
            self.stays(target, repository, number);
            return Ok(());
        }
        let pull = self.forge.pull_request(repository, number).await?;
        let is_ours = !pull.is_fork
            && (report::is_described(&pull.body, "pull-request")
                && self.forge.wrote(&pull.author).await?);
        if !pull.open && target.state == TargetState::Closed && target.closing_at.is_none() {
            return if is_ours { self.branch(target, repository, &pull).await } else { Ok(()) };
        }
        if !is_ours {
            self.leave(target, &format!("{} is not ours", pull.html_url));
            return Ok(());
        }
        let marker = report::marker("campaign-closed", self.name);
        if pull.open {
            self.say(target, &pull);
        }
        if self.options.dry_run {
            self.summary.closed += usize::from(pull.open);
            if !self.options.keep_branches {
                self.branch(target, repository, &pull).await?;
            }
            return Ok(());
        }
        if pull.open {
            let body = self.words(&marker);
            // The comment first: a closed pull request without a word looks like a rejection.
            self.forge.upsert_comment(repository, number, &marker, None, &body).await?;
            self.closing(target, Closing::Begun).await?;
            self.forge.close_pull(repository, number).await?;
            self.summary.closed += 1;
        }
        // `Superseded` means that we closed it, so that another campaign of the name may propose the change
        // again.
        let (state, reason) = match (pull.open, pull.merged) {
            (_, true) => (TargetState::Merged, None),
            (true, false) => (TargetState::Superseded, Some(self.why())),
            (false, false) if self.closed_by_us(target, repository, number, &marker).await? => {
                (TargetState::Superseded, Some(self.why()))
            }
            (false, false) => {
                (TargetState::Closed, Some("its pull request was closed unmerged".to_owned()))
            }
        };
        let store = &self.fleet.store;
        store.observe_target(target.id, state, reason.as_deref(), None).await.map_err(unusable)?;
        if !self.options.keep_branches {
            self.closing(target, Closing::Begun).await?;
            self.branch(target, repository, &pull).await?;
        }
        self.closing(target, Closing::Finished).await
    }

    async fn closing(&self, target: &Target, closing: Closing) -> Result<(), ForgeError> {
        self.fleet.store.set_closing(target.id, closing).await.map_err(unusable)
    }

    /// We closed it: the store says so, or what we said there, when the store has lost it.
    async fn closed_by_us(
        &self,
        target: &Target,
        repository: &RepositoryId,
        number: u64,
        marker: &str,
    ) -> Result<bool, ForgeError> {
        if target.closing_at.is_some() {
            return Ok(true);
        }
        let comments = self.forge.comments(repository, number, MOST_COMMENTS).await?;
        Ok(comments.iter().any(|comment| comment.ours && comment.body.contains(marker)))
    }

    /// Removes the branch when it is what we pushed.
    async fn branch(
        &mut self,
        target: &Target,
        repository: &RepositoryId,
        pull: &PullRequest,
    ) -> Result<(), ForgeError> {
        let branch = &pull.head_branch;
        let pushed = pushed(&self.fleet.store, target).await?;
        // Without a record of the push nobody knows whose commits the branch holds.
        let Some(pushed) = pushed.filter(|(name, _)| name == branch).map(|(_, commit)| commit)
        else {
            return Ok(());
        };
        if self.options.dry_run {
            let tip = self.forge.branch_tip(repository, branch).await?;
            self.summary.removed += usize::from(tip == Some(pushed));
            if let Some(tip) = tip.filter(|tip| *tip != pushed) {
                self.summary.of_others += usize::from(pull.open);
                let doing =
                    if pull.open { " would be closed with commits of others, and" } else { ":" };
                self.fleet.ui.say(&format!(
                    "{repository}: #{}{doing} `{branch}` would stay: it points to {}, which we did not push",
                    pull.number,
                    tip.short()
                ));
            }
            return Ok(());
        }
        match self.forge.remove_branch(repository, branch, pushed).await? {
            BranchRemoval::Yes => self.summary.removed += 1,
            BranchRemoval::Gone => {}
            BranchRemoval::Moved(tip) => self.fleet.ui.say(&format!(
                "{repository}: `{branch}` stays: it points to {}, which we did not push",
                tip.short()
            )),
        }
        Ok(())
    }

    fn say(&self, target: &Target, pull: &PullRequest) {
        let doing = if self.options.dry_run { "would close" } else { "closing" };
        self.fleet.ui.say(&format!("{}: {doing} {}", target.repository, pull.html_url));
        self.fleet.ui.event(&CampaignEvent::Close {
            campaign: &target.campaign,
            repository: &target.repository,
            pull_request: pull.number,
            url: &pull.html_url,
            dry_run: self.options.dry_run,
        });
    }

    fn words(&self, marker: &str) -> String {
        let name = self.name;
        let first = match &self.options.superseded_by {
            Some(other) => format!(
                "Campaign `{other}` has taken over from campaign `{name}`, so this pull request is \
                 closed."
            ),
            None => format!("Campaign `{name}` has ended, so this pull request is closed."),
        };
        let comment = self.options.comment.as_deref().map(str::trim).unwrap_or_default();
        let parts = [first.as_str(), comment, marker];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        self.fleet.redactor.redact(&parts.join("\n\n"))
    }
}

fn is_queued(target: &Target) -> bool {
    matches!(target.state, TargetState::Waiting | TargetState::Queued | TargetState::Ready)
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` wants it")]
fn unusable(error: StoreError) -> ForgeError {
    ForgeError::Machine { message: error.to_string() }
}

/// The branch and the commit that we pushed for a target.
async fn pushed(store: &Store, target: &Target) -> Result<Option<(String, Oid)>, ForgeError> {
    let stored = store.changeset(target.id).await.map_err(unusable)?;
    let Some(stored) = stored else { return Ok(None) };
    let commit = stored.commit.parse().map_err(|_| ForgeError::Machine {
        message: format!(
            "the database says `{}` was pushed for {}, which is no commit",
            stored.commit, target.repository
        ),
    })?;
    Ok(Some((stored.branch, commit)))
}
