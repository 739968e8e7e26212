//! The task: review this pull request, and look at the findings once more.

use minijinja::{Value, context};

use super::checks::verdict;
use super::render;
use patchwright_base::error::Result;
use patchwright_review::finding::Finding;
use patchwright_types::evidence::CheckRun;

/// What the model is told about a pull request. What comes from people and from the repository is
/// sanitised.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReviewTask<'a> {
    /// `owner/name`.
    pub repository: &'a str,
    pub number: u64,
    /// Commits, shortened.
    pub base: &'a str,
    pub head: &'a str,
    /// The commit that was reviewed before; empty when all is new.
    pub since: &'a str,
    pub language: &'a str,
    /// Globs and what to look at in the files that they match.
    pub instructions: &'a [(String, String)],
    /// Between tags of its own, as `context::thread` makes it.
    pub thread: &'a str,
    /// What the commits of the pull request say; empty when they are not known.
    pub commits: &'a str,
    /// Submodules that it moves, a line each; empty when there are none.
    pub submodules: &'a str,
    /// Threads that others began on the change, between tags of their own; empty when there are none.
    pub threads: &'a str,
    /// Earlier findings with their answers; empty when there are none.
    pub earlier: &'a str,
    pub checks: &'a [ReviewCheck<'a>],
    /// Number of files under review, and of other changed files.
    pub files: usize,
    pub left_out: usize,
    /// Why these are not under review, in words.
    pub left_out_because: &'a str,
    /// The files under review, a line each.
    pub list: &'a str,
    /// How many of them are lock files that `locked` tells in other words; empty when none are.
    pub locks: usize,
    pub locked: &'a str,
    /// Files whose difference is in `diff`, and those whose is neither there nor in `locked`.
    pub shown: usize,
    pub unread: usize,
    pub diff: &'a str,
}

/// A finding that its reviewer is to look at once more.
#[derive(Clone, Copy, Debug)]
pub struct QuestionedFinding<'a> {
    /// As `report_finding` has numbered it.
    pub number: usize,
    pub finding: &'a Finding,
    /// In words.
    pub place: &'a str,
}

/// What a reviewer is asked before its findings are published. `contradicts` when its final message says `correct` for
/// all that a finding is grave. `tag` is from [`super::tag_of`], made for the texts of the findings.
///
/// # Errors
/// When the template is damaged, which is a defect.
pub fn second_look(
    findings: &[QuestionedFinding<'_>],
    contradicts: bool,
    tag: &str,
) -> Result<String> {
    let suggests = findings.iter().any(|questioned| questioned.finding.replacement.is_some());
    let findings = findings.iter().map(|questioned| {
        let QuestionedFinding { number, finding, place } = *questioned;
        context! {
            number,
            place,
            priority => finding.priority.number(),
            confidence => finding.confidence,
            shown => finding.shown(),
            title => finding.title.as_str(),
            body => finding.body.as_str(),
            quote => finding.quote.as_str(),
            replacement => finding.replacement.as_deref(),
        }
    });
    let findings: Vec<Value> = findings.collect();
    render("task/second_look.md", context! { findings, suggests, contradicts, tag })
}

/// A check on both sides of a change, for a reviewer.
#[derive(Clone, Copy, Debug)]
pub struct ReviewCheck<'a> {
    pub command: &'a str,
    pub before: Option<&'a CheckRun>,
    pub after: Option<&'a CheckRun>,
}

/// The task: review this pull request. `tag` is from [`super::tag_of`] or [`super::fresh_tag`], made for all texts
/// that stand between tags here.
pub fn review_task(task: &ReviewTask<'_>, tag: &str) -> Result<String> {
    let went = |run: Option<&CheckRun>| match run {
        Some(run) if run.is_clean() => "passed".to_owned(),
        Some(run) if run.passed() => "exit code 0, but tests of it failed".to_owned(),
        Some(run) if run.is_flaky() => "failed once and passed once".to_owned(),
        Some(run) if run.exit_code.is_none() && !run.timed_out => verdict(run),
        Some(run) if run.unrunnable => match &run.note {
            Some(note) => format!("could not be run here ({note})"),
            None => "could not be run here".to_owned(),
        },
        Some(run) => format!("failed ({})", verdict(run)),
        None => "not run".to_owned(),
    };
    let checks = task.checks.iter().enumerate().map(|(at, check)| {
        // What cannot be run says nothing about the change.
        let failed = check.after.filter(|run| !run.is_clean() && !run.unrunnable);
        context! {
            number => at + 1,
            command => check.command,
            before => went(check.before),
            after => went(check.after),
            tail => failed.map_or("", |run| run.tail.as_str()),
        }
    });
    let instructions = task
        .instructions
        .iter()
        .map(|(paths, text)| context! { paths => paths.as_str(), text => text.as_str() });
    let ReviewTask { repository, number, base, head, since, language, thread, earlier, .. } = *task;
    let ReviewTask { files, left_out, list, shown, unread, diff, commits, threads, .. } = *task;
    let ReviewTask { locks, locked, .. } = *task;
    let ReviewTask { submodules, left_out_because, .. } = *task;
    let (checks, instructions): (Vec<Value>, Vec<Value>) =
        (checks.collect(), instructions.collect());
    render(
        "task/review.md",
        context! {
            repository, number, base, head, since, language, thread, earlier, checks, instructions,
            files, left_out, left_out_because, list, locks, locked, shown, unread, diff, commits, threads, submodules, tag,
        },
    )
}
