//! `read_file`: lines of one file with their numbers, as a slice or as the block around a
//! line; or a picture.
//!
//! Never waits and never takes a huge file into memory: FIFOs and devices are refused, a slice is
//! streamed, long lines are cut. Writes nothing.

mod block;

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;

use super::root::Root;
use super::{
    Effect, GuestTool, Power, ToolError, ToolOutput, encoding, long_line, parse_args, picture,
};
use crate::patch::tree::Entry;

pub const READ_FILE: GuestTool = GuestTool {
    name: "read_file",
    effect: Effect::Reads,
    powers: &[Power::Read, Power::See],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| read_file(call.root, &parse_args("read_file", args)?, call.cancelled),
};

#[derive(Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Path of the file, relative to the workspace root or absolute.
    #[serde(alias = "path", alias = "absolute_path")]
    pub file_path: String,
    /// First line to show, counted from 1; 1 when absent.
    pub offset: Option<NonZeroUsize>,
    /// Most lines; 2000 when absent.
    pub limit: Option<NonZeroUsize>,
    /// First line to show, counted from 1, in place of `offset`.
    #[schemars(extend("x-quiet" = true))]
    pub start_line: Option<NonZeroUsize>,
    /// Last line to show, in place of `limit`.
    #[schemars(extend("x-quiet" = true))]
    pub end_line: Option<NonZeroUsize>,
    /// "numbered" for lines with their numbers (default), or "raw" for the text as it is.
    #[schemars(extend("x-quiet" = true))]
    pub form: Option<Form>,
    /// "slice" for a range of lines (default), or "indentation" for the block around an anchor line.
    pub mode: Option<Mode>,
    /// How to find the block; only for mode "indentation".
    pub indentation: Option<Indentation>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    #[default]
    Slice,
    Indentation,
}

/// How lines are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    #[default]
    Numbered,
    Raw,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(deny_unknown_fields)]
pub struct Indentation {
    /// A line of the block; the offset when absent.
    pub anchor_line: Option<NonZeroUsize>,
    /// How many enclosing blocks to show; 0 or absent for all.
    pub max_levels: Option<usize>,
    /// True to show the blocks beside it, too.
    pub include_siblings: Option<bool>,
    /// False to leave out comments and attributes directly above the block.
    pub include_header: Option<bool>,
    /// Most lines of the block.
    pub max_lines: Option<NonZeroUsize>,
}

/// Lines returned when the call sets no limit.
const DEFAULT_LIMIT: usize = 2000;
/// Most lines returned.
const MAX_LIMIT: usize = 20_000;
/// Bytes looked at to tell text from binary.
const SNIFF: usize = 8 << 10;
/// Largest file for mode "indentation", in bytes.
const MAX_BLOCK_FILE: u64 = 32 << 20;

/// How many lines are asked for from `offset` on, where that is said.
fn lines_asked(args: &Args, offset: usize) -> Result<Option<usize>, String> {
    let Some(end) = args.end_line.map(NonZeroUsize::get).filter(|_| args.limit.is_none()) else {
        return Ok(args.limit.map(NonZeroUsize::get));
    };
    if end < offset {
        return Err(format!("`end_line` ({end}) is before `start_line` ({offset})"));
    }
    Ok(Some(end - offset + 1))
}

/// Reads the file; see [`Args`].
pub fn read_file(
    root: &Root,
    args: &Args,
    cancelled: &AtomicBool,
) -> Result<ToolOutput, ToolError> {
    let path = &args.file_path;
    let failed = |why: String| ToolError::tell(format!("cannot read `{path}`: {why}"));
    let (target, entry) = root.locate(path)?;
    match entry {
        Entry::File { .. } => {}
        Entry::Absent => return Err(failed("there is no such file".to_owned())),
        Entry::Dir => return Err(failed("it is a folder; use `list_dir`".to_owned())),
        Entry::Link(_) | Entry::Outside | Entry::Other => {
            return Err(failed("it is not a regular file".to_owned()));
        }
    }
    let mut file = root.open_file(&target).map_err(|err| failed(err.to_string()))?;
    let start = sniff(&mut file).map_err(|err| failed(err.to_string()))?;
    if let Some(picture) = picture::open(root, &target, &start).map_err(failed)? {
        return Ok(picture);
    }
    if start.contains(&0) {
        let size = file.metadata().map_or(0, |meta| meta.len());
        return Err(failed(encoding::not_shown(&start, size)));
    }
    let offset = args.offset.or(args.start_line).map_or(1, NonZeroUsize::get);
    let asked = lines_asked(args, offset).map_err(failed)?;
    let limit = asked.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let form = args.form.unwrap_or_default();
    let lines = match args.mode.unwrap_or_default() {
        Mode::Slice => {
            // A line that is asked for alone is the one that was cut before.
            let most = if limit == 1 { long_line::ALONE } else { long_line::SHOWN };
            let source = start.as_slice().chain(file);
            let mut lines = Lines { source, cancelled, number: 0, most, form };
            // Who set a limit knows that there may be more.
            let looks_on = asked.is_none_or(|asked| asked > limit);
            let (mut lines, has_more) = slice(&mut lines, offset, limit, looks_on)
                .map_err(|err| failed(err.to_string()))?;
            if has_more {
                say_more(&mut lines, offset, offset.saturating_add(limit), form);
            }
            lines
        }
        Mode::Indentation => {
            let mut content = Vec::new();
            start
                .as_slice()
                .chain(file)
                .take(MAX_BLOCK_FILE + 1)
                .read_to_end(&mut content)
                .map_err(|err| failed(err.to_string()))?;
            if content.len() as u64 > MAX_BLOCK_FILE {
                return Err(failed("it is too large for mode \"indentation\"".to_owned()));
            }
            let text = String::from_utf8_lossy(&content);
            block::around(&text, offset, limit, args.indentation.unwrap_or_default())
                .map_err(failed)?
        }
    };
    Ok(ToolOutput::text(lines.join("\n")))
}

