//! `write_file`: one file, whole, new or in place of the old one. Makes the folders on the way. What a model does not
//! see of a text, it does not change either: where all lines of the old file end with CRLF, or a byte order mark is in
//! front, the new one has that too, which the answer says.

use std::borrow::Cow;

use serde::Deserialize;

use super::root::{MAX_FILE, Root};
use super::{Effect, GuestTool, Power, ToolError, ToolOutput, long_line, parse_args, substitute};
use crate::patch::tree::Entry;

/// A byte order mark.
const MARK: &str = "\u{feff}";

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
    let is_new = entry == Entry::Absent;
    let old = if is_new { Vec::new() } else { root.read(&target, MAX_FILE).unwrap_or_default() };
    if long_line::is_marked(&args.content) {
        long_line::refuse(&args.file_path, &[&args.content], &old)?;
    }
    let (content, kept) = in_form_of(&old, &args.content);
    root.write(&args.file_path, content.as_bytes())?;
    let done = if is_new { "Created" } else { "Overwrote" };
    let (bytes, lines) = (content.len(), content.lines().count());
    let plural = if lines == 1 { "" } else { "s" };
    Ok(ToolOutput {
        changed: vec![target.clone()],
        ..ToolOutput::text(format!("{done} {target} ({lines} line{plural}, {bytes} bytes{kept})"))
    })
}

/// A text with the line ends and the byte order mark of the one that it replaces, and what to say about that. One that
/// has a CR means its line ends as they are.
pub(crate) fn in_form_of<'t>(old: &[u8], text: &'t str) -> (Cow<'t, str>, &'static str) {
    let has_mark = old.starts_with(MARK.as_bytes()) && !text.starts_with(MARK);
    let has_crlf = substitute::has_only_crlf(old) && text.contains('\n') && !text.contains('\r');
    let kept = match (has_mark, has_crlf) {
        (false, false) => return (Cow::Borrowed(text), ""),
        (true, false) => ", with the byte order mark that it had",
        (false, true) => ", with CRLF at the ends of lines as before",
        (true, true) => ", with the byte order mark that it had and CRLF at the ends of lines",
    };
    let text = if has_crlf { Cow::Owned(text.replace('\n', "\r\n")) } else { Cow::Borrowed(text) };
    (if has_mark { Cow::Owned(format!("{MARK}{text}")) } else { text }, kept)
}
