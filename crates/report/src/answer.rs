//! The answers in the thread in which somebody asked for something.
//!
//! The caller adds the marker line.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};

use super::pr_body::is_plain_url;
use super::{markdown, publish_notes, review, sections};
use patchwright_base::error::Failure;
use patchwright_base::text::{self, code};
use patchwright_policy::Violation;
use patchwright_review::incremental::KnownFinding;
use patchwright_types::outcome::{Conclusion, Outcome};

/// The purpose of the second marker in the comment that remembers a stop.
pub const STOPPED: &str = "stopped";
/// Its purpose when somebody has asked for more since.
pub const LIFTED: &str = "lifted";

/// The reason of a run whose model changed nothing.
pub const NO_CHANGE: &str = "the model made no change";

/// Bytes of the model's words, and of a patch.
const MAX_WORDS: usize = 20_000;
const MAX_PATCH: usize = 30_000;

/// What became of a change, for the answer.
#[derive(Clone, Copy, Debug)]
pub enum LandedChange<'a> {
    Pushed {
        commit: &'a str,
        url: Option<&'a str>,
        branch: &'a str,
        /// The commit it was merged onto, when the branch had moved.
        onto: Option<&'a str>,
    },
    Patch {
        why: &'a str,
    },
    /// It may be shown to nobody, because there is a secret in it.
    Refused {
        why: &'a str,
    },
    PullRequest {
        number: u64,
    },
    Nothing,
}

/// Work that was done, or tried.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<'a> {
    pub outcome: &'a Outcome,
    pub landed: LandedChange<'a>,
    /// The change, where it could not be pushed, or was cut short.
    pub patch: Option<&'a str>,
    /// What policy kept back.
    pub held_back: Option<&'a str>,
}

/// The answer to `fix`, `fix-ci` and an approved plan.
pub fn fixed(fixed: &Fixed<'_>) -> String {
    let outcome = fixed.outcome;
    let link = link(outcome.provenance.run_url.as_deref());
    let is_unchanged = outcome.conclusion == Conclusion::NothingToDo;
    let has_words = !outcome.final_message.trim().is_empty() && sections::may_quote(outcome);
    let mut out = match fixed.landed {
        LandedChange::Nothing if is_unchanged => format!("**Nothing was changed**{link}\n"),
        LandedChange::Pushed { commit, url, branch, .. } => {
            let note = match outcome.conclusion {
                // The commit is pushed without the files that policy held back, which the list
                // below names.
                Conclusion::Partial => ", without what was kept back",
                _ => "",
            };
            format!("**Pushed {} to {}**{note}{link}\n", commit_link(commit, url), code(branch))
        }
        LandedChange::PullRequest { number } => format!("**Pull request: #{number}**{link}\n"),
        LandedChange::Patch { .. } => format!("**Done, but not pushed**{link}\n"),
        LandedChange::Refused { .. } | LandedChange::Nothing => {
            format!("**{}**{link}\n", capital(sections::state(outcome.conclusion)))
        }
    };
    if let LandedChange::Pushed { onto: Some(onto), .. } = fixed.landed {
        let _ = write!(
            out,
            "\nThe branch had moved to {} meanwhile. The change was put on top of it without a \
             conflict; the checks below ran before that.\n",
            code(short(onto))
        );
    }
    let violations = &outcome.judgement.violations;
    match (fixed.landed, &outcome.reason) {
        (LandedChange::Patch { why }, _) => {
            let _ = write!(out, "\n{}\n", markdown::line(why, 2000));
        }
        // The heading says it, and the model why.
        (LandedChange::Nothing, Some(reason))
            if is_unchanged && has_words && reason == NO_CHANGE => {}
        // The list below says it otherwise.
        (_, Some(reason)) if !is_about(reason, violations) => {
            let _ = write!(out, "\n{}\n", markdown::line(reason, 2000));
        }
        _ => {}
    }
    for violation in violations.iter().take(20) {
        let _ = write!(out, "\n- {}", sections::violation(violation));
    }
    if !violations.is_empty() {
        out.push('\n');
    }
    // The description of the pull request has the rest.
    if let LandedChange::PullRequest { number } = fixed.landed {
        let notes = publish_notes::list(&outcome.publish_notes, Some(number));
        if !notes.is_empty() {
            let _ = write!(out, "\n{notes}");
        }
    } else {
        details(&mut out, fixed);
    }
    let _ = write!(out, "\n{}\n", sections::cost(&outcome.spending));
    out
}

