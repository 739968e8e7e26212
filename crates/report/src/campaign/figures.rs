//! What a campaign comes to: counts, cost, and when it is going to end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::publishing::{self, Publishing};
use patchwright_base::duration::format_duration;
use patchwright_base::text;
use patchwright_types::campaign::{
    CampaignState, CampaignView, ErrorClass, Millis, Target, TargetState,
};

/// How a campaign stands, in numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// All of them, those included that are skipped.
    pub total: usize,
    pub by_state: BTreeMap<TargetState, usize>,
    /// Failed targets by class; `None`: without one.
    pub by_class: BTreeMap<Option<ErrorClass>, usize>,
    /// Nothing more happens by itself.
    pub settled: usize,
    pub failed: usize,
    /// Said to be worked on, while nobody does.
    pub interrupted: usize,
    /// Dollars and tokens of all runs that have ended.
    pub cost_usd: f64,
    pub tokens: i64,
    pub budget_usd: Option<f64>,
    /// Mean length of a run, of publishing its change, and of people's review, each apart.
    pub run_ms: Option<Millis>,
    pub publishing_ms: Option<Millis>,
    pub review_ms: Option<Millis>,
    /// While it runs and there is something to go by.
    pub eta: Option<Eta>,
}

/// How long it is going to take, were everything to go on as so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eta {
    /// Until the last agent run has ended.
    pub agents_ms: Millis,
    /// What publishing takes at the pace that GitHub allows.
    pub publishing_ms: Millis,
}

impl Eta {
    /// Both go on at the same time.
    pub fn ms(self) -> Millis {
        self.agents_ms.max(self.publishing_ms)
    }

    /// Publishing is what takes longest.
    pub fn is_by_rate_limit(self) -> bool {
        self.publishing_ms > self.agents_ms
    }
}

impl Figures {
    pub fn compute(view: &CampaignView) -> Figures {
        let targets = &view.targets;
        let mut by_state = BTreeMap::new();
        let mut by_class = BTreeMap::new();
        for target in targets {
            *by_state.entry(target.state).or_insert(0) += 1;
            if target.state == TargetState::Failed {
                *by_class.entry(target.class).or_insert(0) += 1;
            }
        }
        let count =
            |test: fn(TargetState) -> bool| targets.iter().filter(|t| test(t.state)).count();
        let sum: f64 = targets.iter().map(|target| sane(target.cost_usd)).sum();
        let mut figures = Figures {
            total: targets.len(),
            by_state,
            by_class,
            settled: count(TargetState::is_settled),
            failed: count(|state| state == TargetState::Failed),
            interrupted: view.interrupted.len(),
            // Superseded targets have cost something, too.
            cost_usd: sane(view.campaign.spent_usd).max(sum),
            tokens: targets
                .iter()
                .fold(0, |sum: i64, target| sum.saturating_add(target.tokens.max(0))),
            budget_usd: view.campaign.budget_usd,
            run_ms: mean(targets.iter().filter_map(run_ms)),
            publishing_ms: mean(targets.iter().filter_map(publishing_ms)),
            review_ms: mean(targets.iter().filter_map(closed_after)),
            eta: None,
        };
        figures.eta = figures.estimate(view);
        figures
    }

    pub fn count(&self, state: TargetState) -> usize {
        self.by_state.get(&state).copied().unwrap_or(0)
    }

    /// Targets that the campaign is about: not those that it skips.
    pub fn wanted(&self) -> usize {
        self.total.saturating_sub(self.count(TargetState::Skipped))
    }

    /// Of those, the ones that came to a good end.
    pub fn done(&self) -> usize {
        let apart = self.count(TargetState::Skipped) + self.failed;
        self.settled.saturating_sub(apart)
    }

    /// Runs that somebody is at.
    pub fn running(&self, view: &CampaignView) -> usize {
        let is_at_work = |target: &&Target| {
            target.state == TargetState::Running && !view.interrupted.contains(&target.id)
        };
        view.targets.iter().filter(is_at_work).count()
    }

    /// Agent runs that are still to come or going on.
    pub fn to_run(&self) -> usize {
        [TargetState::Waiting, TargetState::Queued, TargetState::Running]
            .map(|state| self.count(state))
            .iter()
            .sum()
    }

    /// Stored changes that are going to be published.
    pub fn to_publish(&self) -> usize {
        self.count(TargetState::Ready) + self.count(TargetState::Publishing)
    }

    /// Nothing is worked on, and what is left waits for its wave, or to be published.
    fn is_held_up(view: &CampaignView) -> bool {
        let waits = |target: &Target| match target.state {
            TargetState::Waiting => true,
            TargetState::Ready => {
                target.reason.as_deref().is_some_and(|why| why.starts_with("waits"))
            }
            state => state.is_settled(),
        };
        view.targets.iter().all(waits)
    }

    fn estimate(&self, view: &CampaignView) -> Option<Eta> {
        let (to_run, to_publish) = (self.to_run(), self.to_publish());
        if view.campaign.state != CampaignState::Running || to_run + to_publish == 0 {
            return None;
        }
        // What waits for a service, a window or people takes as long as they do.
        if !view.outages.is_empty() || Figures::is_held_up(view) {
            return None;
        }
        let running = self.running(view);
        // Nobody is at work, and nobody knows when somebody will be.
        if self.interrupted > 0 && running == 0 {
            return None;
        }
        let at_once = view.campaign.concurrency.and_then(|most| usize::try_from(most).ok());
        let at_once = at_once.unwrap_or(running).max(running).max(1);
        let agents_ms = match (to_run, self.run_ms) {
            (0, _) => 0,
            (_, None) => return None,
            (_, Some(each)) => each.saturating_mul(wide(to_run.div_ceil(at_once))),
        };
        let publishing = Publishing::of(&Spec::parse(view).value, &view.targets);
        let publishing_ms = publishing.time_for(to_publish, to_run);
        Some(Eta { agents_ms, publishing_ms })
    }
}

