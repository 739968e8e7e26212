//! `batch status` for a terminal: what needs eyes last, where they are.

use std::fmt::Write as _;

use super::figures::{self, Figures, dollars, duration, moment};
use super::live::{columns, fit, summary};
use super::outage::outage;
use super::{answer_command, retry_command};
use patchwright_base::text;
use patchwright_types::campaign::{CampaignRow, CampaignView, ErrorClass, Target, TargetState};
use patchwright_types::run_facts::ChecksVerdict;

/// Columns of the widest cells.
const MAX_NAME: usize = 48;
const MAX_WHERE: usize = 100;

/// Each repository with state, pull request, cost, duration and reason; failed ones last, then the sums.
pub fn table(view: &CampaignView) -> String {
    let figures = Figures::compute(view);
    let mut targets: Vec<&Target> = view.targets.iter().collect();
    targets.sort_by_key(|target| target.state == TargetState::Failed);
    let mut rows =
        vec![["REPOSITORY", "STATE", "PR", "COST", "TIME", "WHERE OR WHY"].map(str::to_owned)];
    rows.extend(targets.into_iter().map(|target| row(target, view)));
    let mut out = aligned(&rows);
    out.push('\n');
    let _ = writeln!(out, "{}", summary(view, &figures));
    for row in &view.outages {
        let _ = writeln!(out, "{}", outage(row, view.now));
    }
    if figures.interrupted > 0 {
        let (what, them) = match figures.interrupted {
            1 => ("one run was", "it"),
            _ => ("runs were", "them"),
        };
        let _ = writeln!(
            out,
            "{what} interrupted, and nobody works on {them}: `patchwright batch run` with the campaign's file resumes {them}"
        );
    }
    for (class, count) in &figures.by_class {
        let word = class.map_or("no class", patchwright_types::campaign::ErrorClass::word);
        let _ = writeln!(out, "failed, {word}: {count}");
    }
    out.push_str(&questions(view));
    let is_unchecked = |target: &&Target| {
        matches!(target.state, TargetState::Open | TargetState::Draft)
            && target.reason.as_deref().is_some_and(|why| why.starts_with("unchecked"))
    };
    match view.targets.iter().filter(is_unchecked).count() {
        0 => {}
        1 => out.push_str("one pull request is unchecked: no check ran on it\n"),
        count => {
            let _ = writeln!(out, "{count} pull requests are unchecked: no check ran on them");
        }
    }
    out.push_str(&setups(view));
    if let Some(issue) = &view.campaign.tracking_issue {
        let _ = writeln!(out, "tracking issue: {}", text::line(issue));
    }
    out
}

/// How questions of the model are answered.
fn questions(view: &CampaignView) -> String {
    let asks = |target: &&Target| {
        target.state == TargetState::Failed && target.class == Some(ErrorClass::Question)
    };
    let command = |target: &Target| answer_command(&view.campaign, &target.repository);
    let asking = view.targets.iter().find(asks);
    asking
        .map(|target| format!("a question is answered by `{}`\n", command(target)))
        .unwrap_or_default()
}

/// In how many repositories setup failed, and how those are run again whose checks say nothing for it.
fn setups(view: &CampaignView) -> String {
    let facts =
        || view.targets.iter().filter_map(|target| Some((target, target.facts.setup_failed?)));
    let failed = || facts().filter(|(_, failed)| *failed).map(|(target, _)| target);
    if failed().count() == 0 {
        return String::new();
    }
    let mut out =
        format!("setup failed in {} of {} repositories", failed().count(), facts().count());
    let is_proposed = |target: &Target| {
        matches!(target.state, TargetState::Open | TargetState::Draft)
            && target.facts.checks != Some(ChecksVerdict::Passed)
    };
    if failed().any(is_proposed) {
        let command = retry_command(&view.campaign, None);
        let _ = write!(
            out,
            "; with what it needs, `{command} --setup-failed` has those run again whose checks did not pass"
        );
    }
    out.push('\n');
    out
}

/// All campaigns, one in a line.
pub fn list(campaigns: &[CampaignRow]) -> String {
    let mut rows = vec![["NAME", "STATE", "COST", "STARTED", "ID"].map(str::to_owned)];
    rows.extend(campaigns.iter().map(|row| {
        let state = row.state.word().to_owned();
        [
            text::line(&row.name),
            state,
            dollars(row.spent_usd),
            moment(row.created_at),
            text::line(&row.id),
        ]
    }));
    aligned(&rows)
}

fn row(target: &Target, view: &CampaignView) -> [String; 6] {
    let state = match target.class.filter(|_| target.state == TargetState::Failed) {
        Some(class) => format!("failed: {}", class.word()),
        None => figures::state_word(target, view).to_owned(),
    };
    let reason = target.reason.as_deref().map(text::line).filter(|reason| !reason.is_empty());
    let place = figures::link(target).map(str::to_owned);
    let place = match target.state {
        TargetState::Failed | TargetState::Skipped | TargetState::Superseded => reason.or(place),
        // Where it is and what should be known of it.
        TargetState::Open | TargetState::Draft => match (place, with_fit(target, reason)) {
            (Some(place), Some(reason)) => Some(format!("{place}  {}", fit(&reason, MAX_WHERE))),
            (place, reason) => place.or(reason),
        },
        _ => place.or(reason),
    };
    [
        figures::subject(target),
        state,
        target.pull_request.map(|number| format!("#{number}")).unwrap_or_default(),
        if target.cost_usd > 0.0 { dollars(target.cost_usd) } else { String::new() },
        figures::lasted_in(target, view).map(duration).unwrap_or_default(),
        fit(&place.unwrap_or_default(), 2 * MAX_WHERE),
    ]
}

/// What is known of an open pull request, with the newer commit of its base branch on which it fits.
fn with_fit(target: &Target, reason: Option<String>) -> Option<String> {
    let fits = target.fits_sha.as_deref().map(|sha| {
        let (sha, branch) = (sha.get(..10).unwrap_or(sha), text::line(&target.base_branch));
        format!("fits `{branch}` at {sha}, too")
    });
    match (reason, fits) {
        (Some(reason), Some(fits)) => Some(format!("{reason}; {fits}")),
        (reason, fits) => reason.or(fits),
    }
}

/// Columns under each other, without spaces at the ends of lines.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns(cell).min(MAX_NAME));
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            let cell = if at + 1 < N { fit(cell, MAX_NAME) } else { cell.clone() };
            line.push_str(&cell);
            line.push_str(&" ".repeat(width.saturating_sub(columns(&cell)) + 2));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
