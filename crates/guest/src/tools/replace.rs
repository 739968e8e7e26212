//! `replace`: one piece of a file's text in place of another, found by the text itself.

use std::num::NonZeroUsize;

use serde::Deserialize;

use super::root::Root;
use super::substitute::{Count, substitute};
use super::write_file::{self, write_file};
use super::{Effect, GuestTool, Power, ToolError, ToolOutput, parse_args};
use crate::patch::tree::Entry;

pub const REPLACE: GuestTool = GuestTool {
    name: "replace",
    effect: Effect::Writes,
    powers: &[Power::Edit],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| replace(call.root, &parse_args("replace", args)?),
};

#[derive(Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Path of the file, relative to the workspace root or absolute.
    pub file_path: String,
    /// What the change is for, in one sentence.
    #[serde(rename = "instruction")]
    _instruction: Option<String>,
    /// The text as it is in the file, with its white space and enough of the lines around it to be
    /// unique. Empty to create the file.
    pub old_string: String,
    /// The text to put there; empty to remove the old text.
    pub new_string: String,
    /// How often the old text is in the file; 1 when absent.
    pub expected_replacements: Option<NonZeroUsize>,
    /// True to replace it wherever it is.
    pub allow_multiple: Option<bool>,
}

/// Edits the file; see [`Args`].
pub fn replace(root: &Root, args: &Args) -> Result<ToolOutput, ToolError> {
    let Args { file_path, old_string, new_string, .. } = args;
    if old_string.is_empty() {
        return create(root, file_path, new_string);
    }
    let count = match (args.expected_replacements, args.allow_multiple) {
        (Some(expected), _) => Count::Exactly(expected.get()),
        (None, Some(true)) => Count::AtLeastOnce,
        (None, _) => Count::Exactly(1),
    };
    substitute(root, file_path, (old_string, new_string), count)
}

fn create(root: &Root, path: &str, content: &str) -> Result<ToolOutput, ToolError> {
    let (target, entry) = root.locate(path)?;
    let is_free = match entry {
        Entry::Absent => true,
        Entry::File { .. } => root.read(&target, 0).is_ok(),
        Entry::Dir | Entry::Link(_) | Entry::Outside | Entry::Other => false,
    };
    if !is_free {
        return Err(ToolError::tell(format!(
            "`{path}` was not changed: it is there already, and the text to replace is empty. Give \
             the text that is to be replaced"
        )));
    }
    let args = write_file::Args { file_path: path.to_owned(), content: content.to_owned() };
    write_file(root, &args)
}
