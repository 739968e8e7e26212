//! `text_edit`: changes one file by edits that were written as text. All of them or none.
//!
//! Not declared to any model: a reply of a model without tool calls is turned into calls of it. The
//! engine is [`crate::edit_format`]; here an edit meets the disk.

use std::fmt::Write as _;

use serde::Deserialize;

use super::root::Root;
use super::{Effect, GuestTool, Power, ToolError, ToolOutput, apply_patch, parse_args};
use crate::edit_format::{self, Edit, MAX_FILE};
use crate::patch::apply::OTHER_ENCODING;
use crate::patch::hosted::Operation;
use crate::patch::tree::Entry;

/// Bytes that the edits of one call may look through, all together.
const MAX_WORK: usize = 512 << 20;

pub const TEXT_EDIT: GuestTool = GuestTool {
    name: "text_edit",
    effect: Effect::Writes,
    powers: &[Power::Edit],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| {
        let args: Args = parse_args("text_edit", args)?;
        text_edit(call.root, &args)
    },
};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The file, relative to the workspace.
    path: String,
    /// What to do to it, in order.
    edits: Vec<Edit>,
    /// A whole file may have far fewer lines than the one that it replaces.
    #[serde(default)]
    may_shrink: bool,
}

/// Lines of a file that a fragment must not replace unasked.
const WORTH_ASKING: usize = 10;

/// How the refusal begins of a whole file that would drop most of what is there. Whoever sends it again means it.
pub fn shrinks(path: &str) -> String {
    format!("`{path}` was not changed: it would lose most of its lines")
}

/// Why a whole file is refused that is most likely a part of one: models that were asked for parts forget the markers.
fn fragment(path: &str, before: Option<&str>, edit: &Edit) -> Option<ToolError> {
    let (Some(before), Edit::WholeFile { content }) = (before, edit) else { return None };
    let (old, new) = (before.lines().count(), content.lines().count());
    (old >= WORTH_ASKING && new * 2 < old && new > 0).then(|| {
        ToolError::tell(format!(
            "{}, for the block replaces all {old} of them by {new}. To change a part, send a SEARCH/REPLACE block. If the \
             file shall have nothing but these lines, send the block again as it is",
            shrinks(path)
        ))
    })
}

fn text_edit(root: &Root, args: &Args) -> Result<ToolOutput, ToolError> {
    let Args { path, edits, may_shrink } = args;
    let total = edits.len();
    let before = read(root, path)?;
    let mut content = before.clone();
    let mut notes = Vec::new();
    let mut work = 0_usize;
    for (number, edit) in (1..).zip(edits) {
        let length = content.as_deref().map_or(0, str::len);
        work = work.saturating_add(length);
        if length > MAX_FILE || work > MAX_WORK {
            return Err(ToolError::tell(format!(
                "`{path}` was not changed: it is too large for {total} edits of this kind. Change it \
                 with a command"
            )));
        }
        let applied = edit_format::apply(content.as_deref(), edit).map_err(|miss| {
            let which = if total == 1 {
                String::new()
            } else {
                format!("edit {number} of {total} does not fit, and so none was applied: ")
            };
            ToolError::tell(format!("`{path}` was not changed: {which}{miss}"))
        })?;
        let asks = fragment(path, content.as_deref(), edit).filter(|_| !may_shrink);
        if let Some(refusal) = asks {
            return Err(refusal);
        }
        content = applied.content;
        let prefix = if total == 1 { String::new() } else { format!("edit {number}: ") };
        notes.extend(applied.note.map(|note| format!("{prefix}{note}")));
    }
    let done = write(root, path, before.as_deref(), content.as_deref())?;
    let mut text = format!("`{path}` was {done}");
    if total > 1 {
        let _ = write!(text, " by {total} edits");
    }
    for note in &notes {
        text.push_str("\n- ");
        text.push_str(note);
    }
    let is_same = before == content;
    let changed = if is_same { Vec::new() } else { vec![path.clone()] };
    Ok(ToolOutput { changed, ..ToolOutput::text(text) })
}

/// The content of a file; `None` when there is none.
fn read(root: &Root, path: &str) -> Result<Option<String>, ToolError> {
    let (target, entry) = root.locate(path)?;
    let failed = |why: String| ToolError::tell(format!("cannot edit `{path}`: {why}"));
    match entry {
        Entry::Absent => return Ok(None),
        Entry::File { .. } => {}
        Entry::Dir => return Err(failed("it is a folder".to_owned())),
        Entry::Link(_) | Entry::Outside | Entry::Other => {
            return Err(failed("it is not a regular file".to_owned()));
        }
    }
    let bytes = root.read(&target, MAX_FILE as u64).map_err(|err| failed(err.to_string()))?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| failed(format!("it cannot be read as text. {OTHER_ENCODING}")))?;
    Ok(Some(text))
}

/// Brings the file to its new content; says what was done.
fn write(
    root: &Root,
    path: &str,
    before: Option<&str>,
    content: Option<&str>,
) -> Result<&'static str, ToolError> {
    match (before, content) {
        (None, None) => Ok("left as it is: there is no such file"),
        (Some(_), None) => {
            apply_patch::run_hosted(root, &Operation::DeleteFile { path: path.to_owned() })?;
            Ok("deleted")
        }
        (Some(before), Some(content)) if before == content => {
            Ok("left as it is: the edit changes nothing")
        }
        (before, Some(content)) => {
            root.write(path, content.as_bytes())?;
            Ok(if before.is_some() { "changed" } else { "created" })
        }
    }
}
