//! The task of an instance of an evaluation that a review has set.

use minijinja::{Value, context};

use crate::render;
use patchwright_base::error::Result;

/// What a reviewer said, clean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewRemark {
    /// The file that it is about; empty when it is about the whole.
    pub path: String,
    /// The end of the hunk, as a fenced block.
    pub lines: String,
    pub text: String,
}

/// What a review asks for.
///
/// # Errors
/// When the template is damaged, which is a defect.
pub fn reviewed(title: &str, body: &str, remarks: &[ReviewRemark]) -> Result<String> {
    let remarks: Vec<Value> = remarks
        .iter()
        .map(|ReviewRemark { path, lines, text }| context! { path, lines, text })
        .collect();
    render("task/reviewed.md", context! { title, body, remarks })
}
