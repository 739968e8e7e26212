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
use super::{Effect, GuestTool, Power, ToolError, ToolOutput, parse_args, picture};
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
/// Bytes of a line that are returned.
const MAX_LINE: usize = 500;
/// Bytes looked at to tell text from binary.
const SNIFF: usize = 8 << 10;
/// Largest file for mode "indentation", in bytes.
const MAX_BLOCK_FILE: u64 = 32 << 20;

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
        return Err(failed(format!("it is a binary file of {size} bytes")));
    }
    let offset = args.offset.map_or(1, NonZeroUsize::get);
    let limit = args.limit.map_or(DEFAULT_LIMIT, NonZeroUsize::get).min(MAX_LIMIT);
    let lines = match args.mode.unwrap_or_default() {
        Mode::Slice => {
            let mut lines = Lines { source: start.as_slice().chain(file), cancelled, number: 0 };
            // Who set a limit knows that there may be more.
            let looks_on = args.limit.is_none_or(|asked| asked.get() > limit);
            let (mut lines, has_more) = slice(&mut lines, offset, limit, looks_on)
                .map_err(|err| failed(err.to_string()))?;
            if has_more {
                let next = offset.saturating_add(limit);
                lines.push(format!("(more lines follow; go on with offset {next})"));
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
    lines.each(|number, line| {
        if number >= offset && number < end {
            out.push(numbered(number, &String::from_utf8_lossy(line)));
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

/// `L12: text`, cut.
fn numbered(number: usize, line: &str) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    format!("L{number}: {}", &line[..line.floor_char_boundary(MAX_LINE)])
}

/// Streams lines; keeps no more of one than is shown.
struct Lines<'c, R> {
    source: R,
    cancelled: &'c AtomicBool,
    /// Lines seen.
    number: usize,
}

impl<R: Read> Lines<'_, R> {
    /// Calls `see` with each line and its number until it returns false.
    fn each(&mut self, mut see: impl FnMut(usize, &[u8]) -> bool) -> io::Result<()> {
        let mut chunk = vec![0; 64 << 10];
        let mut line = Vec::new();
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
                keep(&mut line, &rest[..end]);
                self.number += 1;
                if !see(self.number, &line) {
                    return Ok(());
                }
                line.clear();
                is_open = false;
                rest = &rest[end + 1..];
            }
            keep(&mut line, rest);
            is_open |= !rest.is_empty();
        }
        if is_open {
            self.number += 1;
            see(self.number, &line);
        }
        Ok(())
    }
}

/// Adds to the line up to a little more than what is shown, so that the cut can fall between
/// characters.
fn keep(line: &mut Vec<u8>, more: &[u8]) {
    let room = (MAX_LINE + 8).saturating_sub(line.len());
    line.extend_from_slice(&more[..more.len().min(room)]);
}
