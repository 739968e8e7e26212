//! What an issue says by now, told to a run that is resumed.

use minijinja::context;

use super::render;
use patchwright_base::error::Result;

/// What the model is told of it.
#[derive(Clone, Copy, Debug)]
pub struct IssueNews<'a> {
    pub number: u64,
    /// Its title or its text is another one.
    pub edited: bool,
    /// How many comments are new, or were edited.
    pub comments: usize,
    /// Title and text, and those comments, from `context::thread`.
    pub thread: &'a str,
}

/// The text of the message.
pub fn issue_news(news: &IssueNews<'_>) -> Result<String> {
    let IssueNews { number, edited, comments, thread } = *news;
    render("task/issue_news.md", context! { number, edited, comments, thread })
}
