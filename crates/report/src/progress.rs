//! The one comment on the issue, edited in place: what is going on, then how it ended.

use std::fmt::Write as _;

use super::pr_body::is_plain_url;
use super::{markdown, publish_notes, sections};
use patchwright_base::error::Failure;
use patchwright_base::text;
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::plan::Plan;

/// A run on its way.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// `cloning`, `installing`, `working`, `running the checks`, …
    pub state: &'a str,
    pub plan: &'a Plan,
    /// The workflow run, where there is one.
    pub run_url: Option<&'a str>,
    /// The pull request of an earlier run.
    pub earlier: Option<u64>,
    /// The line by which the comment is found again: [`super::marker`].
    pub marker: &'a str,
}

/// The comment while the run goes on.
pub fn running(run: &Running<'_>) -> String {
    let link = link(run.run_url);
    let mut out =
        format!("**Patchwright is working on this**: {}{link}\n", text::inline(run.state));
    if let Some(number) = run.earlier {
        let _ = write!(out, "\n{PULL_REQUEST}{number} (of an earlier run)\n");
    }
    let plan = sections::plan(run.plan);
    if !plan.is_empty() {
        let _ = write!(out, "\n{plan}");
    }
    let _ = write!(out, "\n{}\n", run.marker);
    out
}

/// How the line begins that links the pull request, the second one of the comment.
const PULL_REQUEST: &str = "Pull request: #";

/// The pull request that a comment of ours links, which is kept by the next one in its place: often no other text leads
/// from the issue to it.
pub fn pull_request_in(body: &str) -> Option<u64> {
    let second = body.lines().map(str::trim).filter(|line| !line.is_empty()).nth(1)?;
    let rest = second.strip_prefix(PULL_REQUEST)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// Whether a pull request can be merged as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    Draft,
}

/// A run that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    pub outcome: &'a Outcome,
    /// Number and URL of the pull request, when there is one.
    pub pull_request: Option<(u64, &'a str)>,
    /// Whether it is a draft.
    pub readiness: Readiness,
    /// The pull request of an earlier run, which stays as it is where this one has none.
    pub earlier: Option<u64>,
    /// The page to open the pull request by hand, when we were not allowed to.
    pub compare_url: Option<&'a str>,
    /// The files that were held back, where no pull request has them.
    pub held_back_patch: Option<&'a str>,
    pub marker: &'a str,
}

/// Bytes of a patch in the comment.
const MAX_PATCH: usize = 30_000;

/// How a change ended that a check is against.
const RED_DRAFT: &str = "draft: checks fail";

/// The work is there, and its pull request is a draft because of a check. A run that was cut short says
/// that instead.
fn is_red_draft(finished: &Finished<'_>) -> bool {
    let outcome = finished.outcome;
    finished.pull_request.is_some()
        && finished.readiness == Readiness::Draft
        && matches!(outcome.conclusion, Conclusion::Done | Conclusion::Partial)
        && outcome.evidence.any_failed()
}

/// The comment after the run.
pub fn finished(finished: &Finished<'_>) -> String {
    let outcome = finished.outcome;
    let link = link(outcome.provenance.run_url.as_deref());
    let is_red_draft = is_red_draft(finished);
    let state = if is_red_draft { RED_DRAFT } else { sections::state(outcome.conclusion) };
    let mut out = format!("**Patchwright: {state}**{link}\n");
    match (finished.pull_request, finished.compare_url) {
        (Some((number, _)), _) => {
            let checks = sections::checks(&outcome.evidence);
            let draft = match finished.readiness {
                Readiness::Draft if !is_red_draft => "draft: ",
                Readiness::Ready | Readiness::Draft => "",
            };
            let _ = write!(out, "\n{PULL_REQUEST}{number} ({draft}{checks})\n");
        }
        (None, Some(url)) if is_plain_url(url) => {
            let _ = write!(out, "\nThe branch is pushed; [open the pull request]({url}).\n");
        }
        (None, _) => {
            if let Some(number) = finished.earlier {
                let _ = write!(out, "\n{}\n", as_it_was(number));
            }
            out.push_str(unpublished(outcome));
        }
    }
    let own = finished.pull_request.map(|(number, _)| number);
    let notes = publish_notes::list(&outcome.publish_notes, own);
    if !notes.is_empty() {
        let _ = write!(out, "\n{notes}");
    }
    out.push_str(&reason(outcome));
    let plan = sections::plan(&outcome.plan);
    if !plan.is_empty() {
        let _ = write!(out, "\n{plan}");
    }
    if finished.pull_request.is_none() {
        let patch = finished.held_back_patch;
        let held = sections::held_back(&outcome.judgement, "a pull request", patch, MAX_PATCH);
        let _ = write!(out, "{}{held}", if held.is_empty() { "" } else { "\n" });
    }
    // The description of the pull request has the model's words.
    if finished.pull_request.is_none() && !outcome.final_message.trim().is_empty() {
        let words = markdown::passage(&outcome.final_message, 6000);
        let label = match outcome.conclusion {
            Conclusion::NeedsInput => "The model asks",
            _ => "The model says",
        };
        let _ = if sections::may_quote(outcome) {
            write!(out, "\n*{label}:*\n\n{}\n", words.trim())
        } else {
            write!(out, "\n{}\n", sections::NOT_QUOTED)
        };
    }
    let _ = write!(out, "\n{}\n\n{}\n", sections::cost(&outcome.spending), finished.marker);
    out
}

