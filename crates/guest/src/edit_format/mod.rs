//! Edits and commands written as text, for models without tool calls. Pure.
//!
//! [`reader`] finds the blocks in a reply: SEARCH/REPLACE blocks, unified diffs and whole files (the
//! formats that aider made common), shell commands and a checklist. [`apply`] carries out one edit on
//! the text of one file. `docs/text-formats.md` is the description for users. Everything takes time
//! in proportion to its input; what does not fit comes back as words for the model ([`Miss`]).

pub mod checklist;
pub mod fence;
pub mod lines;
pub mod path;
pub mod reader;
pub mod search_replace;
pub mod unified_diff;
pub mod whole_file;

use serde::{Deserialize, Serialize};

pub use self::reader::{Block, What, read};

/// Largest file that is edited, in bytes.
pub const MAX_FILE: usize = 8 << 20;

/// One edit of one file, as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "format", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Edit {
    /// The lines of `search` become those of `replace`; an empty `search` adds to the end.
    SearchReplace { search: String, replace: String },
    /// The part of a unified diff that is about one file.
    UnifiedDiff { diff: String },
    /// The file has this content.
    WholeFile { content: String },
}

/// What an edit makes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// `None` when the file is gone.
    pub content: Option<String>,
    /// What is worth knowing about it: how loosely it matched, that it was added to the end.
    pub note: Option<String>,
}

/// Why an edit was not applied, for the model: what was looked for, and what is there instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Miss(pub String);

impl Miss {
    pub fn new(message: impl Into<String>) -> Miss {
        Miss(message.into())
    }
}

/// Applies one edit to the content of a file; `None` when there is no file.
pub fn apply(before: Option<&str>, edit: &Edit) -> Result<Applied, Miss> {
    match edit {
        Edit::SearchReplace { search, replace } => search_replace::apply(before, search, replace),
        Edit::UnifiedDiff { diff } => unified_diff::apply(before, diff),
        Edit::WholeFile { content } => whole_file::apply(before, content),
    }
}
