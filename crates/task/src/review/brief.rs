//! What a reviewer is told: the pull request in the words of its people, what was said before, the
//! results of the checks, and as much of the difference as fits. The rest is read with `read_diff`.

use std::fmt::Write as _;
use std::ops::Range;

use super::admit::AdmittedReview;
use super::earlier::EarlierReviews;
use super::folded::KnownBefore;
use super::locked::LockedFile;
use super::open::ReviewRange;
use super::submodules;
use crate::context::hidden;
use crate::context::references::LinkedIssues;
use crate::context::thread::{self, Thread, ThreadContext};
use patchwright_base::error::{Failure, Result};
use patchwright_config::review::Review;
use patchwright_forge::{Comment, Issue};
use patchwright_git::stop::Stop;
use patchwright_policy::Globs;
use patchwright_prompt::{self as prompt, ReviewCheck, ReviewTask};
use patchwright_provider::catalogue::Model;
use patchwright_tools::review::{ReviewContext, shown_path};
use patchwright_types::evidence::Evidence;
use patchwright_types::reviewed::{Skipped, SkippedBecause};
use patchwright_types::task::{Limits, Trigger};

/// Most bytes of the difference that are shown at the start.
const MAX_DIFF: u64 = 240 << 10;
/// The share of the model's window, and of the run's tokens, that the difference may take: every turn
/// sends it again.
const WINDOW_SHARE: u64 = 40;
const TOKENS_SHARE: u64 = 12;
/// Bytes of code that make up a token, at the least.
const BYTES_PER_TOKEN: u64 = 3;
/// Bytes of one commit's message, and of all.
const MAX_MESSAGE: usize = 2 << 10;
const MAX_MESSAGES: usize = 16 << 10;
/// Files that are named of those without a difference to show.
const MAX_UNSHOWN: usize = 20;
/// Characters of one file's difference that do not pay off to be cut in two.
const SMALL: usize = 4 << 10;
/// Bytes of the difference of a lock file that is shown like any other, and of the words that tell all others.
const SHORT_LOCK: usize = 8 << 10;
const MAX_LOCKED: usize = 24 << 10;
/// Bytes of one of them, at the least: its name and how many packages are concerned.
const LEAST_LOCKED: usize = 600;

/// What the task is made of.
pub struct Sources<'a> {
    pub admitted: &'a AdmittedReview,
    pub opened: &'a ReviewRange,
    pub rules: &'a Review,
    /// Short id of the commit that was reviewed before.
    pub since: Option<&'a str>,
    pub earlier: &'a EarlierReviews,
    pub(super) known: &'a KnownBefore,
    /// The conversation, oldest first.
    pub comments: &'a [Comment],
    pub trigger: Option<&'a Trigger>,
    /// What the pull request and its conversation refer to: often what is asked for.
    pub linked: &'a LinkedIssues,
    pub evidence: &'a Evidence,
    pub review_context: &'a ReviewContext<'a>,
    /// The lock files under review.
    pub(super) locked: &'a [LockedFile],
    /// Changed files that are not under review.
    pub skipped: &'a [Skipped],
    /// Bytes of the difference.
    pub room: usize,
    /// When reading what others wrote is to end.
    pub stop: &'a Stop,
}

/// The task in words, and what it shows of which file.
#[derive(Debug, Default)]
pub struct ReviewText {
    pub task: String,
    /// What was left out of the conversation.
    pub notes: Vec<String>,
    pub shown: Vec<(usize, Range<usize>)>,
}

