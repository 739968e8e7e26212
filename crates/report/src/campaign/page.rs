//! The page of a campaign: one HTML file that loads nothing. Filters and sorting are a small script of
//! ours; without it everything is there, too. Everything untrusted is escaped by the template engine, and
//! a content security policy allows this one script and these styles and nothing from elsewhere.

mod burndown;
mod classes;
mod rows;

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::figures::{self, Figures, Spec, dollars, duration, moment};
use super::history::History;
use super::outage::outage;
use crate::content_security_policy::{Forms, content_security_policy};
use patchwright_base::text;
use patchwright_types::campaign::{
    CampaignState, CampaignView, Event, Millis, Target, TargetState,
};

const CSS: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// What a page leads to, and where it is shown.
#[derive(Clone, Debug, Default)]
pub struct PageOptions {
    /// The address of GitHub's website, such as `https://github.com`. Without it only those repositories
    /// are linked of which a pull request is known.
    pub github: Option<String>,
    /// The addresses of the runs' reports that are there, by the run's id.
    pub reports: BTreeMap<String, String>,
    /// The newest event that the page knows of. Then the page comes from a server, and its script brings it
    /// up to date when there are newer ones.
    pub live: Option<i64>,
}

/// The content security policy of the page: its own script and style by their hashes, and, of a live one,
/// requests to the server that it came from. For a header, too.
pub fn policy(is_live: bool) -> String {
    let policy = content_security_policy(CSS, Some(SCRIPT), Forms::Denied);
    if is_live { format!("{policy}; connect-src 'self'") } else { policy }
}

