//! The question to a reviewer whose last words and findings do not fit together.

use minijinja::context;

use super::render;
use patchwright_base::error::Result;

/// What is wrong with the verdict of a final message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictRequest {
    /// The message has neither of the two verdicts.
    Missing,
    /// It says that the change needs work, and nothing is reported.
    WithoutFinding,
}

/// Asks for a verdict that fits the findings, or for findings that fit the verdict.
///
/// # Errors
/// When the template is damaged, which is a defect.
pub fn verdict(request: VerdictRequest) -> Result<String> {
    let is_missing = request == VerdictRequest::Missing;
    render("task/verdict.md", context! { is_missing })
}
