//! `text_editor`: looks at files and edits them, the text editor that Claude models know
//! (`str_replace_based_edit_tool`): `view`, also of pictures, `create`, `str_replace`, `insert`.

use std::fmt::Write;
use std::num::NonZeroUsize;

use serde::Deserialize;

use super::list_dir::{self, list_dir};
use super::root::Root;
use super::substitute::{self, Count};
use super::write_file::{self, write_file};
use super::{
    Call, Effect, GuestTool, Power, ToolError, ToolOutput, encoding, long_line, parse_args, picture,
};
use crate::patch::tree::Entry;

pub const TEXT_EDITOR: GuestTool = GuestTool {
    name: "text_editor",
    // `view` alone only reads; who runs the call may know.
    effect: Effect::Writes,
    powers: &[Power::Edit, Power::Read, Power::See],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| text_editor(call, parse_args("str_replace_based_edit_tool", args)?),
};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// What to do.
    command: Command,
    /// The file or folder, relative to the workspace root or absolute.
    path: String,
    /// For `view`: the first and the last line to show; -1 as the last one for the end.
    view_range: Option<Vec<i64>>,
    /// For `create`: the whole content.
    file_text: Option<String>,
    /// For `str_replace`: the text as it is in the file, where it is exactly once.
    old_str: Option<String>,
    /// For `str_replace`: the text to put there; nothing when absent.
    new_str: Option<String>,
    /// For `insert`: the line after which to insert; 0 for the beginning.
    insert_line: Option<usize>,
    /// For `insert`: the text.
    insert_text: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
enum Command {
    View,
    Create,
    StrReplace,
    Insert,
}

/// Lines shown when no range is given.
const MAX_LINES: usize = 2_000;
/// Largest file that is shown, in bytes.
const MAX_VIEW: u64 = 32 << 20;
/// How deep folders are listed.
const DEPTH: usize = 2;

fn text_editor(call: &Call<'_>, args: Args) -> Result<ToolOutput, ToolError> {
    let missing = |command: &str, name: &str| {
        ToolError::tell(format!("`{name}` is missing; `{command}` needs it"))
    };
    let Args { command, path, view_range, file_text, .. } = args;
    match command {
        Command::View => view(call, &path, view_range.as_deref()),
        Command::Create => {
            let content = file_text.ok_or_else(|| missing("create", "file_text"))?;
            write_file(call.root, &write_file::Args { file_path: path, content })
        }
        Command::StrReplace => {
            let old = args.old_str.ok_or_else(|| missing("str_replace", "old_str"))?;
            let new = args.new_str.unwrap_or_default();
            substitute::substitute(call.root, &path, (&old, &new), Count::Once)
        }
        Command::Insert => {
            let line = args.insert_line.ok_or_else(|| missing("insert", "insert_line"))?;
            // Earlier versions of the tool had the text there.
            let text = args.insert_text.or(args.new_str);
            insert(call.root, &path, line, &text.ok_or_else(|| missing("insert", "insert_text"))?)
        }
    }
}

fn view(call: &Call<'_>, path: &str, range: Option<&[i64]>) -> Result<ToolOutput, ToolError> {
    let failed = |why: String| ToolError::tell(format!("cannot view `{path}`: {why}"));
    let (target, entry) = call.root.locate(path)?;
    match entry {
        Entry::File { .. } => {}
        Entry::Dir if range.is_some() => {
            return Err(failed("it is a folder, leave out `view_range`".to_owned()));
        }
        Entry::Dir => {
            let depth = NonZeroUsize::new(DEPTH);
            let args = list_dir::Args { dir_path: target, depth, ..list_dir::Args::default() };
            return list_dir(call.root, &args, call.cancelled);
        }
        Entry::Absent => return Err(failed("there is no such file or folder".to_owned())),
        Entry::Link(_) | Entry::Outside | Entry::Other => {
            return Err(failed("it is not a regular file".to_owned()));
        }
    }
    let content = call.root.read(&target, MAX_VIEW).map_err(|err| failed(err.to_string()))?;
    if let Some(picture) = picture::shown(&target, &content).map_err(failed)? {
        return Ok(picture);
    }
    if memchr::memchr(0, &content).is_some() {
        return Err(failed(encoding::not_shown(&content, content.len() as u64)));
    }
    let text = String::from_utf8_lossy(&content);
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() && range.is_none() {
        return Ok(ToolOutput::text("(empty file)"));
    }
    let (first, last) = bounds(range, lines.len()).map_err(failed)?;
    let end = if range.is_none() { last.min(MAX_LINES) } else { last };
    let shown = lines.get(first - 1..end).unwrap_or_default();
    let mut text = substitute::numbered(shown, first);
    if end < last {
        let _ = writeln!(text, "({last} lines in all; use `view_range` for the rest)");
    }
    if let Some(note) = encoding::note(&content).filter(|_| text.contains('\u{fffd}')) {
        let _ = writeln!(text, "({note})");
    }
    Ok(ToolOutput::text(text))
}

/// The first and the last line of a range, counted from 1.
fn bounds(range: Option<&[i64]>, count: usize) -> Result<(usize, usize), String> {
    let Some(range) = range else { return Ok((1, count)) };
    let [first, last] = *range else {
        return Err("`view_range` takes two numbers, the first and the last line".to_owned());
    };
    let Some(first) = usize::try_from(first).ok().filter(|first| (1..=count).contains(first))
    else {
        return Err(format!(
            "`view_range` begins at line {first}; the file has lines 1 to {count}"
        ));
    };
    let last = match last {
        -1 => count,
        last => usize::try_from(last).unwrap_or(0).min(count),
    };
    if last < first {
        return Err("`view_range` ends before it begins".to_owned());
    }
    Ok((first, last))
}

fn insert(root: &Root, path: &str, after: usize, text: &str) -> Result<ToolOutput, ToolError> {
    let (target, content) = substitute::read(root, path)?;
    long_line::refuse(path, &[text], &content)?;
    if encoding::is_utf16(&content) {
        return Err(ToolError::tell(format!(
            "`{path}` was not changed: it is in UTF-16, where text in UTF-8 would be garbage. Change it with a command"
        )));
    }
    let mut at = 0;
    let mut lines = 0;
    while lines < after && at < content.len() {
        let rest = content.get(at..).unwrap_or_default();
        at += memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        lines += 1;
    }
    if lines < after {
        return Err(ToolError::tell(format!(
            "`{path}` was not changed: `insert_line` is {after}, and the file has {lines} lines"
        )));
    }
    let is_crlf = substitute::has_only_crlf(&content);
    let end = if is_crlf { "\r\n" } else { "\n" };
    let mut text = text.to_owned();
    if is_crlf {
        text = text.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    // Lines are what is inserted: only a file without a final line break goes on having none.
    if !text.ends_with('\n')
        && (at < content.len() || content.is_empty() || content.ends_with(b"\n"))
    {
        text.push_str(end);
    }
    let (head, tail) = content.split_at(at);
    let mut changed = head.to_vec();
    if !head.is_empty() && !head.ends_with(b"\n") {
        changed.extend_from_slice(end.as_bytes());
    }
    let start = changed.len();
    changed.extend_from_slice(text.as_bytes());
    changed.extend_from_slice(tail);
    root.write(&target, &changed)?;
    let shown = substitute::shown_around(&changed, start, text.trim_end().len());
    let text = format!("Edited {target}:\n{shown}");
    Ok(ToolOutput { changed: vec![target], ..ToolOutput::text(text) })
}
