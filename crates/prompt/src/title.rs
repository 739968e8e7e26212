//! What a model is told of the titles that a repository wants.

use minijinja::context;

use super::render;
use patchwright_base::error::Result;

/// When the model is told what a title must be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TitleRequest {
    /// With the task.
    First,
    /// After it has written one that is not so.
    Again,
}

/// What the first line of the final message must be like.
///
/// # Errors
/// When the template is damaged, which is a defect.
pub fn title(patterns: &[String], asked: TitleRequest) -> Result<String> {
    let patterns = patterns.to_vec();
    render("task/title.md", context! { patterns, first => asked == TitleRequest::First })
}
