//! The head of the page: how it ended, and the facts that people look for first.

use maud::{Markup, html};

use super::{Pages, Report, shown};
use crate::sections;
use patchwright_base::duration::format_milliseconds;
use patchwright_base::error::{Failure, FailureKind};
use patchwright_base::text;
use patchwright_types::evidence::Verdict;
use patchwright_types::outcome::{Conclusion, Outcome};

/// Status, title and facts.
pub(super) fn head(report: &Report<'_>) -> Markup {
    let outcome = report.outcome;
    let (state, tone) = match report.failure {
        Some(failure) => failed(failure),
        None => (sections::state(outcome.conclusion), tone(outcome.conclusion)),
    };
    html! {
        header {
            p class="pills" {
                span class={ "pill " (tone) } { (state) }
                (checks(outcome))
                (findings(report))
            }
            h1 { (text::line(report.subject)) @if !report.title.is_empty() { ": " (text::line(report.title)) } }
            @if let Some(failure) = report.failure {
                p class={ "notice " (tone) } {
                    (text::line(&failure.in_public()))
                    @for hint in failure.public_hints() { br; (text::line(hint)) }
                }
            } @else if let Some(reason) = &outcome.reason {
                p class={ "notice " (tone) } { (text::line(reason)) }
            }
            dl class="facts" { @for (name, value) in facts(report) { div { dt { (name) } dd { (value) } } } }
        }
    }
}

/// What has become of work that was done.
fn failed(failure: &Failure) -> (&'static str, &'static str) {
    match failure.kind {
        FailureKind::Signal(_) => (sections::state(Conclusion::Interrupted), "warn"),
        FailureKind::NothingToDo => ("not published", "warn"),
        FailureKind::Usage
        | FailureKind::Partial
        | FailureKind::Refused
        | FailureKind::Budget
        | FailureKind::Provider
        | FailureKind::Forge
        | FailureKind::Sandbox
        | FailureKind::Machine
        | FailureKind::Internal => ("not published", "bad"),
    }
}

/// What a conclusion means to the eye.
fn tone(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Done => "good",
        Conclusion::NothingToDo => "idle",
        Conclusion::NeedsInput
        | Conclusion::Partial
        | Conclusion::Interrupted
        | Conclusion::Budget => "warn",
        Conclusion::Refused | Conclusion::Provider | Conclusion::Sandbox => "bad",
    }
}

fn checks(outcome: &Outcome) -> Markup {
    let tone = match outcome.evidence.verdict() {
        Verdict::Passed(_) => "good",
        Verdict::Failed(_) if outcome.evidence.is_red() => "bad",
        Verdict::Failed(_) => "warn",
        Verdict::None => "idle",
    };
    html! { a class={ "pill " (tone) } href="#evidence" { (sections::checks(&outcome.evidence)) } }
}

fn findings(report: &Report<'_>) -> Markup {
    let Some(reviewed) = report.reviewed else { return html! {} };
    let count = reviewed.findings.len();
    let tone = if count == 0 { "good" } else { "warn" };
    html! { a class={ "pill " (tone) } href="#findings" { (shown::plural(count, "finding")) } }
}

fn facts(report: &Report<'_>) -> Vec<(&'static str, Markup)> {
    let Outcome { spending, provenance: from, .. } = report.outcome;
    let pages = &report.pages;
    let mut facts = Vec::new();
    let mut fact = |name, value: Option<Markup>| facts.extend(value.map(|value| (name, value)));
    // What a review is about is a pull request.
    fact(if report.reviewed.is_some() { "Pull request" } else { "Asked in" }, asked(pages));
    fact("Pull request", pull_request(pages));
    fact(
        "Model",
        Some(&from.model).filter(|it| !it.is_empty()).map(|model| html! { (text::line(model)) }),
    );
    fact("Cost", Some(html! { (sections::dollars(spending)) }));
    fact("Tokens", (spending.usage.total() > 0).then(|| html! {
        (shown::count(spending.usage.input)) " in, " (shown::count(spending.usage.output)) " out"
    }));
    fact("Turns", Some(html! { (spending.turns) }));
    fact("Duration", duration(spending.wall_seconds).map(|ms| html! { (format_milliseconds(ms)) }));
    fact("Commits", commits(report));
    fact(
        "Branch",
        pages.branch.as_ref().map(|branch| {
            let words = html! { code { (text::line(branch)) } };
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
            let page = pages.below("tree", branch).filter(|_| branch.chars().all(is_plain));
            shown::link(page.as_deref(), &words)
        }),
    );
    let run = from.run_url.as_deref().filter(|url| url.starts_with("http"));
    fact("Workflow run", run.map(|run| shown::link(Some(run), &html! { "in CI" })));
    facts
}

/// Where the task came from: the issue or pull request.
fn asked(pages: &Pages) -> Option<Markup> {
    let number = pages.number?;
    let page = pages.below("issues", &number.to_string());
    Some(shown::link(page.as_deref(), &html! { "#" (number) }))
}

fn pull_request(pages: &Pages) -> Option<Markup> {
    let (number, url) = pages.pull_request.as_ref()?;
    Some(shown::link(Some(url), &html! { "#" (number) }))
}

/// The commit that was worked on, and the one that came of it.
fn commits(report: &Report<'_>) -> Option<Markup> {
    let from = &report.outcome.provenance;
    let commit = |sha: &str| {
        let page = report.pages.below("commit", sha);
        let page = page.filter(|_| sha.bytes().all(|byte| byte.is_ascii_hexdigit()));
        shown::link(page.as_deref(), &html! { code { (shown::short(sha)) } })
    };
    let head = report.pages.head.as_deref().or(report.reviewed.map(|it| it.head.as_str()));
    (!from.base_sha.is_empty()).then(|| {
        html! {
            @if !from.base_branch.is_empty() { (text::line(&from.base_branch)) " " }
            (commit(&from.base_sha))
            @if let Some(head) = head { " → " (commit(head)) }
        }
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a negative or infinite duration is excluded"
)]
fn duration(seconds: f64) -> Option<u64> {
    (seconds.is_finite() && seconds >= 0.0).then_some((seconds * 1000.0) as u64)
}