/// What the model says, the checks, and what is not on the branch.
fn details(out: &mut String, fixed: &Fixed<'_>) {
    let outcome = fixed.outcome;
    said(out, outcome);
    if outcome.change.is_some() {
        let _ = write!(out, "\n{}", sections::evidence(&outcome.evidence));
    }
    let held_back =
        sections::held_back(&outcome.judgement, "the commit", fixed.held_back, MAX_PATCH);
    if !held_back.is_empty() {
        let _ = write!(out, "\n{held_back}");
    }
    let is_cut_short = matches!(fixed.landed, LandedChange::Nothing) && fixed.patch.is_some();
    if is_cut_short {
        out.push_str(
            "\nNothing was pushed. The unfinished change is below; ask in a new comment to continue it.\n",
        );
    }
    if is_cut_short || matches!(fixed.landed, LandedChange::Patch { .. }) {
        patch(out, fixed.patch);
    }
}

/// The reason of an outcome is its first violation.
fn is_about(reason: &str, violations: &[Violation]) -> bool {
    violations.first().is_some_and(|first| {
        let rule = format!("({})", first.rule);
        reason.contains(first.message.as_str()) && reason.ends_with(&rule)
    })
}

/// The change, and how to apply it.
fn patch(out: &mut String, patch: Option<&str>) {
    match patch {
        Some(patch) if patch.len() <= MAX_PATCH && sections::can_be_copied(patch) => {
            let block = text::fence(patch, "diff");
            let _ = write!(
                out,
                "\nTo apply it, save this patch as `change.patch` and run `git apply --index \
                 change.patch` on the branch.\n\n<details><summary>Patch</summary>\n\n{block}\n</details>\n"
            );
        }
        _ => out.push_str(
            "\nThe change is among the run's files as `change.patch`; apply it with `git apply --index \
             change.patch`.\n",
        ),
    }
}

/// The answer to a question.
pub fn answered(outcome: &Outcome) -> String {
    let mut out = String::new();
    if outcome.conclusion != Conclusion::Done {
        let link = link(outcome.provenance.run_url.as_deref());
        let _ = writeln!(out, "**{}**{link}", capital(sections::state(outcome.conclusion)));
        if let Some(reason) = &outcome.reason {
            let _ = write!(out, "\n{}\n", markdown::line(reason, 2000));
        }
        said(&mut out, outcome);
    } else if outcome.final_message.trim().is_empty() {
        out.push_str("The model had nothing to say.\n");
    } else {
        out.push_str(markdown::passage(&outcome.final_message, MAX_WORDS).trim());
        out.push('\n');
    }
    // An answer is about one commit, so it names it: the branch may have moved since.
    let head = &outcome.provenance.base_sha;
    let at = if head.is_empty() { String::new() } else { format!("at {} · ", code(short(head))) };
    let _ = write!(out, "\n<sub>{at}{}</sub>\n", sections::cost(&outcome.spending));
    out
}

pub(super) fn said(out: &mut String, outcome: &Outcome) {
    if outcome.final_message.trim().is_empty() {
        return;
    }
    if !sections::may_quote(outcome) {
        let _ = write!(out, "\n{}\n", sections::NOT_QUOTED);
        return;
    }
    let label = match outcome.conclusion {
        Conclusion::NeedsInput => "The model asks",
        _ => "The model says",
    };
    let words = markdown::passage(&outcome.final_message, MAX_WORDS);
    let _ = write!(out, "\n*{label}:*\n\n{}\n", words.trim());
}

/// A plan that waits for approval.
#[derive(Clone, Debug)]
pub struct ProposedPlan<'a> {
    pub outcome: &'a Outcome,
    /// As people see it: a passage, between the lines by which it is found again.
    pub framed: &'a str,
    pub hash: &'a str,
    /// The marker line of the comment.
    pub marker: &'a str,
    pub mention: &'a str,
}

/// The plan, and how to approve it.
pub fn plan(plan: &ProposedPlan<'_>) -> String {
    let head = &plan.outcome.provenance.base_sha;
    format!(
        "**Plan {}**, made from {} at {}{}\n\n{}\n\nTo have exactly this done, \
         write {} in a comment. If the description or the code changes before that, ask for a new \
         plan.\n\n<sub>{}</sub>\n\n{}\n",
        code(plan.hash),
        code(&plan.outcome.provenance.base_branch),
        code(short(head)),
        link(plan.outcome.provenance.run_url.as_deref()),
        plan.framed,
        command(plan.mention, &format!("approve {}", plan.hash)),
        sections::cost(&plan.outcome.spending),
        plan.marker,
    )
}