/// The page of a campaign: self-contained HTML, with filters and a burn-down. The fragment filters it
/// (`#state=failed&class=model&text=web`) and sorts it (`sort=cost`).
///
/// The script replaces the parts that have a `data-part` and the rows when the page is live.
pub fn page(view: &CampaignView, history: &History, options: &PageOptions) -> String {
    let figures = Figures::compute(view);
    let spec = Spec::parse(view);
    let name = text::line(&view.campaign.name);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(options.live.is_some()));
                meta name="referrer" content="no-referrer";
                meta name="robots" content="noindex";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (name) " · " (figures.settled) "/" (figures.total) " · Patchwright" }
                style { (PreEscaped(CSS)) }
            }
            body {
                a class="skip" href="#repositories" { "To the repositories" }
                header data-part="head" { (head(view, &spec)) }
                @if let Some(event) = options.live { (live(view, event)) }
                main {
                    section class="progress" aria-label="Progress" data-part="progress" { (progress(&figures)) }
                    dl class="cards" data-part="cards" { (cards(view, &figures, &spec)) }
                    div class="columns" data-part="columns" {
                        (burndown::chart(view, history))
                        div { (waves(view, &spec)) (classes::section(view, &figures)) }
                    }
                    (rows::section(view, history, &figures, &spec, options))
                    section aria-labelledby="events" data-part="events" { (last_events(history)) }
                }
                footer data-part="foot" {
                    p {
                        "Made by Patchwright " (patchwright_base::VERSION) " from the campaign's database, as of "
                        (time(view.now)) ". Programs get the same from "
                        code { "patchwright batch status " (name) " --json" } "."
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// How the page is kept up to date: by its script, else by hand. Outside of what the script replaces.
fn live(view: &CampaignView, event: i64) -> Markup {
    let address = format!("/campaigns/{}", view.campaign.id);
    html! {
        p id="live" class="meta" data-events={ (address) "/events?after=" (event) } {
            a href=(address) { "Reload" }
            button type="button" hidden aria-pressed="false" { "Pause updates" }
            " " span role="status" {}
        }
    }
}

fn head(view: &CampaignView, spec: &Spec) -> Markup {
    let campaign = &view.campaign;
    let class = match campaign.state {
        CampaignState::Running => "active",
        CampaignState::Paused => "bad",
        CampaignState::Done => "good",
        CampaignState::Closed => "idle",
    };
    html! {
        h1 {
            bdi { (text::line(&campaign.name)) } " "
            span class={ "badge " (class) } { (campaign.state.word()) }
        }
        @if let Some(description) = spec.description() {
            p class="lead" { (text::cut(&text::visible(&text::without_ansi(description)), 2_000)) }
        }
        @if let Some(reason) = campaign.reason.as_deref().filter(|reason| !reason.trim().is_empty()) {
            p class={ "notice " (class) } { strong { (capital(campaign.state.word())) ": " } (text::line(reason)) }
        }
        @for row in &view.outages {
            p class="notice bad" { (capital(&outage(row, view.now))) "." }
        }
        p class="meta" {
            "Started " (time(campaign.created_at)) ", as of " (time(view.now)) ". "
            @if let Some(issue) = &campaign.tracking_issue { "Tracking issue " (text::line(issue)) ". " }
            "Id " code { (text::line(&campaign.id)) } "."
        }
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// A time that programs can read, too.
fn time(at: Millis) -> Markup {
    html! { time datetime=(figures::time(at, "%Y-%m-%dT%H:%M:%SZ")) { (moment(at)) } }
}

/// What a state means to the eye.
fn tone(state: TargetState) -> &'static str {
    match state {
        TargetState::Failed => "bad",
        TargetState::Running | TargetState::Publishing => "active",
        TargetState::Waiting | TargetState::Queued => "queued",
        TargetState::Ready | TargetState::Held => "ready",
        TargetState::Draft
        | TargetState::Open
        | TargetState::Merged
        | TargetState::Unchanged
        | TargetState::Reported => "good",
        TargetState::Closed | TargetState::Skipped | TargetState::Superseded => "idle",
    }
}

/// Groups of states, from what is finished to what is to come.
const GROUPS: [(&str, &str); 6] = [
    ("good", "finished"),
    ("idle", "skipped or closed"),
    ("bad", "failed"),
    ("ready", "changes stored"),
    ("active", "in work"),
    ("queued", "waiting"),
];

/// One bar for all targets, and what its parts are.
fn progress(figures: &Figures) -> Markup {
    let mut parts = Vec::new();
    let mut left = 0;
    for (class, label) in GROUPS {
        let states = figures.by_state.iter().filter(|(state, _)| tone(**state) == class);
        let count: usize = states.map(|(_, count)| count).sum();
        if count > 0 {
            parts.push((class, label, left, count));
            left += count;
        }
    }
    let words: Vec<String> =
        parts.iter().map(|(_, label, _, count)| format!("{count} {label}")).collect();
    let percent = |count: usize| format!("{:.3}%", figures::ratio(count, figures.total) * 100.0);
    html! {
        @if figures.total == 0 { p { "No repository was selected." } } @else {
            svg class="bar" role="img" aria-label={ "Of " (figures.total) ": " (words.join(", ")) } {
                @for (class, _, from, count) in &parts {
                    rect class={ "fill-" (class) } x=(percent(*from)) width=(percent(*count)) y="0" height="100%" {}
                }
            }
            ul class="legend" {
                @for (class, label, _, count) in &parts {
                    li { span class={ "dot fill-" (class) } {} (count) " " (label) }
                }
            }
        }
    }
}

fn cards(view: &CampaignView, figures: &Figures, spec: &Spec) -> Markup {
    let open = figures.count(TargetState::Open) + figures.count(TargetState::Draft);
    let merged = figures.count(TargetState::Merged);
    let waves = spec.waves().len();
    let card = |name: &str, value: Markup, note: Markup| {
        html! { div { dt { (name) } dd { span class="value" { (value) } span class="note" { (note) } } } }
    };
    let share = figures::ratio(figures.settled, figures.total) * 100.0;
    html! {
        (card("Done", html! { (figures.settled) span class="of" { " / " (figures.total) } }, html! { (format!("{share:.0} %")) }))
        (card("Failed", html! { (figures.failed) }, html! {
            @if figures.failed > 0 { a href="#state=failed" { "show them" } }
        }))
        @if spec.mode == "pr" {
            (card("Pull requests", html! { (open + merged) }, html! { (open) " open, " (merged) " merged" }))
        }
        (card("Cost", html! { (dollars(figures.cost_usd)) }, html! {
            @if let Some(budget) = figures.budget_usd { "of " (dollars(budget)) ", " }
            (tokens(figures.tokens)) " tokens"
        }))
        @if let Some(each) = figures.run_ms {
            (card("One run", html! { (duration(each)) }, html! { "on average" }))
        }
        @if let Some(each) = figures.publishing_ms {
            (card("Publishing", html! { (duration(each)) }, html! { "each, on average" }))
        }
        @if let Some(each) = figures.review_ms {
            (card("Review", html! { (duration(each)) }, html! { "until merged or closed, on average" }))
        }
        @if let Some(eta) = figures.eta {
            (card("Left", html! { (duration(eta.ms())) }, html! {
                @if eta.is_by_rate_limit() { "publishing at GitHub's pace" }
                @else { "by the runs; publishing takes " (duration(eta.publishing_ms)) }
            }))
        }
        @if waves > 0 {
            (card("Wave", html! { (view.campaign.wave.saturating_add(1)) span class="of" { " / " (waves) } }, html! { "is open" }))
        }
    }
}

/// `950`, `12k`, `3.4M`.
fn tokens(count: i64) -> String {
    match count {
        ..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}k", count / 1_000),
        _ => format!("{}.{}M", count / 1_000_000, count / 100_000 % 10),
    }
}

/// Each wave, how it went, and what has to be true before the next one opens.
fn waves(view: &CampaignView, spec: &Spec) -> Markup {
    let waves = spec.waves();
    if waves.is_empty() {
        return html! {};
    }
    let rows = waves.iter().zip(0_i64..).map(|(wave, at)| {
        // One that is not worked on is no part of a wave, as the waves themselves reckon.
        let is_in = |target: &&Target| target.wave == at && target.state != TargetState::Skipped;
        let members: Vec<&Target> = view.targets.iter().filter(is_in).collect();
        let settled = members.iter().filter(|target| target.state.is_settled()).count();
        let failed = members.iter().filter(|target| target.state == TargetState::Failed).count();
        let (status, tone) = match () {
            () if at > view.campaign.wave => ("not open", "idle"),
            () if settled == members.len() => ("ended", "good"),
            () => ("open", "active"),
        };
        let mut gate = Vec::new();
        // The specification is read as JSON: a page must also show campaigns of an older version.
        let min = wave["min-success"].as_f64().unwrap_or(0.8);
        let share = 1.0 - figures::ratio(failed, settled);
        if at + 1 < i64::try_from(waves.len()).unwrap_or(i64::MAX) {
            gate.push(format!("{:.0} % must succeed", min * 100.0));
            gate.extend(wave["max-open-pull-requests"].as_u64().map(|most| format!("at most {most} open pull requests")));
            gate.extend(wave["soak"].as_str().map(|soak| format!("then wait {}", text::line(soak))));
        }
        html! {
            tr {
                th scope="row" { (at + 1) }
                td { span class={ "badge " (tone) } { (status) } }
                td class="number" { (settled) " / " (members.len()) }
                td class="number" { @if settled > 0 { (format!("{:.0} %", share * 100.0)) } @else { "–" } }
                td { (gate.join(", ")) }
            }
        }
    });
    html! {
        section aria-labelledby="waves" {
            h2 id="waves" { "Waves" }
            div class="scroll" tabindex="0" role="region" aria-label="Table of waves" {
                table class="small" {
                    thead { tr {
                        th scope="col" { "Wave" } th scope="col" { "State" } th scope="col" class="number" { "Done" }
                        th scope="col" class="number" { "Succeeded" } th scope="col" { "Before the next opens" }
                    } }
                    tbody { @for row in rows { (row) } }
                }
            }
        }
    }
}

fn last_events(history: &History) -> Markup {
    let last: Vec<&Event> = history.newest().collect();
    html! {
        h2 id="events" { "Last events" }
        @if last.is_empty() { p { "Nothing has happened yet." } } @else {
            ol class="events" {
                @for event in last {
                    li {
                        (time(event.at)) " "
                        @if let Some(repository) = &event.repository { bdi class="name" { (text::line(repository)) } " " }
                        @let tone = TargetState::parse(&event.kind).map_or("idle", tone);
                        span class={ "badge " (tone) } { (text::cut(&text::line(&event.kind), 40)) }
                        @if let Some(text) = &event.text { " " bdi { (text::line(text.lines().next().unwrap_or_default())) } }
                    }
                }
            }
        }
    }
}
