//! Title and body of the pull request: what was done, what shows that it works, what to look at, and
//! folded where it comes from. What the page has elsewhere (files, commits) is not repeated. The facts
//! come from the run's records; what the model says is labelled as such and can neither notify nor close
//! anything.

use std::fmt::Write as _;

use super::model_words::Fence;
use super::origin::{self, Origin};
use super::template::{self, Section, Topic};
use super::{
    MAX_BODY, attempts, commit_message, markdown, model_words, publish_notes, sections, setup,
};
use patchwright_base::text;
use patchwright_forge::{WRITTEN, marker};
use patchwright_types::evidence::{Standing, Verdict};
use patchwright_types::outcome::{Conclusion, INTERRUPTED, Outcome};

/// What the body is made of.
#[derive(Clone, Copy, Debug)]
pub struct PullRequest<'a> {
    pub outcome: &'a Outcome,
    /// Number and title of the issue that it is about.
    pub issue: Option<(u64, &'a str)>,
    /// Its title, where that is not the usual one: see [`title`].
    pub title: &'a str,
    /// The text of the repository's template.
    pub template: Option<&'a str>,
    /// The patch of the files that were held back.
    pub held_back_patch: Option<&'a str>,
    /// The line by which the body is found again: [`super::marker`].
    pub marker: &'a str,
}

/// Room for the parts that can grow, in bytes; the rest is bounded by its own lists.
const SUMMARY: usize = 12_000;
const PATCH: usize = 20_000;
/// Bytes of an assumption.
const MAX_ITEM: usize = 2_000;

/// The purpose of the marker of descriptions.
pub const PURPOSE: &str = "pull-request";

/// How a body begins that says why the pull request is a draft.
const WARNING: &str = "> [!WARNING]";

/// The comment with the newest description, below one that somebody has edited. `marker` finds it again.
pub fn below_edited(body: &str, marker: &str) -> String {
    format!(
        "The description above has been edited, so it stays as it is. This is what it would say after the newest run:\n\n\
         {}\n\n{marker}\n",
        body.trim()
    )
}

/// A body of ours that says why the pull request is a draft.
pub fn has_warning(body: &str) -> bool {
    body.trim_start().starts_with(WARNING)
}

/// A description without what is of use to people only: our evidence and the folds below it, and without our own markers,
/// which nobody has hidden there. One that is not ours stays as it is.
pub fn without_record(body: &str) -> String {
    if !super::is_described(body, PURPOSE) {
        return body.to_owned();
    }
    let mut own = marker::standing(body);
    own.retain(|line| marker::purpose(line).is_some_and(|it| [PURPOSE, WRITTEN].contains(&it)));
    let (mut out, mut fence, mut part) = (Vec::new(), Fence::default(), Part::Words);
    for line in body.lines() {
        let is_code = fence.holds(line);
        part = match part {
            Part::Record if !is_code && ends_record(line) => Part::of(line),
            Part::Fold if !is_code && line == "</details>" => Part::Folded,
            Part::Words | Part::Folded if !is_code => Part::of(line),
            Part::Folded => Part::Words,
            other => other,
        };
        if part == Part::Words && (is_code || !own.contains(&line)) {
            out.push(line);
        }
    }
    out.join("\n")
}

/// The next section, or the end of the body with the link to the issue.
fn ends_record(line: &str) -> bool {
    line == "---" || ["## ", "Fixes #", "Refs #"].iter().any(|begin| line.starts_with(begin))
}

/// What a line of a description belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Words,
    /// The section with the evidence.
    Record,
    Fold,
    /// The line at which a fold ends.
    Folded,
}

impl Part {
    /// What begins with a line outside of code.
    fn of(line: &str) -> Part {
        match line {
            "## Evidence" => Part::Record,
            line if line.starts_with("<details><summary>") => Part::Fold,
            _ => Part::Words,
        }
    }
}

/// The first line of the model's last message as it would stand in a title, whatever it reads like.
pub fn first_line(final_message: &str) -> String {
    let first = final_message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let line = text::line(first);
    commit_message::subject(&line.trim_start_matches('#').replace("**", "").replace('`', ""))
}

/// The title: the first line of the model's last message when it reads like one, else the issue's.
pub fn title(final_message: &str, issue_title: Option<&str>) -> String {
    let first = final_message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let first = text::line(first);
    let line = first.trim_start_matches('#').replace("**", "").replace('`', "");
    let line = line.trim();
    // Models often end with a sentence about themselves; that makes no title.
    let reads_like_one = (8..=72).contains(&line.chars().count())
        && !line.ends_with(['.', ':', '!', '?', ','])
        && !line.starts_with(['-', '>', '|', '[', '<', '{'])
        && !line.to_lowercase().starts_with("i ")
        && line.contains(' ')
        && !line.eq_ignore_ascii_case("summary of changes");
    let chosen = issue_title.filter(|_| !reads_like_one).unwrap_or(line);
    commit_message::subject(chosen)
}

