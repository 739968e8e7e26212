//! What a model is told of a change that may not be published as it is, and of files that can be part of no change.

use minijinja::context;

use super::render;
use patchwright_base::error::Result;

/// What is wrong with a change.
#[derive(Clone, Debug, Default)]
pub struct UnpublishableChange {
    /// Why nothing of it may be published, each in one line.
    pub forbidden: Vec<String>,
    /// Files that are left out of it, each in one line with its reason.
    pub left_out: Vec<String>,
    /// Another form of some of it could be published: it is not only too much.
    pub is_about_form: bool,
    /// Some of these files may have been lost when the run was interrupted.
    pub lost: bool,
}

/// The message to a model whose change may not be published as it is.
///
/// # Errors
/// When the template is damaged, which is a defect.
pub fn unpublishable(change: &UnpublishableChange) -> Result<String> {
    let UnpublishableChange { forbidden, left_out, is_about_form, lost } = change;
    render("task/unpublishable.md", context! { forbidden, left_out, is_about_form, lost })
}