/// An approved plan as the words of who approved it.
pub fn approved_plan(plan: &str) -> String {
    format!(
        "This plan was approved. Carry out exactly this plan, nothing less and nothing else. If a step \
         turns out to be impossible or wrong, do the others, and say so in the final message.\n\n{plan}"
    )
}

/// The answer when there is no plan with that hash.
pub fn no_such_plan(hash: &str, known: &[&str], mention: &str) -> String {
    // The known hashes follow, so that a person can copy the right one.
    let wanted = if hash.trim().is_empty() {
        "Which plan is approved? The command takes its hash.".to_owned()
    } else {
        format!("There is no plan of mine here with the hash {}.", code(hash))
    };
    match known {
        [] => format!("{wanted} {} makes one.\n", command(mention, "plan")),
        known => {
            let known: Vec<String> = known.iter().take(10).map(|hash| code(hash)).collect();
            format!("{wanted} The plans here, newest first: {}.\n", known.join(", "))
        }
    }
}

/// The answer when a beginning fits several plans.
pub fn several_plans(hash: &str, hashes: &[String], mention: &str) -> String {
    let hashes: Vec<String> = hashes.iter().take(10).map(|hash| code(hash)).collect();
    format!(
        "Several plans begin with {}: {}. Write the whole hash behind {}.\n",
        code(hash),
        hashes.join(", "),
        command(mention, "approve")
    )
}

/// The answer when what a plan was made from has changed.
pub fn plan_outdated(hash: &str, changed: &[String], mention: &str) -> String {
    let mut out = format!(
        "**Plan {} was not carried out**: since it was made, this has changed:\n",
        code(hash)
    );
    for what in changed {
        let _ = write!(out, "\n- {}", markdown::line(what, 2000));
    }
    let _ = write!(out, "\n\n{} makes a new one to approve.\n", command(mention, "plan"));
    out
}

/// A review that was asked for.
#[derive(Clone, Copy, Debug)]
pub struct RequestedReview<'a> {
    pub head: &'a str,
    pub since: Option<&'a str>,
    pub findings: usize,
    /// What became of all findings, old and new.
    pub known: &'a [KnownFinding],
    pub conclusion: Conclusion,
    pub reason: Option<&'a str>,
    pub url: Option<&'a str>,
}

/// A line about a review; the review says the rest.
pub fn reviewed(review: &RequestedReview<'_>) -> String {
    let head = code(short(review.head));
    let since = review.since.map(|since| format!(" since {}", code(short(since))));
    let findings = review::found(review.findings, review.since, review.known);
    let link = review.url.filter(|url| is_plain_url(url));
    let link = link.map(|url| format!(": [the review]({url})")).unwrap_or_default();
    let mut out = format!("Reviewed {head}{}: {findings}{link}.\n", since.unwrap_or_default());
    if let (true, Some(reason)) = (review.conclusion != Conclusion::Done, review.reason) {
        let _ = write!(out, "\n{}\n", markdown::line(reason, 2000));
    }
    out
}

/// The commands.
pub fn help(mention: &str) -> String {
    let row = |words: &str, what: &str| format!("- {}: {what}\n", command(mention, words));
    let mut out = String::from("What can be asked for, by people with write access here:\n\n");
    for (words, what) in [
        ("fix …", "changes the branch of this pull request, or opens one for this issue"),
        ("fix-ci", "repairs the failing checks of a pull request that I opened"),
        ("review", "reviews what is new; `review full` reviews everything"),
        ("describe", "writes title and description of this pull request by what it changes"),
        (
            "rebase",
            "puts a pull request that I opened on top of its base branch, conflicts included",
        ),
        ("plan …", "posts a plan with a hash"),
        ("approve HASH", "carries out exactly that plan"),
        ("ignore", "as an answer to a finding: it is dismissed, and the check says so at once"),
        ("stop", "does nothing more here until somebody asks again"),
        ("help", "this list"),
    ] {
        out.push_str(&row(words, what));
    }
    out.push_str("\nAnything else is answered here or done, whichever it asks for.\n");
    out
}

/// The comment that remembers a stop. `asked`: when it was asked for, and the number of the comment in which.
pub fn stopped(mention: &str, asked: Option<(DateTime<Utc>, u64)>) -> String {
    let asked = asked.map(|(at, comment)| format!(" at={} comment={comment}", at.timestamp()));
    format!(
        "**Stopped.** Nothing more is done here, and work that is under way is not published, until \
         somebody asks again, for example with {}.\n\n<!-- patchwright:{STOPPED}{} v=1 -->\n",
        command(mention, "fix …"),
        asked.unwrap_or_default()
    )
}

