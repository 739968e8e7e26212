//! What stands on the page of the workflow run (`$GITHUB_STEP_SUMMARY`), and the short form of it
//! for a terminal.

use std::fmt::Write as _;

use super::pr_body::is_plain_url;
use super::{markdown, sections, text};
use crate::task::outcome::Outcome;

/// GitHub refuses summaries over 1 MiB; people stop long before.
const MAX_SUMMARY: usize = 256 << 10;

/// The summary of one run. `subject` is what the run was about (`acme/web#7`).
pub fn job_summary(subject: &str, outcome: &Outcome, pull_request_url: Option<&str>) -> String {
    let mut out = format!(
        "## Patchwright: {} — {}\n\n",
        text::inline(subject),
        sections::state(outcome.conclusion)
    );
    if let Some(url) = pull_request_url.filter(|url| is_plain_url(url)) {
        let _ = writeln!(out, "Pull request: {url}\n");
    }
    if let Some(reason) = &outcome.reason {
        let _ = writeln!(out, "{}\n", text::inline(reason));
    }
    let violations: String =
        outcome.judgement.violations.iter().take(50).fold(String::new(), |out, violation| {
            out + "- " + &sections::violation(violation) + "\n"
        });
    let files = outcome.change.as_ref().map(|c| sections::files(c, &outcome.judgement));
    let words = markdown::passage(&outcome.final_message, 20_000);
    let parts = [
        ("Refused because", violations),
        ("Evidence", sections::evidence(&outcome.evidence)),
        ("What changed", files.unwrap_or_default()),
        ("Plan", sections::plan(&outcome.plan)),
        ("Please look at", sections::flags(&outcome.judgement.flags)),
        ("Held back", sections::held_back(&outcome.judgement, None, 0)),
        ("The model says", words),
        ("Cost", sections::cost(&outcome.spending)),
        ("Where this comes from", sections::provenance(&outcome.run, &outcome.provenance)),
    ];
    for (heading, part) in parts {
        if !part.trim().is_empty() {
            let _ = write!(out, "### {heading}\n\n{}\n\n", part.trim_end());
        }
    }
    text::head(&out, MAX_SUMMARY)
}
