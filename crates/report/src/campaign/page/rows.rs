//! The table of the page: a row for each repository, and the form that filters it.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::figures::{self, Figures, Spec, dollars, duration};
use super::tone;
use patchwright_base::text;
use patchwright_types::campaign::{CampaignView, ErrorClass, Event, Target, TargetState};

/// Bytes of one reason or answer that are shown.
const MAX_REASON: usize = 16 << 10;

/// Characters of a reason that stand in the table; longer ones unfold.
const SHORT: usize = 160;

pub(super) fn section(
    view: &CampaignView,
    events: &[Event],
    figures: &Figures,
    spec: &Spec,
) -> Markup {
    // What was answered in mode `report` is kept as an event; the last one counts.
    let answers: BTreeMap<i64, &str> = events
        .iter()
        .filter(|event| event.kind == "answer")
        .filter_map(|event| Some((event.target?, event.text.as_deref()?)))
        .collect();
    let has_waves = spec.waves().len() > 1;
    let column = |key: &str, name: &str, number: bool| {
        html! { th scope="col" data-key=(key) class=[number.then_some("number")] { (name) } }
    };
    html! {
        section aria-labelledby="repositories" {
            h2 id="repositories" { "Repositories" }
            (filters(figures))
            @if view.targets.is_empty() { p { "No repository was selected." } } @else {
                div class="scroll" tabindex="0" role="region" aria-labelledby="repositories" {
                    table id="targets" {
                        thead { tr {
                            (column("name", "Repository", false))
                            (column("state", "State", false))
                            (column("pull", "Pull request", true))
                            (column("cost", "Cost", true))
                            (column("time", "Duration", true))
                            @if has_waves { (column("wave", "Wave", true)) }
                            (column("class", "Error class", false))
                            (column("reason", if spec.mode == "report" { "Answer" } else { "Reason" }, false))
                        } }
                        tbody { @for target in &view.targets { (row(target, view, answers.get(&target.id).copied(), has_waves)) } }
                    }
                }
                p id="none" hidden { "No repository is like that. " a href="#repositories" { "Show all" } }
            }
        }
    }
}

/// Shown by the script, which it needs.
fn filters(figures: &Figures) -> Markup {
    html! {
        form id="filters" hidden {
            label { span { "State" } select name="state" {
                option value="" { "all (" (figures.total) ")" }
                @for (state, count) in &figures.by_state {
                    option value=(state.word()) { (state.word()) " (" (count) ")" }
                }
            } }
            @if !figures.by_class.is_empty() {
                label { span { "Error class" } select name="class" {
                    option value="" { "all" }
                    @for (class, count) in &figures.by_class {
                        @let word = class.map_or("none", ErrorClass::word);
                        option value=(word) { (word) " (" (count) ")" }
                    }
                } }
            }
            label class="wide" { span { "Text" } input type="search" name="text" placeholder="name, reason, number…"; }
            button type="reset" { "Show all" }
            output id="shown" aria-live="polite" {}
        }
    }
}

fn row(target: &Target, view: &CampaignView, answer: Option<&str>, has_waves: bool) -> Markup {
    let failed = target.state == TargetState::Failed;
    let class = failed.then(|| target.class.map_or("none", ErrorClass::word));
    let lasted = figures::lasted(target, view.now);
    let number = target.pull_request.or(target.number);
    html! {
        tr data-state=(target.state.word()) data-class=[class] {
            th scope="row" class="name" { (name(target)) }
            td data-sort=(format!("{:02}", order(target.state))) { span class={ "badge " (tone(target.state)) } { (target.state.word()) } }
            td class="number" data-sort=(number.unwrap_or(0)) { (pull_request(target, number)) }
            td class="number" data-sort=(format!("{:.6}", target.cost_usd)) { @if target.cost_usd > 0.0 { (dollars(target.cost_usd)) } }
            td class="number" data-sort=(lasted.unwrap_or(-1)) {
                (lasted.map(duration).unwrap_or_default())
                @if target.attempts > 1 { span class="note" { (target.attempts) " attempts" } }
            }
            @if has_waves { td class="number" { (target.wave.saturating_add(1)) } }
            td { @if let Some(class) = class { code { (class) } } }
            td class="reason" { (reason(answer.or(target.reason.as_deref()))) }
        }
    }
}

/// States in the order of their list: what is to come, what goes on, what has ended.
fn order(state: TargetState) -> usize {
    TargetState::ALL.iter().position(|other| *other == state).unwrap_or(0)
}

/// The name, leading to the repository where its address is known from the pull request's.
fn name(target: &Target) -> Markup {
    let subject = figures::subject(target);
    let page = figures::link(target).and_then(|url| repository_page(url, &target.repository));
    html! {
        @match page {
            Some(page) => a href=(page) rel="noreferrer" { bdi { (subject) } },
            None => bdi { (subject) },
        }
    }
}

fn repository_page(url: &str, repository: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let mut parts = rest.splitn(4, '/');
    let (host, owner, name) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next()?;
    let same = repository.eq_ignore_ascii_case(&format!("{owner}/{name}"));
    same.then(|| format!("{scheme}://{host}/{owner}/{name}"))
}

fn pull_request(target: &Target, number: Option<i64>) -> Markup {
    let label = number.map_or_else(|| "page".to_owned(), |number| format!("#{number}"));
    html! {
        @match (figures::link(target), number) {
            (Some(url), _) => a href=(url) rel="noreferrer" { (label) },
            (None, Some(_)) => (label),
            (None, None) => "",
        }
    }
}

/// A sentence, or more behind its first line.
fn reason(reason: Option<&str>) -> Markup {
    let Some(reason) = reason.map(str::trim).filter(|text| !text.is_empty()) else {
        return html! {};
    };
    let whole = text::visible(&text::without_ansi(&text::head(reason, MAX_REASON)));
    let first = text::line(whole.lines().next().unwrap_or_default());
    let is_short = whole.trim_end().lines().count() <= 1 && whole.chars().count() <= SHORT;
    html! {
        @if is_short { bdi { (first) } } @else {
            details { summary { bdi { (text::cut(&first, SHORT)) } } pre { (whole) } }
        }
    }
}