/// When it was asked for, and in which comment, by what the marker [`STOPPED`] or [`LIFTED`] says.
pub fn stop_asked(said: &str) -> Option<(DateTime<Utc>, u64)> {
    let value = |name: &str| {
        let mut words = said.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse::<i64>().ok())
    };
    Some((DateTime::from_timestamp(value("at")?, 0)?, value("comment")?.try_into().ok()?))
}

/// The comment of [`stopped`] after somebody has asked again. `stopped`: as its `asked`.
pub fn going_on((at, comment): (DateTime<Utc>, u64)) -> String {
    let at = at.timestamp();
    format!(
        "Work was stopped here; somebody has asked for more since, so it continues.\n\n\
         <!-- patchwright:{LIFTED} at={at} comment={comment} v=1 -->\n"
    )
}

/// The answer to `stop` in a thread on the diff.
pub fn stopped_in_thread(mention: &str) -> String {
    format!("Stopped. {} starts again.\n", command(mention, "fix …"))
}

/// The last answer in a thread.
pub fn rounds_used_up(most: usize) -> String {
    format!(
        "This thread has had its {most} answers, and gets no more. Ask in a new thread, or raise \
         `respond.max-rounds`.\n"
    )
}

/// The commit had been pushed by a run that did not live to say so.
pub fn landed_before(commit: &str, url: Option<&str>, branch: &str) -> String {
    format!("**Pushed {} to {}**\n", commit_link(commit, url), code(branch))
}

/// Something that only a pull request can be.
pub fn only_for_pull_requests(done: &str) -> String {
    format!("This is an issue; only pull requests can be {done}.\n")
}

/// `describe` on a pull request of ours.
pub fn describes_itself() -> String {
    "I opened this pull request, and each run of mine writes its description anew.\n".to_owned()
}

/// The answer to `describe`.
pub fn described(outcome: &Outcome, before: &str, now: &str) -> String {
    let title = if before == now {
        "The title stays as it is.".to_owned()
    } else {
        format!("The title was {}.", code(&text::line(before)))
    };
    format!(
        "**Title and description are written**{}\n\n{title} What the description said before is folded below \
         it.\n\n{}\n",
        link(outcome.provenance.run_url.as_deref()),
        sections::cost(&outcome.spending)
    )
}

/// `fix-ci` on somebody else's pull request.
pub fn not_our_pull_request(mention: &str) -> String {
    format!(
        "I did not open this pull request, so its checks are not repaired by themselves. {} does what \
         you say.\n",
        command(mention, "fix …")
    )
}

/// `fix-ci` too early.
pub fn checks_running(count: usize) -> String {
    let plural = if count == 1 { "check has" } else { "checks have" };
    format!("{count} {plural} not ended yet; ask again when all have.\n")
}

/// `fix-ci` without need.
pub fn checks_fine() -> String {
    "No check fails on the head of this pull request.\n".to_owned()
}

/// The checks still fail after the last round.
pub fn ci_given_up(failing: &[&str], rounds: u32, mention: &str) -> String {
    let mut out = format!(
        "**These checks still fail after {rounds} rounds of repairs**, so this is a draft now and needs \
         a person:\n"
    );
    for name in failing.iter().take(20) {
        let _ = write!(out, "\n- {}", code(name));
    }
    let _ = write!(
        out,
        "\n\nA commit of yours on the branch starts the count anew; {} does what you say.\n",
        command(mention, "fix …")
    );
    out
}

/// Why nothing came of it.
pub fn failed(failure: &Failure, run_url: Option<&str>) -> String {
    let heading = sections::failure_heading(failure);
    let mut out = format!("**{heading}**{}\n\n", link(run_url));
    out.push_str(&text::fence(&text::head(&failure.in_public(), 4000), ""));
    for hint in failure.public_hints().take(5) {
        let _ = write!(out, "\n- {}", markdown::line(hint, 1000));
    }
    out.push('\n');
    out
}

/// A command as people write it, in code so that it mentions nobody.
pub(super) fn command(mention: &str, words: &str) -> String {
    code(&format!("@{mention} {words}"))
}

pub(super) fn commit_link(commit: &str, url: Option<&str>) -> String {
    match url.filter(|url| is_plain_url(url)) {
        Some(url) => format!("[{}]({url})", code(short(commit))),
        None => code(short(commit)),
    }
}

/// The first ten digits.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}", chars.as_str())
}

pub(super) fn link(url: Option<&str>) -> String {
    url.filter(|url| is_plain_url(url)).map(|url| format!(" · [run]({url})")).unwrap_or_default()
}
