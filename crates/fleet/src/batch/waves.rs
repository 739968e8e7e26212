//! Which targets may be worked on: waves and their gates. Pure.

use super::campaign::{Campaign, Wave, WaveSize};
use super::drive::is_being_published;
use patchwright_base::duration::parse_duration;
use patchwright_types::campaign::{CampaignView, ErrorClass, Millis, Target, TargetState};

/// Ended targets before a failure rate means anything.
const ENOUGH_TO_JUDGE: usize = 10;

/// What happens next in a campaign.
#[derive(Clone, Debug, PartialEq)]
pub enum WaveStep {
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
/// rate, for a mistake that is the same everywhere, and when the budget has no room for another run.
pub fn next(campaign: &Campaign, view: &CampaignView) -> WaveStep {
    if let Some(why) = reason_to_pause(campaign, view) {
        return WaveStep::Pause(why);
    }
    let open = view.campaign.wave;
    let waiting = || view.targets.iter().filter(|target| target.state == TargetState::Waiting);
    // New targets of a wave that was opened before, and the very first wave.
    if let Some(late) = waiting().map(|target| target.wave).filter(|wave| *wave <= open).min() {
        return WaveStep::Open(late);
    }
    let is_waiting = |target: &&Target| target.state == TargetState::Waiting;
    let busy =
        view.targets.iter().filter(|target| !target.state.is_settled() && !is_waiting(target));
    let busy = busy.count();
    let Some(next) = waiting().map(|target| target.wave).min() else {
        return if busy == 0 {
            WaveStep::Done
        } else {
            WaveStep::Wait(format!("{} to go", targets(busy)))
        };
    };
    if busy > 0 {
        return WaveStep::Wait(format!("wave {}: {} to go", open + 1, targets(busy)));
    }
    match gate(campaign, view, open) {
        Some(step) => step,
        None => WaveStep::Open(next),
    }
}

/// What keeps the wave after `open` shut.
fn gate(campaign: &Campaign, view: &CampaignView, open: i64) -> Option<WaveStep> {
    // What is left after the last wave has the gate of the last wave before it.
    let place = usize::try_from(open).ok()?.min(campaign.waves.len().checked_sub(1)?);
    let wave = campaign.waves.get(place)?;
    let ended: Vec<&Target> = worked(view).filter(|target| target.wave == open).collect();
    let good = ended.iter().filter(|target| target.state.is_success()).count();
    if !ended.is_empty() && share(good, ended.len()) < wave.min_success {
        return Some(WaveStep::Pause(format!(
            "wave {}: {good} of {} succeeded, and the next wave takes {}; look at the failures, then \
             `patchwright batch retry`",
            open + 1,
            targets(ended.len()),
            percent(wave.min_success),
        )));
    }
    let wait = match soaking(wave, &ended, view.now) {
        Ok(wait) => wait,
        Err(why) => return Some(WaveStep::Pause(format!("wave {}: {why}", open + 1))),
    };
    if let Some(wait) = wait {
        let minutes = wait / 60_000 + i64::from(wait % 60_000 > 0);
        return Some(WaveStep::Wait(format!(
            "wave {} has ended; the next one opens in {minutes} minutes",
            open + 1
        )));
    }
    let most = wave.max_open_pull_requests?;
    let pulls = view.targets.iter().filter(|target| is_open(target)).count();
    (pulls > most as usize).then(|| {
        WaveStep::Wait(format!("{pulls} pull requests are open; the next wave opens at {most}"))
    })
}

/// How long the next wave has to wait yet. A gate that cannot be read stays shut.
fn soaking(wave: &Wave, ended: &[&Target], now: Millis) -> Result<Option<Millis>, String> {
    let Some(text) = wave.soak.as_deref() else { return Ok(None) };
    let unreadable = || format!("its `soak` is `{text}`, which is no duration");
    let soak = parse_duration(text).map_err(|_| unreadable())?;
    let soak = Millis::try_from(soak.as_millis()).map_err(|_| unreadable())?;
    // The end of our work: a soak waits for what people do with the pull requests, which would begin it anew.
    let Some(last) = ended.iter().filter_map(|target| target.worked_until()).max() else {
        return Ok(None);
    };
    // An end in the future is a clock that jumped: the wait is never longer than the soak.
    let left = last.saturating_add(soak).saturating_sub(now).min(soak);
    Ok((left > 0).then_some(left))
}

fn reason_to_pause(campaign: &Campaign, view: &CampaignView) -> Option<String> {
    let to_do = view
        .targets
        .iter()
        .any(|target| matches!(target.state, TargetState::Waiting | TargetState::Queued));
    if !to_do {
        return None;
    }
    let mut failed = view.targets.iter().filter(|target| target.state == TargetState::Failed);
    if let Some(target) =
        failed.clone().find(|target| target.class == Some(ErrorClass::Configuration))
    {
        let why = target.reason.as_deref().unwrap_or("the configuration is wrong");
        return Some(format!(
            "{}: {why}; it would fail everywhere, so correct it, then `patchwright batch retry`",
            target.repository
        ));
    }
    // A stored change is a success of its run, whenever it is published.
    let stored = |target: &&Target| is_being_published(target);
    let ended = worked(view).count() + view.targets.iter().filter(stored).count();
    if let Some(most) = campaign.limits.max_failure_rate
        && ended >= ENOUGH_TO_JUDGE
    {
        let count = failed.by_ref().count();
        if count > 0 && share(count, ended) >= most {
            return Some(format!(
                "{count} of {} failed, and `limits.max-failure-rate` is {}; look at the failures, then \
                 `patchwright batch retry`",
                targets(ended),
                percent(most)
            ));
        }
    }
    let budget = campaign.limits.budget_usd?;
    let running = view.targets.iter().any(|target| target.state == TargetState::Running);
    let left = budget - view.campaign.spent_usd;
    let next = campaign.agent.max_cost_usd.unwrap_or_default();
    (!running && (left <= 0.0 || left < next)).then(|| {
        let spent = view.campaign.spent_usd;
        format!(
            "${spent:.2} of the budget of ${budget:.2} are spent, and the next run may cost \
             ${next:.2}; raise `limits.budget-usd` to continue"
        )
    })
}

/// Targets that were worked on and have come to an end.
fn worked(view: &CampaignView) -> impl Iterator<Item = &Target> {
    view.targets.iter().filter(|target| {
        target.state.is_settled()
            && !matches!(target.state, TargetState::Skipped | TargetState::Superseded)
    })
}

fn is_open(target: &Target) -> bool {
    matches!(target.state, TargetState::Open | TargetState::Draft)
}

#[expect(clippy::cast_precision_loss, reason = "counts of repositories")]
pub(super) fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn targets(count: usize) -> String {
    if count == 1 { "1 target".to_owned() } else { format!("{count} targets") }
}

/// Which wave each of `count` targets belongs to, in order. What is left after the last wave is one
/// more.
pub fn assign(campaign: &Campaign, count: usize) -> Vec<i64> {
    let mut waves = Vec::with_capacity(count);
    for (number, wave) in (0i64..).zip(&campaign.waves) {
        let end = end_of(&wave.size, count);
        while waves.len() < end.min(count) {
            waves.push(number);
        }
    }
    let last = i64::try_from(campaign.waves.len()).unwrap_or(i64::MAX);
    waves.resize(count, last);
    waves
}

/// How many targets have been taken once a wave of this size is open.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count, from 0 to that count"
)]
fn end_of(size: &WaveSize, count: usize) -> usize {
    match size {
        WaveSize::Count(size) => *size as usize,
        // 5 % of 20 is 1, whatever the fractions are like.
        WaveSize::Percent(percent) => {
            (percent * count as f64 / 100.0 - 1e-9).ceil().max(1.0) as usize
        }
        WaveSize::All => count,
    }
}
