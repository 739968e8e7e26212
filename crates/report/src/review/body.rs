//! The body of a review: how much was found, what matters most, and every new finding that is not on a
//! line. Everything else is in the comment in the conversation, or here if there is no such comment.

use std::fmt::Write as _;

use super::inline;
use super::{
    ROOM, beyond, details, heading, origin, place, plural, scope, shortfall, skipped, words,
};
use crate::pr_body::is_plain_url;
use crate::{self as report, sections};
use patchwright_base::text;
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::incremental::{FindingState, KnownFinding};
use patchwright_types::reviewed::Reviewed;

/// What the body is made of.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    pub reviewed: &'a Reviewed,
    /// What became of all findings, old and new.
    pub known: &'a [KnownFinding],
    /// New findings on lines.
    pub inline: &'a [Anchored],
    /// New findings that are not on a line, the most important first.
    pub listed: &'a [Listed],
    /// Sentences of ours that people should know first.
    pub remarks: &'a [String],
    /// The comment in the conversation, which has what is not about one finding.
    pub comment_url: Option<&'a str>,
}

/// A new finding that is not on a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub anchored: Anchored,
    pub why: OffDiffReason,
}

/// Why a finding is not on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffDiffReason {
    /// Its lines are not in the diff, or its file is not.
    NoLine,
    /// There are as many comments as one review should have.
    Overflow,
    /// GitHub did not take the comment.
    Refused,
    /// The commit that was read is no longer part of the pull request.
    Moved,
    /// Its file is left out of reviews.
    Filtered,
    /// It is below the priority or the confidence that a comment on a line needs.
    Minor,
}

/// How much of what may be shortened is shown.
struct BodyBudget {
    /// Bytes of a finding's body, and of its quote.
    body: usize,
    quote: usize,
    /// Sections besides the findings.
    sections: usize,
    findings: usize,
}

const ROOMS: &[BodyBudget] = &[
    BodyBudget { body: 6000, quote: 2000, sections: 3, findings: usize::MAX },
    BodyBudget { body: 6000, quote: 2000, sections: 2, findings: usize::MAX },
    BodyBudget { body: 6000, quote: 2000, sections: 1, findings: usize::MAX },
    BodyBudget { body: 4000, quote: 1000, sections: 0, findings: usize::MAX },
    BodyBudget { body: 1200, quote: 400, sections: 0, findings: usize::MAX },
    BodyBudget { body: 0, quote: 0, sections: 0, findings: usize::MAX },
    BodyBudget { body: 0, quote: 0, sections: 0, findings: 150 },
    BodyBudget { body: 0, quote: 0, sections: 0, findings: 40 },
];

/// The body with both markers. What does not fit is cut with a count; the markers always stay.
pub fn body(body: &Body<'_>) -> String {
    let run = &body.reviewed.run;
    let markers =
        format!("{}\n\n{}\n", report::marker(super::PURPOSE, run), super::reference_marker(run));
    let mut out = String::new();
    // From generous to tight: the first version that fits into GitHub's limit is used.
    for room in ROOMS {
        out = assembled(body, room);
        if out.chars().count() + markers.len() <= ROOM {
            break;
        }
    }
    format!("{}\n\n{markers}", out.trim_end())
}

fn assembled(body: &Body<'_>, room: &BodyBudget) -> String {
    let reviewed = body.reviewed;
    let mut out = format!("**Patchwright review**: {}", found(body));
    let url = body.comment_url.filter(|url| is_plain_url(url));
    if url.is_some() && shortfall(reviewed).is_some() {
        out.push_str(" The review is not complete.");
    }
    out.push('\n');
    if let Some(gravest) = gravest(body) {
        let _ = writeln!(out, "Most important: {} ({})", heading(gravest), place(gravest));
    }
    if let Some(url) = url {
        let _ = writeln!(out, "[All findings, checks and cost]({url})");
    }
    out.push('\n');
    for remark in body.remarks {
        let _ = writeln!(out, "> [!NOTE]\n> {}\n", remark.replace('\n', " "));
    }
    if url.is_none() {
        out.push_str(&opening(reviewed, room));
    }
    out.push_str(&listed(body.listed, room));
    if url.is_none() {
        out.push_str(&hidden(reviewed));
        out.push_str(&closing(reviewed, room));
    }
    out
}

