//! The tracking issue of a campaign: one table, kept within what GitHub takes, and boxes to tick for
//! what is to be tried again.

use std::fmt::Write as _;

use super::figures::{self, Figures, Spec, dollars, duration, moment};
use super::live;
use super::outage::outage;
use crate::MAX_BODY;
use patchwright_base::text;
use patchwright_types::campaign::{CampaignState, CampaignView, ErrorClass, Target, TargetState};

/// Boxes at most: nobody ticks more one by one.
const MAX_BOXES: usize = 200;

/// Room for the boxes; the table has the rest.
const BOXES: usize = MAX_BODY / 2;

/// What hides in the line of a box.
const BOX: &str = "<!-- patchwright:retry target=";

/// The body of its tracking issue, with `marker` as a line of it. At most as long as GitHub takes; what
/// has no room is counted.
pub fn issue_body(view: &CampaignView, marker: &str) -> String {
    let figures = Figures::compute(view);
    let mut out = format!("{marker}\n");
    head(view, &figures, &mut out);
    boxes(view, &mut out);
    table(view, &mut out);
    out
}

/// The targets whose box is ticked in a body that [`issue_body`] made, also after people edited it.
pub fn ticked(body: &str) -> Vec<i64> {
    let mut found = Vec::new();
    for line in body.lines() {
        let line = line.trim_start();
        let Some(item) = line.strip_prefix(['-', '*', '+']) else { continue };
        let item = item.trim_start();
        if !item.starts_with("[x]") && !item.starts_with("[X]") {
            continue;
        }
        // Names and reasons are escaped, so only our own marker can be the last one in the line.
        let Some((_, rest)) = item.rsplit_once(BOX) else { continue };
        let id = rest.split("-->").next().unwrap_or_default().trim();
        if let Ok(id) = id.parse()
            && !found.contains(&id)
            && found.len() < MAX_BOXES
        {
            found.push(id);
        }
    }
    found
}

fn head(view: &CampaignView, figures: &Figures, out: &mut String) {
    let campaign = &view.campaign;
    if let Some(description) = Spec::parse(view).description() {
        let _ = writeln!(out, "{}\n", text::inline(&text::cut(description, 300)));
    }
    let state = match campaign.state {
        CampaignState::Running => "**Running**",
        CampaignState::Paused => "**Paused**",
        CampaignState::Done => "**Done**",
        CampaignState::Closed => "**Closed**",
    };
    let reason = campaign.reason.as_deref().map(text::inline).unwrap_or_default();
    let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
    let _ = writeln!(
        out,
        "{state}{reason}. {} of {} done, {} failed, cost {}{}.\n",
        figures.settled,
        figures.total,
        figures.failed,
        live::cost(figures).replace('$', "\\$"),
        live::eta(figures).map(|eta| format!(", {eta}")).unwrap_or_default()
    );
    for row in &view.outages {
        let _ = writeln!(out, "{}.\n", text::inline(&outage(row, view.now)));
    }
    let states: Vec<String> =
        figures.by_state.iter().map(|(state, count)| format!("{count} {}", state.word())).collect();
    if !states.is_empty() {
        let _ = writeln!(out, "{}\n", states.join(" · "));
    }
    let _ = writeln!(
        out,
        "<sub>Campaign <code>{}</code>, {}.</sub>\n",
        word(&campaign.id),
        moment(view.now)
    );
}

/// Letters that mean nothing in Markdown or HTML.
fn word(id: &str) -> String {
    id.chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        .take(100)
        .collect()
}

fn boxes(view: &CampaignView, out: &mut String) {
    let failed: Vec<&Target> =
        view.targets.iter().filter(|target| target.state == TargetState::Failed).collect();
    if failed.is_empty() {
        return;
    }
    out.push_str("### Failed\n\nTick a box to have it tried again.\n\n");
    let mut shown = 0;
    for target in failed.iter().take(MAX_BOXES) {
        let class = target.class.map_or("no class", ErrorClass::word);
        let reason = target.reason.as_deref().map(|reason| text::inline(&text::cut(reason, 200)));
        let reason = reason.filter(|reason| !reason.is_empty()).map(|reason| format!(": {reason}"));
        let line = format!(
            "- [ ] retry {} ({class}){} {BOX}{} -->\n",
            text::code(&figures::subject(target)),
            reason.unwrap_or_default(),
            target.id
        );
        // GitHub refuses a body that is too long as a whole.
        if out.len() + line.len() > BOXES {
            break;
        }
        out.push_str(&line);
        shown += 1;
    }
    if shown < failed.len() {
        let _ = writeln!(
            out,
            "\nand {} more: `{}` has them all.",
            failed.len() - shown,
            super::retry_command(&view.campaign, None)
        );
    }
    out.push('\n');
}

fn table(view: &CampaignView, out: &mut String) {
    if view.targets.is_empty() {
        out.push_str("No repository was selected.\n");
        return;
    }
    out.push_str("### Repositories\n\n");
    out.push_str("| Repository | State | Pull request | Cost | Time | Error class |\n|---|---|---|---:|---:|---|\n");
    // Failed and open targets first: they are what people act on, and the end may be cut off.
    let mut targets: Vec<&Target> = view.targets.iter().collect();
    targets.sort_by_key(|target| weight(target.state));
    let room = MAX_BODY - 200;
    let mut shown = 0;
    for target in &targets {
        let row = row(target, view);
        if out.len() + row.len() > room {
            break;
        }
        out.push_str(&row);
        shown += 1;
    }
    if shown < targets.len() {
        let _ = writeln!(
            out,
            "\nand {} more repositories, which have no room here.",
            targets.len() - shown
        );
    }
}

fn weight(state: TargetState) -> u8 {
    match state {
        TargetState::Failed => 0,
        TargetState::Open | TargetState::Draft => 1,
        TargetState::Waiting | TargetState::Queued => 3,
        TargetState::Skipped | TargetState::Unchanged | TargetState::Superseded => 4,
        _ => 2,
    }
}

fn row(target: &Target, view: &CampaignView) -> String {
    let number = target.pull_request.or(target.number);
    let link = match (figures::link(target), number) {
        (Some(url), Some(number)) => format!("[#{number}](<{url}>)"),
        (Some(url), None) => format!("[page](<{url}>)"),
        // `#7` alone would link to an issue of the tracking repository.
        (None, Some(number)) => format!("#&#8203;{number}"),
        (None, None) => String::new(),
    };
    let cost = if target.cost_usd > 0.0 { dollars(target.cost_usd) } else { String::new() };
    let time = figures::lasted(target, view.now).map(duration).unwrap_or_default();
    let class =
        target.class.filter(|_| target.state == TargetState::Failed).map_or("", ErrorClass::word);
    format!(
        "| {} | {} | {link} | {} | {time} | {class} |\n",
        text::code_cell(&text::cut(&figures::subject(target), 140)),
        target.state.word(),
        cost.replace('$', "\\$"),
    )
}
