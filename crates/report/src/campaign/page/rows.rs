//! The table of the page: a row for each repository, and the form that filters it.

use maud::{Markup, html};

use super::super::figures::{self, Figures, Spec, dollars, duration};
use super::super::history::History;
use super::{PageOptions, tone};
use patchwright_base::text;
use patchwright_types::campaign::{CampaignView, ErrorClass, Target, TargetState};
use patchwright_types::run_facts::ChecksVerdict;

/// Bytes of one reason or answer that are shown.
const MAX_REASON: usize = 16 << 10;

/// Characters of a reason that stand in the table; longer ones unfold.
const SHORT: usize = 160;

pub(super) fn section(
    view: &CampaignView,
    history: &History,
    figures: &Figures,
    spec: &Spec,
    options: &PageOptions,
) -> Markup {
    let has_waves = spec.waves().len() > 1;
    let column = |key: &str, name: &str, number: bool| {
        html! { th scope="col" data-key=(key) class=[number.then_some("number")] { (name) } }
    };
    // What failed is what people came for.
    let mut targets: Vec<&Target> = view.targets.iter().collect();
    targets.sort_by_key(|target| target.state != TargetState::Failed);
    html! {
        section aria-labelledby="repositories" {
            h2 id="repositories" { "Repositories" }
            (filters(figures))
            @if targets.is_empty() { p { "No repository was selected." } } @else {
                div class="scroll" tabindex="0" role="region" aria-label="Table of repositories" {
                    table id="targets" {
                        thead { tr {
                            (column("name", "Repository", false))
                            (column("state", "State", false))
                            (column("pull", "Pull request", true))
                            @if spec.mode == "pr" { (column("checks", "Checks", false)) }
                            (column("cost", "Cost", true))
                            (column("time", "Run", true))
                            @if spec.mode == "pr" {
                                (column("publishing", "Publishing", true))
                                (column("review", "Review", true))
                            }
                            @if has_waves { (column("wave", "Wave", true)) }
                            (column("class", "Error class", false))
                            (column("reason", if spec.mode == "report" { "Answer" } else { "Reason" }, false))
                        } }
                        tbody { @for target in targets { (row(target, view, history, spec, options)) } }
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
            // Also without failures: a live page may get some.
            label hidden[figures.by_class.is_empty()] { span { "Error class" } select name="class" {
                option value="" { "all" }
                @for (class, count) in &figures.by_class {
                    @let word = class.map_or("none", ErrorClass::word);
                    option value=(word) { (word) " (" (count) ")" }
                }
            } }
            label class="wide" { span { "Text" } input type="search" name="text" placeholder="name, reason, number…"; }
            button type="reset" { "Show all" }
            output id="shown" aria-live="polite" {}
        }
    }
}

fn row(
    target: &Target,
    view: &CampaignView,
    history: &History,
    spec: &Spec,
    options: &PageOptions,
) -> Markup {
    let failed = target.state == TargetState::Failed;
    let class = failed.then(|| target.class.map_or("none", ErrorClass::word));
    let lasted = figures::lasted(target, view.now);
    let number = target.pull_request.or(target.number);
    let answer = history.answer(target.id);
    html! {
        tr data-state=(target.state.word()) data-class=[class] data-id=(target.id) {
            th scope="row" class="name" { (name(target, options)) }
            td data-sort=(format!("{:02}", order(target.state))) {
                span class={ "badge " (tone(target.state)) } { (target.state.word()) }
                (report(target, options))
            }
            td class="number" data-sort=(number.unwrap_or(0)) { (pull_request(target, number)) (fit(target)) }
            @if spec.mode == "pr" { (checks(target)) }
            td class="number" data-sort=(format!("{:.6}", target.cost_usd)) { @if target.cost_usd > 0.0 { (dollars(target.cost_usd)) } }
            td class="number" data-sort=(lasted.unwrap_or(-1)) {
                (lasted.map(duration).unwrap_or_default())
                @if target.attempts > 1 { span class="note" { (target.attempts) " attempts" } }
            }
            @if spec.mode == "pr" {
                (length(figures::in_publishing(target, view.now)))
                (length(figures::in_review(target, view.now)))
            }
            @if spec.waves().len() > 1 { td class="number" { (target.wave.saturating_add(1)) } }
            td { @if let Some(class) = class { code { (class) } } }
            td class="reason" { (reason(answer.or(target.reason.as_deref()))) }
        }
    }
}

/// A cell with how long something took, sorted by it.
fn length(ms: Option<i64>) -> Markup {
    html! { td class="number" data-sort=(ms.unwrap_or(-1)) { (ms.map(duration).unwrap_or_default()) } }
}

/// States in the order of their list: what is to come, what goes on, what has ended.
fn order(state: TargetState) -> usize {
    TargetState::ALL.iter().position(|other| *other == state).unwrap_or(0)
}

/// The name, leading to the repository.
fn name(target: &Target, options: &PageOptions) -> Markup {
    let subject = figures::subject(target);
    let of_pull = figures::link(target).and_then(|url| repository_page(url, &target.repository));
    let page = of_pull.or_else(|| page_on(options.github.as_deref()?, target));
    html! {
        @match page {
            Some(page) => a href=(page) rel="noreferrer" { bdi { (subject) } },
            None => bdi { (subject) },
        }
    }
}

/// The page of the repository, or of the pull request that is reviewed, on GitHub's website.
fn page_on(github: &str, target: &Target) -> Option<String> {
    let (owner, name) = target.repository.split_once('/')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    // `..` would lead elsewhere.
    let is_name = |part: &str| part.chars().all(is_plain) && part.chars().any(|c| c != '.');
    let is_web = github.starts_with("https://") || github.starts_with("http://");
    if !is_web || !is_name(owner) || !is_name(name) {
        return None;
    }
    let number = target.number.map(|number| format!("/pull/{number}")).unwrap_or_default();
    Some(format!("{}/{owner}/{name}{number}", github.trim_end_matches('/')))
}

/// A link to the report of the last run, where it is.
fn report(target: &Target, options: &PageOptions) -> Markup {
    let address = target.run.as_ref().and_then(|run| options.reports.get(run));
    html! {
        @if let Some(address) = address {
            " " a href=(address) aria-label={ "Report of the run in " (figures::subject(target)) } { "report" }
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

/// The newer commit of the base branch on which an open pull request fits, too.
fn fit(target: &Target) -> Markup {
    let is_open = matches!(target.state, TargetState::Open | TargetState::Draft);
    let sha = target.fits_sha.as_deref().filter(|_| is_open).map(text::line);
    let sha = sha.as_deref().map(|sha| sha.get(..10).unwrap_or(sha));
    html! {
        @if let Some(sha) = sha {
            span class="note" {
                "fits " code { (text::line(&target.base_branch)) } " at " code { (sha) } ", too"
            }
        }
    }
}

/// What the checks said about the change of the last run; empty without a change.
fn checks(target: &Target) -> Markup {
    let verdict = target.facts.checks;
    let shown = verdict.map(|verdict| match verdict {
        ChecksVerdict::Passed => ("good", "passed"),
        ChecksVerdict::Failed => ("bad", "failed"),
        ChecksVerdict::None => ("idle", "none ran"),
    });
    html! {
        td data-sort=(verdict.map(ChecksVerdict::word).unwrap_or_default()) {
            @if let Some((tone, words)) = shown { span class={ "badge " (tone) } { (words) } }
            @if target.facts.setup_failed == Some(true) { span class="note" { "setup failed" } }
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
