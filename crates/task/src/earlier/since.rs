//! What an issue has by now that the model of a run was not told, where that run was cut off and its work is asked for
//! again: a label that is set once more is about the issue as it is by then.

use super::Heard;
use super::heard::is_own;
use crate::admit::AdmittedIssue;
use crate::context::thread::{self, Thread};
use crate::event::mention;
use patchwright_base::error::Result;
use patchwright_forge::{Comment, Issue};
use patchwright_prompt::{self as prompt, IssueNews};

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
    let mut seed = seed(issue, &said);
    let mut nonce = || {
        seed = seed.wrapping_add(1);
        seed
    };
    let thread = thread::thread(&thread, &mut nonce).text;
    let (number, comments) = (issue.issue.number, said.len());
    prompt::issue_news(&IssueNews { number, edited, comments, thread: &thread }).map(Some)
}

/// For a tag that nobody can write ahead and that stays the same.
fn seed(issue: &AdmittedIssue, said: &[Comment]) -> u64 {
    let mut texts = vec![issue.snapshot.title.as_str(), issue.snapshot.body.as_str()];
    texts.extend(said.iter().map(|comment| comment.body.as_str()));
    u64::from_str_radix(&prompt::tag_of(&texts), 16).unwrap_or_default()
}