/// The body, at most [`MAX_BODY`] characters. If it is too long, the held-back patch is cut
/// first, then the model's words; the checks, the marker and `Fixes #N` always stay.
pub fn body(pull_request: &PullRequest<'_>) -> String {
    let budgets = [(PATCH, SUMMARY), (0, SUMMARY), (0, 3000), (0, 500)];
    let mut out = String::new();
    for (patch, summary) in budgets {
        out = assemble(pull_request, patch, summary);
        if out.len() <= MAX_BODY - 500 {
            return out;
        }
    }
    let tail = footer(pull_request, "");
    let room = MAX_BODY - tail.len() - 500;
    // The cut may leave a block open. Closing tags and fences are harmless where it did not.
    format!("{}\n\n{tail}", closed(&text::head(&out, room)))
}

fn assemble(pull_request: &PullRequest<'_>, patch: usize, summary: usize) -> String {
    let mut sections = sections(pull_request, patch, summary);
    let mut out = String::new();
    if let Some(warning) = warning(pull_request.outcome) {
        let _ = writeln!(out, "{WARNING}\n> {warning}\n");
    }
    if let Some(template) = pull_request.template.filter(|template| !template.trim().is_empty()) {
        out.push_str(template::fill(template, &mut sections).trim_start());
    }
    // The issue has its line at the end, and the page has a list of the files: both are here for
    // templates that ask for them.
    let is_shown = |section: &&Section| !matches!(section.topic, Topic::Issue | Topic::Changes);
    for section in sections.iter().filter(is_shown) {
        if !section.heading.is_empty() {
            let _ = write!(out, "## {}\n\n", section.heading);
        }
        let _ = write!(out, "{}\n\n", section.text.trim_end());
    }
    let tail = footer(pull_request, &out);
    out.push_str(&tail);
    out
}

/// Our sections in order; empty ones are left out.
fn sections(pull_request: &PullRequest<'_>, patch: usize, summary: usize) -> Vec<Section> {
    let outcome = pull_request.outcome;
    let section = |topic, heading, text| Section { topic, heading, text };
    let changes = outcome.change.as_ref().map(|c| sections::files(c, &outcome.judgement));
    let assumptions = sections::assumptions(&outcome.final_message);
    let assumptions = assumptions
        .iter()
        .fold(String::new(), |out, item| out + "- " + &markdown::line(item, MAX_ITEM) + "\n");
    let issue = pull_request.issue.map(|(number, _)| reference(outcome, number));
    let held = sections::held_back(
        &outcome.judgement,
        "this pull request",
        pull_request.held_back_patch,
        patch,
    );
    let setup = setup::warning(&outcome.provenance.setup);
    let all = vec![
        section(Topic::Summary, "Summary", says(pull_request, summary)),
        section(Topic::Issue, "Issue", issue.unwrap_or_default()),
        section(Topic::Changes, "What changed", changes.unwrap_or_default()),
        section(Topic::Evidence, "Evidence", join(&sections::evidence(&outcome.evidence), &setup)),
        section(Topic::Other, "Please look at", to_look_at(outcome)),
        section(Topic::Other, "Held back", held),
        section(Topic::Other, "Assumptions", assumptions),
        section(Topic::Other, "", attempts::folded(&outcome.attempts)),
        section(Topic::Other, "", details(outcome)),
    ];
    all.into_iter().filter(|section| !section.text.trim().is_empty()).collect()
}

/// What is open or was said beside it, and what policy flagged.
fn to_look_at(outcome: &Outcome) -> String {
    let notes = publish_notes::list(&outcome.publish_notes, None);
    notes + &sections::flags(&outcome.judgement.flags)
}

/// Cost and provenance, folded. How setup went is told only when something of it failed: what the checks
/// say then has to be read with it. Everybody may read it, so nothing of the operator's network is in it.
fn details(outcome: &Outcome) -> String {
    let report = &outcome.provenance.setup;
    let is_whole = setup::warning(report).is_empty();
    let setup = if is_whole { String::new() } else { setup::public_table(report) };
    origin::folded(&Origin {
        run: &outcome.run,
        spending: &outcome.spending,
        provenance: &outcome.provenance,
        more: &setup,
    })
}

fn join(first: &str, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (_, true) => first.to_owned(),
        (true, false) => second.to_owned(),
        (false, false) => format!("{first}\n{second}"),
    }
}

/// The model's last message without the line that became the title and the list that has a section
/// of its own.
fn summary_of(pull_request: &PullRequest<'_>) -> String {
    let message = &pull_request.outcome.final_message;
    let issue_title = pull_request.issue.map(|(_, title)| title);
    let usual = title(message, issue_title);
    let rest = match message.trim_start().split_once('\n') {
        Some((first, rest)) if is_title(pull_request, first, &usual) => rest,
        _ => message,
    };
    let rest = sections::without_assumptions(&model_words::without_courtesies(rest));
    match pull_request.issue {
        // The end of the body links it, or a section of the template does.
        Some((number, _)) => model_words::without_link(&rest, number),
        None => rest,
    }
}