/// Bytes of the difference that a model is shown at the start.
pub fn room(model: &Model, limits: &Limits) -> usize {
    let of_window = model.context_window / 100 * WINDOW_SHARE;
    let of_tokens = limits.max_tokens / TOKENS_SHARE;
    let bytes = of_window.min(of_tokens).saturating_mul(BYTES_PER_TOKEN).min(MAX_DIFF);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Puts the task into words.
pub fn tell(sources: &Sources<'_>) -> Result<ReviewText> {
    let Sources { admitted, opened, rules, since, earlier, evidence, review_context, room, .. } =
        *sources;
    let thread = conversation(sources);
    let (diff, mut shown) = difference(review_context, sources.locked, room);
    let in_words: Vec<&LockedFile> =
        sources.locked.iter().filter(|it| !shown.iter().any(|(at, _)| *at == it.file)).collect();
    let locks = locked(&in_words, room);
    let in_diff = shown.len();
    shown.extend(in_words.iter().map(|it| (it.file, 0..0)));
    let unread = review_context.scope.len() - shown.len();
    let checks = checks(evidence);
    let list = review_context.list(0) + &unshown(sources.skipped);
    let threads = earlier.others_for_model(sources.stop);
    let earlier = earlier.for_model(sources.known, sources.stop);
    let (earlier, threads) = (earlier.trim(), threads.trim());
    let (commits, moved) = (commits(&opened.messages), submodules::told(&opened.submodules));
    let mut texts = vec![
        list.as_str(),
        locks.as_str(),
        diff.as_str(),
        thread.text.as_str(),
        earlier,
        threads,
        &commits,
        &moved,
    ];
    texts.extend(checks.iter().filter_map(|check| Some(check.after?.tail.as_str())));
    let tag = prompt::tag_of(&texts);
    let task = prompt::review_task(
        &ReviewTask {
            repository: &admitted.repository.id.to_string(),
            number: admitted.pull.number,
            base: &opened.base.short(),
            head: &opened.head.short(),
            since: since.unwrap_or_default(),
            language: rules.language.as_deref().unwrap_or_default(),
            instructions: &instructions(rules, review_context),
            thread: &thread.text,
            commits: commits.trim_end(),
            submodules: moved.trim_end(),
            threads,
            earlier,
            checks: &checks,
            files: review_context.scope.len(),
            left_out: sources.skipped.len(),
            left_out_because: &left_out(sources.skipped),
            list: list.trim_end(),
            locks: in_words.len(),
            locked: locks.trim_end(),
            shown: in_diff,
            unread,
            diff: diff.trim_end(),
        },
        &tag,
    )?;
    if texts.iter().any(|text| text.contains(&tag)) {
        return Err(Failure::internal("a text holds the digest of itself"));
    }
    Ok(ReviewText { task, notes: thread.notes, shown })
}

/// The repository's checks on both sides.
fn checks(evidence: &Evidence) -> Vec<ReviewCheck<'_>> {
    let rows = evidence.rows.iter().map(|row| ReviewCheck {
        command: &row.command,
        before: row.base.as_ref(),
        after: row.head.as_ref(),
    });
    rows.collect()
}

/// Title, text and comments of the pull request as they stood at the trigger.
fn conversation(sources: &Sources<'_>) -> ThreadContext {
    let pull = &sources.admitted.pull;
    let issue = Issue {
        number: pull.number,
        title: pull.title.clone(),
        body: pull.body.clone(),
        author: pull.author.clone(),
        open: pull.open,
        locked: pull.locked,
        is_pull_request: true,
        labels: pull.labels.clone(),
        comments: pull.comments,
        html_url: pull.html_url.clone(),
        created_at: pull.created_at,
        updated_at: pull.updated_at,
    };
    let Sources { comments, trigger, linked, .. } = *sources;
    let thread = Thread { issue: &issue, comments, trigger, linked };
    thread::thread_within(&thread, &|| sources.stop.is_over(), &mut rand::random)
}

/// Why files are not under review: the reasons that there are, for one file or several.
fn left_out(skipped: &[Skipped]) -> String {
    let is = if skipped.len() == 1 {
        ["it is", "it was", "is"]
    } else {
        ["they are", "they were", "are"]
    };
    let [are, were, unchanged] = is;
    let reasons = [
        (SkippedBecause::Filtered, format!("{are} filtered out")),
        (SkippedBecause::NotText, format!("{are} not text")),
        (SkippedBecause::Submodule, format!("{are} of a submodule")),
        (SkippedBecause::TooLarge, format!("{are} too large to be shown")),
        (
            SkippedBecause::Earlier,
            format!("{were} reviewed before and {unchanged} unchanged since"),
        ),
    ];
    let there = reasons.iter().filter(|(why, _)| skipped.iter().any(|file| file.why == *why));
    let words: Vec<&str> = there.map(|(_, words)| words.as_str()).collect();
    words.join(", or ")
}

