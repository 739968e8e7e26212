//! `write_file`: one file, whole, new or in place of the old one. Makes the folders on the way.

use serde::Deserialize;

use super::root::{MAX_FILE, Root};
use super::{Effect, GuestTool, Power, ToolError, ToolOutput, long_line, parse_args};
use crate::patch::tree::Entry;

pub const WRITE_FILE: GuestTool = GuestTool {
    name: "write_file",
    effect: Effect::Writes,
    powers: &[Power::Edit],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| write_file(call.root, &parse_args("write_file", args)?),
};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Path of the file, relative to the workspace root or absolute.
    pub file_path: String,
    /// The whole new content.
    pub content: String,
}

/// Writes the file; see [`Args`].
pub fn write_file(root: &Root, args: &Args) -> Result<ToolOutput, ToolError> {
    let (target, entry) = root.locate(&args.file_path)?;
    if long_line::is_marked(&args.content) {
        let content = root.read(&target, MAX_FILE).unwrap_or_default();
        long_line::refuse(&args.file_path, &[&args.content], &content)?;
    }
    root.write(&args.file_path, args.content.as_bytes())?;
    let done = if entry == Entry::Absent { "Created" } else { "Overwrote" };
    let (bytes, lines) = (args.content.len(), args.content.lines().count());
    let plural = if lines == 1 { "" } else { "s" };
    Ok(ToolOutput {
        changed: vec![target.clone()],
        ..ToolOutput::text(format!("{done} {target} ({lines} line{plural}, {bytes} bytes)"))
    })
}