/// Why it ended so. A refusal's reason repeats its first violation, so the list stands in its place.
fn reason(outcome: &Outcome) -> String {
    let violations = &outcome.judgement.violations;
    match &outcome.reason {
        Some(_) if outcome.conclusion == Conclusion::Refused && !violations.is_empty() => {
            let shown = violations.iter().take(20).map(sections::violation);
            shown.fold("\n".to_owned(), |out, violation| out + "- " + &violation + "\n")
        }
        Some(reason) => format!("\n{}\n", markdown::line(reason, 2000)),
        None => String::new(),
    }
}

fn as_it_was(number: u64) -> String {
    format!("{PULL_REQUEST}{number} (of an earlier run, as it was)")
}

/// Where the work of a run is that was stopped and has published nothing.
fn unpublished(outcome: &Outcome) -> &'static str {
    match (outcome.conclusion, &outcome.change) {
        (
            Conclusion::Interrupted
            | Conclusion::Budget
            | Conclusion::Provider
            | Conclusion::Sandbox,
            Some(_),
        ) => {
            "\nNothing was published. What was changed until then is `change.patch` among the files of \
             the run.\n"
        }
        (Conclusion::Interrupted | Conclusion::Budget | Conclusion::Provider, None) => {
            "\nNothing had been changed by then.\n"
        }
        _ => "",
    }
}

/// The comment when the run could not start or broke: the part of the failure that everybody may read.
/// `earlier` is the pull request of an earlier run.
pub fn failed(
    failure: &Failure,
    run_url: Option<&str>,
    earlier: Option<u64>,
    marker: &str,
) -> String {
    let heading = sections::failure_heading(failure);
    let mut out = format!("**{heading}**{}\n\n", link(run_url));
    let own = failure.outputs().iter().find(|(name, _)| *name == "pull-request-number");
    let own = own.and_then(|(_, number)| number.parse::<u64>().ok());
    // Text of others is kept from being a link; these are of ours.
    if let Some(number) = own {
        let _ = write!(out, "{PULL_REQUEST}{number} (the work so far)\n\n");
    } else if let Some(number) = earlier {
        let _ = write!(out, "{}\n\n", as_it_was(number));
    }
    out.push_str(&text::fence(&text::head(&failure.in_public(), 4000), ""));
    for hint in failure.public_hints().take(5) {
        let _ = write!(out, "\n- {}", markdown::line(hint, 1000));
    }
    let _ = write!(out, "\n\n{marker}\n");
    out
}

fn link(url: Option<&str>) -> String {
    url.filter(|url| is_plain_url(url)).map(|url| format!(" · [run]({url})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pull_request_of_a_comment_is_read_from_its_second_line_alone() {
        let failure = Failure::nothing_to_do("issue #7 was closed");
        let marker = "<!-- patchwright:progress run=r v=1 -->";
        assert_eq!(pull_request_in(&failed(&failure, None, Some(12), marker)), Some(12));
        let own = failure.output("pull-request-number", "9");
        assert_eq!(pull_request_in(&failed(&own, None, Some(12), marker)), Some(9));
        let plan = Plan::default();
        let running = Running { state: "x", plan: &plan, run_url: None, earlier: Some(3), marker };
        assert_eq!(pull_request_in(&self::running(&running)), Some(3));
        assert_eq!(
            pull_request_in("**Patchwright: done**\n\nPull request: #8 (1 check)\n"),
            Some(8)
        );
        let by_model = "**Patchwright: done**\n\n*The model says:*\n\nPull request: #8\n";
        assert_eq!(pull_request_in(by_model), None);
    }
}
