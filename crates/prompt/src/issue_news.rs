//! What an issue and a pull request say by now, told to a run that is resumed.

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

/// What the model is told of a pull request that its change goes to: what people have said there, from `context`.
#[derive(Clone, Copy, Debug)]
pub struct PullNews<'a> {
    pub number: u64,
    pub reviews: &'a str,
    pub threads: &'a str,
    pub comments: &'a str,
}

/// The text of the message.
pub fn pull_news(news: &PullNews<'_>) -> Result<String> {
    let PullNews { number, reviews, threads, comments } = *news;
    render("task/pull_news.md", context! { number, reviews, threads, comments })
}