/// What the campaign file says that matters here.
pub(super) struct Spec {
    value: Value,
    pub(super) mode: String,
}

impl Spec {
    pub(super) fn parse(view: &CampaignView) -> Spec {
        // Pages also show campaigns whose file cannot be read any more; resuming such a campaign
        // reports the error.
        let value: Value = serde_json::from_str(&view.campaign.spec).unwrap_or_default();
        Spec { mode: publishing::mode(&value).to_owned(), value }
    }

    pub(super) fn description(&self) -> Option<&str> {
        self.value["description"].as_str().map(str::trim).filter(|text| !text.is_empty())
    }

    /// The waves of the file; empty: everything at once.
    pub(super) fn waves(&self) -> &[Value] {
        self.value["waves"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// How long the last run of a target took, with what it had taken before it was interrupted.
pub(super) fn run_ms(target: &Target) -> Option<Millis> {
    let last = target.ended_at?.checked_sub(target.started_at?)?;
    Some(target.facts.run_ms.unwrap_or(last)).filter(|length| *length >= 0)
}

/// How long the publisher took, not counting how long the change waited for it.
pub(super) fn publishing_ms(target: &Target) -> Option<Millis> {
    Some(target.published_at?.checked_sub(target.publishing_at?)?).filter(|length| *length >= 0)
}

/// How long the pull request was open.
fn closed_after(target: &Target) -> Option<Millis> {
    Some(target.closed_at?.checked_sub(target.published_at?)?).filter(|length| *length >= 0)
}

/// How long the pull request was, or has been, open for people to look at.
pub(super) fn in_review(target: &Target, now: Millis) -> Option<Millis> {
    match (target.state, target.published_at) {
        (TargetState::Open | TargetState::Draft, Some(at)) => Some(now.saturating_sub(at).max(0)),
        _ => closed_after(target),
    }
}

/// How long publishing took, or has taken so far.
pub(super) fn in_publishing(target: &Target, now: Millis) -> Option<Millis> {
    match (target.state, target.publishing_at) {
        (TargetState::Publishing, Some(at)) => Some(now.saturating_sub(at).max(0)),
        _ => publishing_ms(target),
    }
}

fn mean(lengths: impl Iterator<Item = Millis>) -> Option<Millis> {
    let (sum, count) = lengths
        .fold((0_i64, 0_i64), |(sum, count), length| (sum.saturating_add(length), count + 1));
    (count > 0).then(|| sum / count)
}

fn sane(dollars: f64) -> f64 {
    if dollars.is_finite() && dollars > 0.0 { dollars } else { 0.0 }
}

fn wide(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "counts of repositories")]
pub(super) fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// [`format_duration`] of milliseconds; none is shorter than nothing, whatever clocks said.
pub fn duration(ms: Millis) -> String {
    format_duration(Duration::from_millis(ms.max(0).unsigned_abs()))
}

/// `$1.20`; four digits below a cent.
pub fn dollars(amount: f64) -> String {
    let amount = sane(amount);
    if amount > 0.0 && amount < 0.01 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// `2026-11-20 02:00 UTC`.
pub fn moment(at: Millis) -> String {
    time(at, "%Y-%m-%d %H:%M UTC")
}

/// A time in a form of our own; empty for one that no calendar has.
pub(super) fn time(at: Millis, form: &str) -> String {
    chrono::DateTime::from_timestamp_millis(at)
        .map(|at| at.format(form).to_string())
        .unwrap_or_default()
}

/// As [`lasted`]; of a run that was interrupted nobody knows it.
pub(super) fn lasted_in(target: &Target, view: &CampaignView) -> Option<Millis> {
    if view.interrupted.contains(&target.id) { None } else { lasted(target, view.now) }
}

/// The state of a target in a word.
pub(super) fn state_word(target: &Target, view: &CampaignView) -> &'static str {
    if view.interrupted.contains(&target.id) { "interrupted" } else { target.state.word() }
}

/// How long a target has been, or was, worked on.
pub(super) fn lasted(target: &Target, now: Millis) -> Option<Millis> {
    match (target.state, target.started_at) {
        (TargetState::Running, Some(started)) => Some(now.saturating_sub(started).max(0)),
        _ => run_ms(target),
    }
}

/// `acme/web`, or `acme/web#7` where a pull request is reviewed.
pub(super) fn subject(target: &Target) -> String {
    let repository = text::line(&target.repository);
    target.number.map_or_else(|| repository.clone(), |number| format!("{repository}#{number}"))
}

/// The address of the pull request or review, when it is one that a browser may be sent to.
pub(super) fn link(target: &Target) -> Option<&str> {
    let url = target.url.as_deref()?.trim();
    let web = url.starts_with("https://") || url.starts_with("http://");
    let plain = |c: char| c.is_ascii_graphic() && !"<>\"'()[]{}|\\^`".contains(c);
    (web && url.len() <= 2_000 && url.chars().all(plain)).then_some(url)
}