/// A line that became the title.
fn is_title(pull_request: &PullRequest<'_>, line: &str, usual: &str) -> bool {
    let title = pull_request.title.to_lowercase();
    // Where the title is another one, such as that of a campaign, the line is the sentence that says what was done.
    let is_usual = title.is_empty() || title.contains(&usual.to_lowercase());
    is_usual && commit_message::subject(&line.replace('`', "")) == usual
        || first_line(line) == pull_request.title
}

/// The model's words, and below them whose they are.
fn says(pull_request: &PullRequest<'_>, most: usize) -> String {
    let passage = markdown::passage(&summary_of(pull_request), most);
    match passage.trim() {
        "" => String::new(),
        words => format!("{words}\n\n{}\n", sections::BY_MODEL),
    }
}

fn warning(outcome: &Outcome) -> Option<String> {
    let mut parts = Vec::new();
    // A change that a check or the policy is against has come to its end all the same, and its reason says all.
    let is_told = outcome.conclusion == Conclusion::Partial && outcome.reason.is_some();
    if outcome.conclusion != Conclusion::Done && !is_told {
        parts.push(format!("This run was not completed: {}.", sections::state(outcome.conclusion)));
    }
    // The words before say the same.
    let reason = outcome.reason.as_ref().filter(|reason| *reason != INTERRUPTED);
    if let Some(reason) = reason {
        let sentence = markdown::line(reason, 2000);
        let is_ended = sentence.ends_with(['.', '!', '?']);
        parts.push(if is_ended { sentence } else { sentence + "." });
    }
    let held = outcome.judgement.held_back.len();
    if held > 0 {
        parts.push(format!("{held} file(s) were held back; see below."));
    }
    let evidence = &outcome.evidence;
    parts.extend(sections::lost_tests(evidence));
    if evidence.any_failed() {
        if is_told && evidence.is_red() {
            return Some(parts.join(" "));
        }
        parts.push("Not all checks pass; see the evidence.".to_owned());
    } else if evidence.verdict() == Verdict::None {
        parts.push(match evidence.standing(&[Standing::Unknown]).len() {
            _ if evidence.has_lost_tests() => "Nothing shows that this works.".to_owned(),
            0 => "No checks ran, so nothing shows that this works.".to_owned(),
            _ => "No check could be run here, so nothing shows that this works.".to_owned(),
        });
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Merging closes the issue; work that a limit or a fault cut short, or that a check is against, only
/// refers to it.
fn reference(outcome: &Outcome, number: u64) -> String {
    match outcome.conclusion {
        // `Refs` links the issue; `Fixes` would close it when the unfinished work is merged.
        Conclusion::Interrupted
        | Conclusion::Budget
        | Conclusion::Provider
        | Conclusion::Sandbox => {
            format!("Refs #{number}")
        }
        // Nor does work that a check says is not what was asked for.
        Conclusion::Partial if outcome.evidence.is_red() => format!("Refs #{number}"),
        Conclusion::Done
        | Conclusion::NothingToDo
        | Conclusion::NeedsInput
        | Conclusion::Partial
        | Conclusion::Refused => format!("Fixes #{number}"),
    }
}

/// The end of the body. `before` is what comes before it: the issue is closed once.
fn footer(pull_request: &PullRequest<'_>, before: &str) -> String {
    let mut out = String::new();
    if let Some((number, _)) = pull_request.issue {
        let line = reference(pull_request.outcome, number);
        // A template may have a section for the issue, which then holds the line already.
        if !before.lines().any(|other| other == line) {
            let _ = writeln!(out, "{line}\n");
        }
    }
    let run = pull_request.outcome.provenance.run_url.as_deref().filter(|url| is_plain_url(url));
    let run = run.map(|url| format!(" · [run]({url})")).unwrap_or_default();
    let _ =
        writeln!(out, "---\n*Generated by Patchwright. Review it like any other change.*{run}\n");
    let _ = writeln!(out, "{}", pull_request.marker);
    out
}

pub(super) fn is_plain_url(url: &str) -> bool {
    // No parenthesis and no blank: the URL stands in a Markdown link.
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#=&%".contains(c);
    (url.starts_with("https://") || url.starts_with("http://")) && url.chars().all(allowed)
}

/// Closes code blocks and `<details>` that a cut left open.
pub(super) fn closed(text: &str) -> String {
    let mut open: Option<String> = None;
    for line in text.lines() {
        let run = line.len() - line.trim_start_matches('`').len();
        match &open {
            Some(fence) if line.trim() == fence => open = None,
            None if run >= 3 => open = Some("`".repeat(run)),
            _ => {}
        }
    }
    let mut out = text.to_owned();
    if let Some(fence) = open {
        let _ = write!(out, "\n{fence}\n");
    }
    let left =
        text.matches("\n<details>").count().saturating_sub(text.matches("\n</details>").count());
    out.push_str(&"\n</details>\n".repeat(left));
    out
}
