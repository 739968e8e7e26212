//! The table that stands in a terminal while a campaign runs, as lines of text, and the lines that a log
//! gets instead. Pure; drawing is `patchwright::cli::live`.

use super::figures::{self, Figures, dollars, duration};
use super::outage::outage;
use patchwright_base::text;
use patchwright_types::campaign::{CampaignState, CampaignView, Millis, Target, TargetState};

/// Lines of running repositories at most.
const MAX_RUNNING: usize = 12;

/// A wait that is going on: for GitHub, a window or a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What for, for people.
    pub why: String,
    /// Until when, where that is known.
    pub until: Option<Millis>,
}

/// The table, at most `height` lines of `width` columns.
pub fn frame(
    view: &CampaignView,
    waiting: Option<&Waiting>,
    width: usize,
    height: usize,
) -> Vec<String> {
    let figures = Figures::compute(view);
    let mut lines = vec![summary(view, &figures)];
    let mut running: Vec<&Target> = view
        .targets
        .iter()
        .filter(|target| matches!(target.state, TargetState::Running | TargetState::Publishing))
        .collect();
    // The oldest first, so that a run that hangs is visible.
    running.sort_by_key(|target| (target.started_at.unwrap_or(Millis::MAX), target.id));
    let room = height.saturating_sub(3).min(MAX_RUNNING);
    let shown = if running.len() > room { room.saturating_sub(1) } else { running.len() };
    let widest = running.iter().take(shown).map(|target| columns(&figures::subject(target))).max();
    let widest = widest.unwrap_or(0).min(width / 2);
    for target in running.iter().take(shown) {
        lines.push(running_line(target, view.now, widest));
    }
    if running.len() > shown {
        lines.push(format!("  and {} more", running.len() - shown));
    }
    lines.extend(view.outages.iter().map(|row| outage(row, view.now)));
    if let Some(waiting) = waiting {
        let left =
            waiting.until.map(|until| until.saturating_sub(view.now)).filter(|left| *left > 0);
        let left = left.map(|left| format!(", {} left", duration(left))).unwrap_or_default();
        lines.push(format!("waiting: {}{left}", text::line(&waiting.why)));
    }
    lines.truncate(height.max(1));
    lines.into_iter().map(|line| fit(&line, width)).collect()
}

/// `31/200 done · 3 failed · 4 running · 12 to publish · 5 skipped · $1.20 of $50.00 · 12m left`. What is skipped is no
/// part of the 200, and what failed is not done.
pub(super) fn summary(view: &CampaignView, figures: &Figures) -> String {
    let mut parts = vec![format!("{}/{} done", figures.done(), figures.wanted())];
    let opened = |target: &&Target| {
        target.state == TargetState::Waiting && target.wave <= view.campaign.wave
    };
    let not_begun = view.targets.iter().filter(opened).count();
    let counts = [
        (figures.failed, "failed"),
        (figures.running(view), "running"),
        (figures.interrupted, "interrupted"),
        (figures.count(TargetState::Queued), "queued"),
        (not_begun, "not begun"),
        (figures.count(TargetState::Waiting).saturating_sub(not_begun), "in later waves"),
        (figures.to_publish(), "to publish"),
        (figures.count(TargetState::Open) + figures.count(TargetState::Draft), "open"),
        (figures.count(TargetState::Merged), "merged"),
        (figures.count(TargetState::Closed), "closed"),
        (figures.count(TargetState::Superseded), "superseded"),
        (figures.count(TargetState::Skipped), "skipped"),
    ];
    parts.extend(
        counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}")),
    );
    parts.push(cost(figures));
    match view.campaign.state {
        CampaignState::Paused => {
            let reason = view.campaign.reason.as_deref().map(text::line).unwrap_or_default();
            parts.push(if reason.is_empty() {
                "paused".to_owned()
            } else {
                format!("paused: {reason}")
            });
        }
        CampaignState::Closed => parts.push("the campaign was closed".to_owned()),
        CampaignState::Running | CampaignState::Done => parts.extend(eta(figures)),
    }
    format!("{}: {}", text::line(&view.campaign.name), parts.join(" · "))
}

/// `$1.20 of $50.00`.
pub(super) fn cost(figures: &Figures) -> String {
    // Without a price nobody knows dollars; none at all would be a statement.
    let is_unpriced = figures.cost_usd <= 0.0 && figures.tokens > 0;
    let spent =
        if is_unpriced { format!("{} tokens", figures.tokens) } else { dollars(figures.cost_usd) };
    figures
        .budget_usd
        .map_or_else(|| spent.clone(), |budget| format!("{spent} of {}", dollars(budget)))
}