/// The new finding that matters most, of those of one rank the surest, unless it is the only one and its comment follows.
fn gravest<'a>(body: &Body<'a>) -> Option<&'a Anchored> {
    let all = body.inline.iter().chain(body.listed.iter().map(|listed| &listed.anchored));
    let is_next = body.listed.is_empty() && body.inline.len() == 1;
    let by_weight = |one: &&'a Anchored, other: &&'a Anchored| {
        let surest = || other.finding.confidence.total_cmp(&one.finding.confidence);
        one.finding.rank().cmp(&other.finding.rank()).then_with(surest)
    };
    all.min_by(by_weight).filter(|_| !is_next)
}

/// What the comment in the conversation would say above the findings.
fn opening(reviewed: &Reviewed, room: &BodyBudget) -> String {
    let mut out = format!("{}\n\n", scope(reviewed));
    if let Some(shortfall) = shortfall(reviewed) {
        let _ = writeln!(out, "> [!WARNING]\n> This review is not complete. {shortfall}\n");
    }
    let summary = words(&reviewed.summary, if room.sections > 0 { 8000 } else { 2000 });
    if !summary.trim().is_empty() {
        let _ = writeln!(out, "{}\n\n{}\n", summary.trim_end(), sections::BY_MODEL);
    }
    out
}

/// What it would say below them.
fn closing(reviewed: &Reviewed, room: &BodyBudget) -> String {
    let mut out = String::new();
    let parts = parts(reviewed);
    let filled = parts.iter().filter(|(_, text)| !text.trim().is_empty());
    for (summary, content) in filled.clone().take(room.sections) {
        out.push_str(&details(summary, content));
    }
    let left: Vec<&str> = filled.skip(room.sections).map(|(summary, _)| *summary).collect();
    if !left.is_empty() {
        let _ = writeln!(out, "*Left out for want of room: {}.*\n", left.join("; "));
    }
    out
}

/// `3 new findings (1 × P0, 2 × P2), 2 from earlier are still there.`
fn found(body: &Body<'_>) -> String {
    let of = |fate: FindingState| body.known.iter().filter(move |known| known.fate == fate);
    let new = body.inline.len() + body.listed.len();
    let mut out = if new == 0 {
        "no new findings".to_owned()
    } else {
        let counts = super::counts(of(FindingState::New).map(|known| known.priority));
        // The counts by priority are left out when they would not add up to the number before them.
        let is_whole = of(FindingState::New).count() == new;
        let counts = if is_whole { format!(" ({counts})") } else { String::new() };
        format!("{}{counts}", plural(new, "new finding"))
    };
    for (fate, words) in [
        (FindingState::Still, "still there"),
        (FindingState::Fixed, "fixed"),
        (FindingState::Dismissed, "dismissed"),
    ] {
        let count = of(fate).count();
        if count > 0 {
            let _ = write!(out, ", {count} {words}");
        }
    }
    out.push('.');
    out
}

/// Findings that are not shown, and why.
fn hidden(reviewed: &Reviewed) -> String {
    let sentence = |count: usize, why: &str| match count {
        0 => String::new(),
        1 => format!("1 finding {why} is not shown.\n\n"),
        count => format!("{count} findings {why} are not shown.\n\n"),
    };
    sentence(reviewed.below, "below the configured priority or confidence")
        + &sentence(reviewed.dropped, &beyond())
}

