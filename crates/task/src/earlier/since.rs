//! What an issue and its pull request have by now that the model of a run was not told, where that run was cut off and its
//! work is asked for again: a label that is set once more is about the issue as it is by then.

use super::heard::{COMMENT, REPLY, REVIEW, ROOT, is_own};
use super::told::Context;
use super::{Becomes, EarlierPull, Heard, Said};
use crate::admit::AdmittedIssue;
use crate::asked::News;
use crate::context::thread::{self, Thread};
use crate::event::mention;
use crate::publish::Origin;
use crate::run::Run;
use patchwright_base::error::Result;
use patchwright_forge::{Comment, Issue};
use patchwright_journal::Entry;
use patchwright_prompt::{self as prompt, IssueNews, PullNews};

/// Words of a comment that only sets work off: whom it names, and the command.
const BARE: usize = 2;

/// The text for the model; `None` when it was told all of it. It is the same as long as people say no more, so that it
/// is known which conversation has it.
///
/// # Errors
/// When the prompt cannot be made.
pub(crate) fn text(heard: &Heard, issue: &AdmittedIssue, named: &str) -> Result<Option<String>> {
    let edited = heard.is_edited(issue);
    let trigger = issue.request.trigger.as_ref();
    let only_asks = |comment: &Comment| {
        comment.body.split_whitespace().count() <= BARE
            && mention::parse(&comment.body, named).is_some()
    };
    let is_news = |comment: &&Comment| {
        let is_seen = is_own(comment) || thread::left_out(comment, trigger).is_some();
        !is_seen && heard.lacks(issue.issue.number, comment) && !only_asks(comment)
    };
    let said: Vec<Comment> = issue.comments.iter().filter(is_news).cloned().collect();
    if !edited && said.is_empty() {
        return Ok(None);
    }
    let about = Issue { comments: said.len(), ..issue.issue.clone() };
    let thread = Thread { issue: &about, comments: &said, trigger, linked: &issue.linked };
    let mut texts = vec![issue.snapshot.title.as_str(), issue.snapshot.body.as_str()];
    texts.extend(said.iter().map(|comment| comment.body.as_str()));
    let thread = thread::thread(&thread, &mut nonce(&texts)).text;
    let (number, comments) = (issue.issue.number, said.len());
    prompt::issue_news(&IssueNews { number, edited, comments, thread: &thread }).map(Some)
}

/// What people have said on the pull requests that the change goes to and the model was not told.
///
/// # Errors
/// When the prompt cannot be made.
pub(crate) fn on_pulls(
    run: &Run<'_>,
    origin: Origin<'_>,
    earlier: &[EarlierPull],
) -> Result<Vec<News>> {
    let Some(heard) = Heard::kept(&run.folder.path, &run.folder.recorded) else {
        return Ok(Vec::new());
    };
    let news = told_of(run, earlier).map(|pull| on_pull(run, origin, &heard, &pull.said));
    news.filter_map(Result::transpose).collect()
}

/// The pull requests whose news the model of a resumed run is told: those that its change goes to. What has come of one of
/// several attempts is not changed any more.
pub(super) fn told_of<'e>(
    run: &Run<'_>,
    earlier: &'e [EarlierPull],
) -> impl Iterator<Item = &'e EarlierPull> {
    let is_attempt = |entry: &Entry| matches!(entry, Entry::AttemptStarted { .. });
    let has_attempts = run.folder.recorded.iter().any(|line| is_attempt(&line.entry));
    earlier.iter().filter(move |pull| pull.becomes == Becomes::Replaced && !has_attempts)
}

fn on_pull(run: &Run<'_>, origin: Origin<'_>, heard: &Heard, said: &Said) -> Result<Option<News>> {
    let trigger = origin.trigger();
    let mut fresh = heard.untold_on_pull(run, said);
    fresh.retain(|remark| thread::left_out(&remark.comment, trigger).is_none());
    if fresh.is_empty() {
        return Ok(None);
    }
    let has = |kind: &str, id: u64| fresh.iter().any(|it| it.key == format!("{kind}-{id}"));
    let mut said = said.clone();
    said.comments.retain(|it| has(COMMENT, it.id));
    said.reviews.retain(|it| has(REVIEW, it.review.id));
    said.threads
        .retain(|thread| thread.comments.iter().any(|it| has(ROOT, it.id) || has(REPLY, it.id)));
    said.issue.comments = said.comments.len();
    let texts: Vec<&str> = fresh.iter().map(|remark| remark.comment.body.as_str()).collect();
    let context = Context::of_comments(run, &said, trigger, &mut nonce(&texts));
    let news = PullNews {
        number: said.issue.number,
        reviews: &context.reviews.text,
        threads: &context.threads.text,
        comments: &context.conversation.text,
    };
    // The tag stands for what was said. Where the lines of a thread are, changes with what is pushed.
    let tag =
        [news.comments, news.threads, news.reviews].iter().find_map(|text| text.lines().next());
    let Some(tag) = tag.map(str::to_owned) else { return Ok(None) };
    Ok(Some(News { text: prompt::pull_news(&news)?, known_by: tag }))
}

/// For tags that nobody can write ahead and that stay the same as long as these texts do.
fn nonce(texts: &[&str]) -> impl FnMut() -> u64 + use<> {
    let mut seed = u64::from_str_radix(&prompt::tag_of(texts), 16).unwrap_or_default();
    move || {
        seed = seed.wrapping_add(1);
        seed
    }
}