/// Files of which no difference is shown and that can be looked at all the same, a line each.
fn unshown(skipped: &[Skipped]) -> String {
    let words = |why: SkippedBecause| match why {
        SkippedBecause::TooLarge => Some("too large to be shown"),
        SkippedBecause::NotText => Some("not text"),
        _ => None,
    };
    let files = skipped.iter().filter_map(|file| Some((shown_path(&file.path), words(file.why)?)));
    let named = files.clone().take(MAX_UNSHOWN);
    let mut out = String::new();
    for (path, why) in named {
        let _ = writeln!(out, "{path}: not under review, {why}");
    }
    let more = files.count().saturating_sub(MAX_UNSHOWN);
    if more > 0 {
        let _ = writeln!(out, "[{more} more are not under review for these reasons]");
    }
    out
}

/// What the commits say that the pull request is made of, a paragraph each; no more than fits.
fn commits(messages: &[String]) -> String {
    let mut out = String::new();
    for (at, message) in messages.iter().enumerate() {
        let clean = hidden::clean(hidden::head(message, MAX_MESSAGE)).text;
        let lines: Vec<&str> = clean.trim().lines().collect();
        let text = format!("- {}\n", lines.join("\n  "));
        if out.len() + text.len() > MAX_MESSAGES {
            let _ = writeln!(out, "[{} more were left out]", messages.len() - at);
            break;
        }
        out.push_str(&text);
    }
    out
}

/// What the maintainers ask for in files that are under review.
fn instructions(rules: &Review, review_context: &ReviewContext<'_>) -> Vec<(String, String)> {
    let files = || review_context.scope.iter().filter_map(|at| review_context.diff.files.get(*at));
    let applies = |globs: &[String]| {
        let globs = Globs::new(globs);
        files().any(|file| globs.matches(&file.path))
    };
    let wanted = rules.instructions.iter().filter(|item| applies(&item.paths));
    let quoted = |paths: &[String]| {
        paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")
    };
    wanted.map(|item| (quoted(&item.paths), item.text.trim().to_owned())).collect()
}

/// Lock files in words: how much of each changes, and of its packages as many as fit.
fn locked(files: &[&LockedFile], room: usize) -> String {
    let share = (MAX_LOCKED.min(room / 4) / files.len().max(1)).max(LEAST_LOCKED);
    let mut out = String::new();
    for (at, locked) in files.iter().enumerate() {
        if out.len() > MAX_LOCKED {
            let _ = writeln!(out, "[{} more lock files are in the list above]", files.len() - at);
            break;
        }
        let (mut told, mut rows) = (0, locked.text.lines());
        for row in rows.by_ref().take_while(|row| {
            told += row.len() + 1;
            told <= share
        }) {
            let _ = writeln!(out, "{row}");
        }
        if told > share {
            let left = rows.count() + 1;
            let _ = writeln!(out, "[{left} more rows are left out here]");
        }
        out.push('\n');
    }
    out
}

/// The files in the order in which they matter, each whole or not at all; the beginning of the first
/// one that is too large, when there is room for it. Lock files that are not short are told in other words.
fn difference(
    review_context: &ReviewContext<'_>,
    locked: &[LockedFile],
    room: usize,
) -> (String, Vec<(usize, Range<usize>)>) {
    let (mut text, mut shown, mut is_cut) = (String::new(), Vec::new(), false);
    for file in review_context.scope.iter().copied() {
        let left = room.saturating_sub(text.len());
        if locked.iter().any(|it| it.file == file) {
            let page = review_context.page(file, 0, SHORT_LOCK.min(left));
            let is_short = page.is_some_and(|page| page.is_last() && page.total > 0);
            if !is_short {
                continue;
            }
        }
        let Some(page) = review_context.page(file, 0, left) else { continue };
        if page.total == 0 {
            shown.push((file, 0..0));
            continue;
        }
        let fits = page.text.len() <= left;
        if !fits || (!page.is_last() && (is_cut || left < SMALL)) {
            continue;
        }
        text.push_str(&page.text);
        if !page.is_last() {
            is_cut = true;
            let end = page.rows.end;
            let total = page.total;
            let _ =
                writeln!(text, "[line {end} of {total}: go on with `read_diff` and `from` {end}]");
        }
        text.push('\n');
        shown.push((file, page.rows));
    }
    (text, shown)
}