/// `about 12 min left`, and what it hangs on.
pub(super) fn eta(figures: &Figures) -> Option<String> {
    let eta = figures.eta?;
    let by = if eta.is_by_rate_limit() { " by GitHub's limits" } else { "" };
    Some(format!("about {} left{by}", duration(eta.ms())))
}

fn running_line(target: &Target, now: Millis, widest: usize) -> String {
    let name = fit(&figures::subject(target), widest);
    let pad = " ".repeat(widest.saturating_sub(columns(&name)));
    let phase = target.reason.as_deref().map(text::line).filter(|reason| !reason.is_empty());
    let phase = phase.unwrap_or_else(|| target.state.word().to_owned());
    let age = match target.state {
        TargetState::Running => figures::lasted(target, now).map(duration).unwrap_or_default(),
        _ => String::new(),
    };
    let again =
        if target.attempts > 1 { format!(" (attempt {})", target.attempts) } else { String::new() };
    format!("  {name}{pad}  {age:>11}  {phase}{again}")
}

/// A line for each target that came to something since `before`: what a log wants to keep.
pub fn changes(before: &CampaignView, after: &CampaignView) -> Vec<String> {
    let old: std::collections::BTreeMap<i64, &Target> =
        before.targets.iter().map(|target| (target.id, target)).collect();
    // The beginning of the command has said what is skipped.
    let counts = |target: &&Target| target.state != TargetState::Skipped;
    let all = after.targets.iter().filter(counts).count();
    let is_old = |target: &&Target| {
        let was = old.get(&target.id).map(|target| target.state);
        target.state.is_settled()
            && (was == Some(target.state) || was.is_some_and(TargetState::is_settled))
    };
    // Each line counts itself: several may come to an end between two looks.
    let mut settled = after.targets.iter().filter(counts).filter(is_old).count();
    let mut lines = Vec::new();
    for target in &after.targets {
        let was = old.get(&target.id).map(|target| target.state);
        settled += usize::from(counts(&target) && target.state.is_settled() && !is_old(&target));
        let from_the_start = was.is_none() && target.state == TargetState::Skipped;
        if was == Some(target.state) || !worth_a_line(target.state) || from_the_start {
            continue;
        }
        lines.push(format!("[{settled}/{all}] {}", outcome(target)));
    }
    if before.campaign.state != after.campaign.state {
        let reason = after.campaign.reason.as_deref().map(text::line).unwrap_or_default();
        let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
        lines.push(format!(
            "{} is {}{reason}",
            text::line(&after.campaign.name),
            after.campaign.state.word()
        ));
    }
    if before.campaign.wave != after.campaign.wave {
        lines.push(format!("wave {} is open", after.campaign.wave + 1));
    }
    lines
}

fn worth_a_line(state: TargetState) -> bool {
    state.is_settled() || state == TargetState::Ready
}

/// `acme/web: open, https://…, $0.12, 3 min 10 s`.
pub(super) fn outcome(target: &Target) -> String {
    let mut parts = vec![target.state.word().to_owned()];
    if let Some(class) = target.class.filter(|_| target.state == TargetState::Failed) {
        parts[0] = format!("failed ({})", class.word());
    }
    if let Some(reason) =
        target.reason.as_deref().map(text::line).filter(|reason| !reason.is_empty())
    {
        parts[0] = format!("{}: {}", parts[0], text::cut(&reason, 160));
    }
    parts.extend(figures::link(target).map(str::to_owned));
    if target.cost_usd > 0.0 {
        parts.push(dollars(target.cost_usd));
    }
    parts.extend(figures::run_ms(target).map(duration));
    format!("{}: {}", figures::subject(target), parts.join(", "))
}

/// Columns that a text takes: two for what may be wide.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

fn width(c: char) -> usize {
    if c < '\u{1100}' || matches!(c, '\u{2000}'..='\u{2e7f}') { 1 } else { 2 }
}

/// At most `most` columns.
pub(super) fn fit(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut used = 1;
    let kept = text.chars().take_while(|c| {
        used += width(*c);
        used <= most
    });
    let kept: String = kept.collect();
    if most == 0 { String::new() } else { format!("{}…", kept.trim_end()) }
}
