//! What a model is told of a change that may not be published as it is, and of files that can be part of no change.

use std::collections::BTreeSet;

use minijinja::context;

use super::render;
use patchwright_base::error::Result;

/// What a file is that cannot be published, as far as the model can do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnpublishableKind {
    /// A symbolic link that leads where none may.
    Link,
    /// A folder with a `.git` of its own.
    Repository,
    Submodule,
    /// Its name, or that of a folder above it.
    Name,
    /// A pipe, a socket, a device.
    Special,
    /// Git LFS would have to keep its contents.
    Lfs,
    /// It was moved to where nothing can be part of a change.
    Moved,
}

impl UnpublishableKind {
    fn word(self) -> &'static str {
        match self {
            UnpublishableKind::Link => "link",
            UnpublishableKind::Repository => "repository",
            UnpublishableKind::Submodule => "submodule",
            UnpublishableKind::Name => "name",
            UnpublishableKind::Special => "special",
            UnpublishableKind::Lfs => "lfs",
            UnpublishableKind::Moved => "moved",
        }
    }
}

/// What is wrong with a change.
#[derive(Clone, Debug, Default)]
pub struct UnpublishableChange {
    /// Why nothing of it may be published, each in one line.
    pub forbidden: Vec<String>,
    /// Files that are left out of it, each in one line with its reason.
    pub left_out: Vec<String>,
    /// What is to be said of them beyond that.
    pub kinds: BTreeSet<UnpublishableKind>,
    /// Some of these files may have been lost when the run was interrupted.
    pub lost: bool,
}

/// The message to a model whose change may not be published as it is.
///
/// # Errors
/// When the template is damaged, which is a defect.
pub fn unpublishable(change: &UnpublishableChange) -> Result<String> {
    let UnpublishableChange { forbidden, left_out, kinds, lost } = change;
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
    render("task/unpublishable.md", context! { forbidden, left_out, kinds, lost })
}