fn listed(listed: &[Listed], room: &BodyBudget) -> String {
    let mut out = String::new();
    let kinds = [
        (OffDiffReason::Moved, "on code that is no longer part of the pull request"),
        (OffDiffReason::NoLine, "could not be anchored to a line of the diff"),
        (OffDiffReason::Refused, "on lines that GitHub did not take a comment on"),
        (
            OffDiffReason::Filtered,
            "in files that `review.paths` or `review.ignore-paths` leave out",
        ),
        (OffDiffReason::Overflow, "beyond the number of comments on lines"),
        (OffDiffReason::Minor, "below the priority or confidence of comments on lines"),
    ];
    // The kinds are in order of importance, so the last ones are cut first.
    let mut left = room.findings;
    for (why, words) in kinds {
        let all: Vec<&Listed> = listed.iter().filter(|listed| listed.why == why).collect();
        let shown = &all[..all.len().min(left)];
        left -= shown.len();
        let mut content = String::new();
        for listed in shown {
            content.push_str(&entry(listed, room));
        }
        let more = all.len() - shown.len();
        if more > 0 {
            let _ = writeln!(
                content,
                "… and {} that did not fit here: all are in `findings.json` among the run's files.",
                plural(more, "finding")
            );
        }
        if !all.is_empty() {
            out.push_str(&details(&format!("{} {words}", plural(all.len(), "finding")), &content));
        }
    }
    out
}

fn entry(listed: &Listed, room: &BodyBudget) -> String {
    let anchored = &listed.anchored;
    let finding = &anchored.finding;
    let why = match (&anchored.anchor, listed.why) {
        (Anchor::File { why, .. } | Anchor::Nowhere { why }, OffDiffReason::NoLine)
            if room.body > 0 =>
        {
            format!(": {}", words(&text::line(why), 500).trim())
        }
        _ => String::new(),
    };
    if room.body == 0 {
        return format!("- {} — {}\n", heading(anchored), place(anchored));
    }
    let mut out = format!("{}\n{}{why}\n\n", heading(anchored), place(anchored));
    let notes = inline::notes(anchored);
    if !notes.is_empty() {
        let _ = writeln!(out, "{notes}\n");
    }
    let _ = writeln!(out, "{}\n", words(&finding.body, room.body).trim_end());
    let reproduction = inline::reproduction(finding);
    if !reproduction.is_empty() && reproduction.len() <= room.body {
        let _ = writeln!(out, "{reproduction}\n");
    }
    // A comment on a line would show the code; here the quote does.
    if !finding.quote.trim().is_empty() {
        let _ = writeln!(out, "{}", text::fence(&text::head(&finding.quote, room.quote), ""));
    }
    // A comment on a line would offer it; here it can be read and copied.
    if let Some(replacement) = anchored.suggestion.as_deref().filter(|it| it.len() <= room.quote) {
        let _ = writeln!(out, "Could be:\n\n{}", text::fence(replacement, ""));
    }
    out
}

/// The parts of a body that a job summary has too: what was read and all findings in full.
pub fn for_summary(body: &Body<'_>) -> String {
    let room = BodyBudget { body: 4000, quote: 1000, sections: 3, findings: usize::MAX };
    let reviewed = body.reviewed;
    let mut out = format!("{}\n\n", scope(reviewed));
    if let Some(shortfall) = shortfall(reviewed) {
        let _ = writeln!(out, "This review is not complete. {shortfall}\n");
    }
    out.push_str(&words(&reviewed.summary, 20_000));
    out.push('\n');
    let entries: String = body.listed.iter().map(|listed| entry(listed, &room)).collect();
    out.push_str(&details("Findings in full", &entries));
    out.push_str(&hidden(reviewed));
    for (summary, content) in parts(reviewed) {
        out.push_str(&details(summary, &content));
    }
    out
}

/// What stands below the findings, the most important first.
fn parts(reviewed: &Reviewed) -> [(&'static str, String); 3] {
    [
        ("Checks", sections::evidence(&reviewed.evidence)),
        ("What was not read", skipped(&reviewed.coverage)),
        ("Cost, model and where this comes from", origin(reviewed)),
    ]
}
