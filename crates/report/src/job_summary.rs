//! What stands on the page of the workflow run (`$GITHUB_STEP_SUMMARY`), and the short form of it
//! for a terminal.

use std::fmt::Write as _;

use super::pr_body::is_plain_url;
use super::review::body::{self, Body, Listed};
use super::review::{self, sticky};
use super::{attempts, markdown, publish_notes, sections, setup};
use patchwright_base::text;
use patchwright_types::outcome::Outcome;
use patchwright_types::published::PublishedReview;
use patchwright_types::reviewed::Reviewed;

/// GitHub refuses summaries over 1 MiB; people stop long before.
const MAX_SUMMARY: usize = 256 << 10;

/// The pages that a run has written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages<'a> {
    pub pull_request: Option<&'a str>,
    /// The answer to a comment.
    pub answer: Option<&'a str>,
}

/// What the run was about (`acme/web#7`), how it ended, and where to see that.
fn heading(subject: &str, outcome: &Outcome, pages: Pages<'_>) -> String {
    let mut out = format!(
        "## Patchwright: {} — {}\n\n",
        text::inline(subject),
        sections::state(outcome.conclusion)
    );
    for (name, url) in [("Pull request", pages.pull_request), ("Answer", pages.answer)] {
        if let Some(url) = url.filter(|url| is_plain_url(url)) {
            let _ = writeln!(out, "{name}: {url}\n");
        }
    }
    out
}

/// The summary of what was done or answered by rules alone: help, a stop, a rebase that fits, lessons. `message` says what
/// that was.
pub fn without_agent(subject: &str, outcome: &Outcome, pages: Pages<'_>, message: &str) -> String {
    let mut out = heading(subject, outcome, pages);
    let _ = writeln!(out, "{}", markdown::passage(message, 20_000).trim_end());
    // Nothing is to be said of a cost where no model was asked.
    if outcome.spending.turns > 0 {
        let _ = writeln!(out, "\n### Cost\n\n{}", sections::cost(&outcome.spending));
    }
    text::head(&out, MAX_SUMMARY)
}

/// The summary of one run.
pub fn job_summary(subject: &str, outcome: &Outcome, pages: Pages<'_>) -> String {
    let mut out = heading(subject, outcome, pages);
    if let Some(reason) = &outcome.reason {
        let _ = writeln!(out, "{}\n", markdown::line(reason, 2000));
    }
    out.push_str(&work(outcome, pages.pull_request));
    text::head(&out, MAX_SUMMARY)
}

/// The work of a run that failed at its end, below what it failed with.
pub fn unpublished(outcome: &Outcome) -> String {
    work(outcome, None)
}

/// What was done, what shows that it is right, and what it has cost.
fn work(outcome: &Outcome, pull_request_url: Option<&str>) -> String {
    let mut out = String::new();
    let violations: String =
        outcome.judgement.violations.iter().take(50).fold(String::new(), |out, violation| {
            out + "- " + &sections::violation(violation) + "\n"
        });
    // Of an answer no check is expected.
    let is_checked = outcome.change.is_some() || !outcome.evidence.rows.is_empty();
    let evidence = if is_checked { sections::evidence(&outcome.evidence) } else { String::new() };
    let files = outcome.change.as_ref().map(|c| sections::files(c, &outcome.judgement));
    let words = if sections::may_quote(outcome) {
        markdown::passage(&outcome.final_message, 20_000)
    } else {
        sections::NOT_QUOTED.to_owned()
    };
    let notes = publish_notes::list(&outcome.publish_notes, pull_request_number(pull_request_url));
    let to_look_at = notes + &sections::flags(&outcome.judgement.flags);
    let parts = [
        ("Refused because", violations),
        ("Evidence", evidence),
        ("Attempts", attempts::section(&outcome.attempts)),
        ("What changed", files.unwrap_or_default()),
        ("Plan", sections::plan(&outcome.plan)),
        ("Please look at", to_look_at),
        ("Held back", sections::held_back(&outcome.judgement, "this pull request", None, 0)),
        ("The model says", words),
        ("Setup", setup::table(&outcome.provenance.setup)),
        ("Network", sections::reached(&outcome.provenance.reached)),
        ("Cost", sections::cost(&outcome.spending)),
        ("Tools", sections::tools(&outcome.spending)),
        ("Where this comes from", sections::provenance(&outcome.run, &outcome.provenance)),
    ];
    for (heading, part) in parts {
        if !part.trim().is_empty() {
            let _ = write!(out, "### {heading}\n\n{}\n\n", part.trim_end());
        }
    }
    out
}

/// The number at the end of the address of a pull request.
fn pull_request_number(url: Option<&str>) -> Option<u64> {
    url?.rsplit('/').next()?.parse().ok()
}

/// The summary of a review. All findings stand here, whatever became of the review on the forge.
pub fn of_review(reviewed: &Reviewed, published: Option<&PublishedReview>) -> String {
    let known = published.map(|published| published.known.as_slice()).unwrap_or_default();
    let subject = format!("{}#{}", reviewed.repository, reviewed.number);
    let mut out = format!(
        "## Patchwright: review of {} — {}\n\n",
        text::inline(&subject),
        sections::state(reviewed.conclusion)
    );
    let review = published.and_then(|published| published.url.as_deref());
    let comment = published.and_then(|published| published.comment_url.as_deref());
    // Without a new finding there is no review, and what is known stands in the comment.
    for (what, url) in [("Review", review), ("All findings", comment)] {
        if let Some(url) = url.filter(|url| is_plain_url(url)) {
            let _ = writeln!(out, "{what}: {url}\n");
        }
    }
    if published.is_some_and(|published| published.handed_over) {
        out.push_str(
            "The token of this run may not write to the pull request, so the findings are annotations \
             here, and `review.json` among the run's files is for a workflow that may.\n\n",
        );
    }
    let table = sticky::table(reviewed, known, &|_| None);
    if !table.is_empty() {
        let _ = writeln!(out, "{table}");
    }
    let listed: Vec<Listed> = reviewed
        .findings
        .iter()
        .map(|anchored| Listed { anchored: anchored.clone(), why: body::OffDiffReason::NoLine })
        .collect();
    let whole =
        Body { reviewed, known, inline: &[], listed: &listed, remarks: &[], comment_url: None };
    out.push_str(&body::for_summary(&whole));
    review::cut(&out, MAX_SUMMARY)
}