/// Says where to go on.
fn say_more(lines: &mut Vec<String>, first: usize, next: usize, form: Form) {
    match form {
        Form::Numbered => lines.push(format!("(more lines follow; go on with offset {next})")),
        // In front, where it is not taken for a line of the file.
        Form::Raw => {
            let last = next - 1;
            let note = format!("(lines {first} to {last}; go on with start_line {next})");
            lines.insert(0, note);
        }
    }
}

/// The first bytes of the file, for reading again in front of the rest.
fn sniff(file: &mut File) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(SNIFF);
    file.take(SNIFF as u64).read_to_end(&mut start)?;
    Ok(start)
}

/// The lines, and whether there are more behind them, when that is asked.
fn slice<R: Read>(
    lines: &mut Lines<'_, R>,
    offset: usize,
    limit: usize,
    looks_on: bool,
) -> io::Result<(Vec<String>, bool)> {
    let mut out = Vec::new();
    let mut has_more = false;
    let end = offset.saturating_add(limit);
    let (most, form) = (lines.most, lines.form);
    lines.each(|number, line, beyond| {
        if number >= offset && number < end {
            let line = String::from_utf8_lossy(line);
            out.push(match form {
                Form::Numbered => numbered(number, &line, most, beyond),
                Form::Raw => long_line::cut(&line, most, beyond).into_owned(),
            });
        }
        has_more = number >= end;
        if looks_on { !has_more } else { number + 1 < end }
    })?;
    if out.is_empty() && !(offset == 1 && lines.number == 0) {
        let message = format!("the offset {offset} is behind its {} lines", lines.number);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok((out, has_more))
}

/// `L12: text`, cut; `beyond` bytes of the line are not in `line`.
fn numbered(number: usize, line: &str, most: usize, beyond: usize) -> String {
    let line = if beyond == 0 { line.strip_suffix('\r').unwrap_or(line) } else { line };
    format!("L{number}: {}", long_line::cut(line, most, beyond))
}

/// Streams lines; keeps no more of one than is shown.
struct Lines<'c, R> {
    source: R,
    cancelled: &'c AtomicBool,
    /// Lines seen.
    number: usize,
    /// Bytes of a line that are shown.
    most: usize,
    form: Form,
}

impl<R: Read> Lines<'_, R> {
    /// Calls `see` with the number of each line, what was kept of it and how many bytes were not, until it
    /// returns false.
    fn each(&mut self, mut see: impl FnMut(usize, &[u8], usize) -> bool) -> io::Result<()> {
        let mut chunk = vec![0; 64 << 10];
        let mut line = Vec::new();
        let mut beyond = 0;
        let mut is_open = false;
        loop {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(io::Error::other("the call was cancelled"));
            }
            let read = self.source.read(&mut chunk)?;
            if read == 0 {
                break;
            }
            let mut rest = &chunk[..read];
            while let Some(end) = memchr::memchr(b'\n', rest) {
                beyond += keep(&mut line, &rest[..end], self.most);
                self.number += 1;
                if !see(self.number, &line, beyond) {
                    return Ok(());
                }
                line.clear();
                beyond = 0;
                is_open = false;
                rest = &rest[end + 1..];
            }
            beyond += keep(&mut line, rest, self.most);
            is_open |= !rest.is_empty();
        }
        if is_open {
            self.number += 1;
            see(self.number, &line, beyond);
        }
        Ok(())
    }
}

/// Adds to the line up to a little more than what is shown, so that the cut can fall between
/// characters; the number of bytes that were not added.
fn keep(line: &mut Vec<u8>, more: &[u8], most: usize) -> usize {
    let room = (most + 8).saturating_sub(line.len()).min(more.len());
    line.extend_from_slice(&more[..room]);
    more.len() - room
}
