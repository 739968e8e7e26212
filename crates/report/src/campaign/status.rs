//! `batch status --json`: a campaign as one JSON object. Fields are only ever added.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::{self, Eta, Figures};
use patchwright_types::campaign::{CampaignView, Millis, OutageRow, Target, TargetState};
use patchwright_types::dollars;
use patchwright_types::run_facts::ChecksVerdict;

/// A campaign for programs. Times are RFC 3339 in UTC, amounts are dollars.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// Always `campaign`.
    pub is: &'static str,
    pub id: String,
    pub name: String,
    /// `running`, `paused`, `done` or `closed`.
    pub state: &'static str,
    /// Why it is paused.
    pub reason: Option<String>,
    /// The wave that is open; the first is 1.
    pub wave: i64,
    /// `OWNER/REPO#N`.
    pub tracking_issue: Option<String>,
    pub created_at: String,
    /// When this was true.
    pub at: String,
    pub targets: usize,
    /// Targets with which nothing more happens by itself.
    pub settled: usize,
    pub failed: usize,
    /// Targets that are said to be worked on, while nobody does: their process ended without a word.
    pub interrupted: usize,
    /// How many targets are in each state; states without a target are left out.
    pub states: BTreeMap<&'static str, usize>,
    /// Failed targets by error class.
    pub classes: BTreeMap<&'static str, usize>,
    #[serde(serialize_with = "dollars::rounded")]
    pub cost_usd: f64,
    pub budget_usd: Option<f64>,
    pub tokens: i64,
    /// Seconds that it is expected to take; `null` when nobody can know.
    pub eta: Option<EtaStatus>,
    /// Services that it waits for.
    pub outages: Vec<OutageStatus>,
    pub repositories: Vec<TargetStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EtaStatus {
    /// The greater of the two, as they go on at the same time.
    pub seconds: i64,
    /// Until the last agent run has ended.
    pub agents_seconds: i64,
    /// What publishing takes at the pace that GitHub allows.
    pub publishing_seconds: i64,
}

/// A service that does not work, so that nothing that needs it is begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutageStatus {
    /// `forge-api`, `git` or `model`.
    pub service: &'static str,
    pub since: String,
    /// When it is tried again.
    pub until: String,
    /// What the service said last.
    pub reason: String,
}

/// One repository, or pull request, of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TargetStatus {
    /// Names it in the database.
    pub id: i64,
    /// `OWNER/REPO`.
    pub repository: String,
    /// Number of the pull request that is reviewed, in mode `review`.
    pub number: Option<i64>,
    pub state: &'static str,
    /// Its state is `running` or `publishing`, and nobody is at it.
    pub interrupted: bool,
    /// Error class, when it failed.
    pub class: Option<&'static str>,
    pub reason: Option<String>,
    /// What the checks said about the change of its last run: `passed`, `failed` or `none` (none ran on it); `null`
    /// without a change.
    pub checks: Option<&'static str>,
    /// A command of the last run's setup failed.
    pub setup_failed: Option<bool>,
    /// The wave that it belongs to; the first is 1.
    pub wave: i64,
    pub base_branch: String,
    pub base_sha: String,
    /// Where the base branch was when the open pull request was last seen to fit there, other than `base_sha`.
    pub fits_sha: Option<String>,
    /// Number of the pull request that was opened, and its page.
    pub pull_request: Option<i64>,
    pub url: Option<String>,
    /// Name of the folder below `runs` in the state folder.
    pub run: Option<String>,
    pub attempts: i64,
    #[serde(serialize_with = "dollars::rounded")]
    pub cost_usd: f64,
    pub tokens: i64,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
    /// When publishing was over: the pull request was open, or there was nothing to open.
    pub published_at: Option<String>,
    /// When the pull request was merged or closed.
    pub closed_at: Option<String>,
    /// Length of its last run, or of the one that is going on.
    pub seconds: Option<i64>,
    /// Length of publishing, without the wait for it.
    pub publishing_seconds: Option<i64>,
    /// How long the pull request was open, or has been.
    pub review_seconds: Option<i64>,
}

/// A campaign as programs read it.
pub fn status(view: &CampaignView) -> Status {
    let Figures {
        total,
        by_state,
        by_class,
        settled,
        failed,
        interrupted,
        cost_usd,
        tokens,
        budget_usd,
        eta,
        ..
    } = Figures::compute(view);
    let campaign = &view.campaign;
    let no_class = "none";
    let mut classes = BTreeMap::new();
    for (class, count) in by_class {
        *classes
            .entry(class.map_or(no_class, patchwright_types::campaign::ErrorClass::word))
            .or_insert(0) += count;
    }
    Status {
        is: "campaign",
        id: campaign.id.clone(),
        name: campaign.name.clone(),
        state: campaign.state.word(),
        reason: campaign.reason.clone(),
        wave: campaign.wave.saturating_add(1),
        tracking_issue: campaign.tracking_issue.clone(),
        created_at: rfc3339(campaign.created_at),
        at: rfc3339(view.now),
        targets: total,
        settled,
        failed,
        interrupted,
        states: by_state
            .into_iter()
            .map(|(state, count)| (TargetState::word(state), count))
            .collect(),
        classes,
        cost_usd,
        budget_usd,
        tokens,
        eta: eta.map(seconds),
        outages: view.outages.iter().map(outage_status).collect(),
        repositories: view.targets.iter().map(|target| target_status(target, view)).collect(),
    }
}

fn seconds(eta: Eta) -> EtaStatus {
    EtaStatus {
        seconds: eta.ms() / 1_000,
        agents_seconds: eta.agents_ms / 1_000,
        publishing_seconds: eta.publishing_ms / 1_000,
    }
}

fn target_status(target: &Target, view: &CampaignView) -> TargetStatus {
    TargetStatus {
        id: target.id,
        repository: target.repository.clone(),
        number: target.number,
        state: target.state.word(),
        interrupted: view.interrupted.contains(&target.id),
        class: target.class.map(patchwright_types::campaign::ErrorClass::word),
        reason: target.reason.clone(),
        checks: target.facts.checks.map(ChecksVerdict::word),
        setup_failed: target.facts.setup_failed,
        wave: target.wave.saturating_add(1),
        base_branch: target.base_branch.clone(),
        base_sha: target.base_sha.clone(),
        fits_sha: target.fits_sha.clone(),
        pull_request: target.pull_request,
        url: target.url.clone(),
        run: target.run.clone(),
        attempts: target.attempts,
        cost_usd: target.cost_usd,
        tokens: target.tokens,
        started_at: target.started_at.map(rfc3339),
        ended_at: target.ended_at.map(rfc3339),
        published_at: target.published_at.map(rfc3339),
        closed_at: target.closed_at.map(rfc3339),
        seconds: figures::lasted_in(target, view).map(|ms| ms / 1_000),
        publishing_seconds: figures::in_publishing(target, view.now).map(|ms| ms / 1_000),
        review_seconds: figures::in_review(target, view.now).map(|ms| ms / 1_000),
    }
}

/// Milliseconds since 1970 as RFC 3339.
pub fn rfc3339(at: Millis) -> String {
    figures::time(at, "%Y-%m-%dT%H:%M:%SZ")
}

fn outage_status(row: &OutageRow) -> OutageStatus {
    OutageStatus {
        service: row.service.word(),
        since: rfc3339(row.since),
        until: rfc3339(row.until),
        reason: row.why.clone(),
    }
}
