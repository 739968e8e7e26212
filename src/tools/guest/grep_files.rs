//! `grep_files`: files whose contents match a regular expression, newest first, or the lines.
//!
//! The expression engine is linear in the input. Ignored, binary and special files are left out; time
//! and results are bounded, and what was left out because of a bound is said.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::overrides::{Override, OverrideBuilder};
use serde::Deserialize;

use super::root::Root;
use super::{Effect, GuestTool, ToolError, ToolOutput, parse_args, walk};
use crate::patch::tree::Entry;

pub const GREP_FILES: GuestTool = GuestTool {
    name: "grep_files",
    effect: Effect::Reads,
    #[cfg(feature = "host")]
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| grep_files(call.root, &parse_args("grep_files", args)?, call.cancelled),
};

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "host", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// What to look for, as a regular expression.
    pub pattern: String,
    /// Glob for the files to look into, such as "*.py" or "*.{c,h}"; all when absent.
    pub include: Option<String>,
    /// Folder or file to look into, relative to the workspace root or absolute; the root when absent.
    pub path: Option<String>,
    /// Most results; 100 when absent.
    pub limit: Option<NonZeroUsize>,
    /// "files" for the paths of matching files, newest first (default), or "lines" for
    /// `path:line:text`.
    pub output: Option<Output>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "host", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "host", schemars(inline))]
#[serde(rename_all = "snake_case")]
pub enum Output {
    #[default]
    Files,
    Lines,
}

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 2_000;
/// Matching files kept for sorting.
const MAX_FILES: usize = 100_000;
/// Time for one call.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Bytes of one line that are shown.
const MAX_LINE: usize = 500;
/// Bytes of one line that are searched; a file with a longer one is left out.
const MAX_SEARCHED_LINE: usize = 16 << 20;
/// Largest compiled expression, in bytes.
const MAX_REGEX: usize = 8 << 20;

/// Searches; see [`Args`].
pub fn grep_files(
    root: &Root,
    args: &Args,
    cancelled: &AtomicBool,
) -> Result<ToolOutput, ToolError> {
    let matcher = RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .size_limit(MAX_REGEX)
        .dfa_size_limit(MAX_REGEX)
        .build(&args.pattern)
        .map_err(|err| ToolError::tell(format!("the pattern is not valid: {err}")))?;
    let path = args.path.as_deref().unwrap_or(".");
    let (target, entry) = root.locate(path)?;
    let clock = Clock { end: Instant::now() + MAX_TIME, cancelled };
    let limit = args.limit.map_or(DEFAULT_LIMIT, NonZeroUsize::get).min(MAX_LIMIT);
    let output = args.output.unwrap_or_default();
    let mut search = Search::new(root, matcher, clock, output, limit);
    match entry {
        Entry::File { .. } => {
            search.file(&target);
        }
        Entry::Dir => {
            let include = include(args.include.as_deref())?;
            walk::files(root, &target, &mut |path| {
                let path_from_root = format!("/{path}");
                if include.matched(path_from_root, false).is_ignore() {
                    return !search.clock.is_over();
                }
                search.file(path)
            });
        }
        Entry::Absent => {
            return Err(ToolError::tell(format!("cannot search `{path}`: there is no such path")));
        }
        Entry::Link(_) | Entry::Outside | Entry::Other => {
            return Err(ToolError::tell(format!("cannot search `{path}`: not a file or folder")));
        }
    }
    Ok(search.answer())
}

fn include(glob: Option<&str>) -> Result<Override, ToolError> {
    let Some(glob) = glob.filter(|glob| !glob.is_empty()) else { return Ok(Override::empty()) };
    let mut builder = OverrideBuilder::new("/");
    builder
        .add(glob)
        .and_then(|builder| builder.build())
        .map_err(|err| ToolError::tell(format!("`include` is no valid glob: {err}")))
}

/// When to stop.
#[derive(Clone, Copy)]
struct Clock<'c> {
    end: Instant,
    cancelled: &'c AtomicBool,
}

impl Clock<'_> {
    fn is_over(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || Instant::now() >= self.end
    }
}

/// A file that ends with an error when the time is over.
struct Timed<'c> {
    file: File,
    clock: Clock<'c>,
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.clock.is_over() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "out of time"));
        }
        self.file.read(buffer)
    }
}

struct Search<'r> {
    root: &'r Root,
    matcher: RegexMatcher,
    searcher: Searcher,
    clock: Clock<'r>,
    output: Output,
    limit: usize,
    files: Vec<(SystemTime, String)>,
    lines: Vec<String>,
    is_cut: bool,
}

impl<'r> Search<'r> {
    fn new(
        root: &'r Root,
        matcher: RegexMatcher,
        clock: Clock<'r>,
        output: Output,
        limit: usize,
    ) -> Search<'r> {
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_SEARCHED_LINE))
            .line_number(output == Output::Lines)
            .build();
        let (files, lines) = (Vec::new(), Vec::new());
        Search { root, matcher, searcher, clock, output, limit, files, lines, is_cut: false }
    }

    /// Searches one file; false when the search is to end. A file that cannot be read is left out.
    fn file(&mut self, path: &str) -> bool {
        if self.clock.is_over() || self.files.len() >= MAX_FILES {
            self.is_cut = true;
            return false;
        }
        let Ok(file) = self.root.open_file(path) else { return true };
        let modified = file.metadata().and_then(|meta| meta.modified());
        let before = self.lines.len();
        let mut found = Found {
            path,
            output: self.output,
            room: self.limit - before,
            lines: &mut self.lines,
            is_match: false,
            is_cut: false,
        };
        let timed = Timed { file, clock: self.clock };
        let _ = self.searcher.search_reader(&self.matcher, timed, &mut found);
        self.is_cut |= found.is_cut;
        if found.is_match {
            self.files.push((modified.unwrap_or(SystemTime::UNIX_EPOCH), path.to_owned()));
        }
        !self.is_cut
    }

    fn answer(mut self) -> ToolOutput {
        let mut lines = match self.output {
            Output::Files => {
                self.files.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
                self.is_cut |= self.files.len() > self.limit;
                self.files.into_iter().take(self.limit).map(|(_, path)| path).collect()
            }
            Output::Lines => self.lines,
        };
        if lines.is_empty() {
            lines.push("No matches found.".to_owned());
        }
        if self.clock.is_over() {
            lines.push(
                "(the search ran out of time; narrow it with `path` or `include`)".to_owned(),
            );
        } else if self.is_cut {
            lines.push(format!("(more than {} results)", self.limit));
        }
        ToolOutput::text(lines.join("\n"))
    }
}

/// Collects the matches of one file.
struct Found<'f> {
    path: &'f str,
    output: Output,
    /// Lines that may still be added.
    room: usize,
    lines: &'f mut Vec<String>,
    is_match: bool,
    is_cut: bool,
}

impl Sink for Found<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.is_match = true;
        if self.output == Output::Files {
            return Ok(false);
        }
        if self.room == 0 {
            self.is_cut = true;
            return Ok(false);
        }
        self.room -= 1;
        let text = String::from_utf8_lossy(found.bytes());
        let text = text.trim_end_matches(['\n', '\r']);
        let text = &text[..text.floor_char_boundary(MAX_LINE)];
        let number = found.line_number().unwrap_or(0);
        self.lines.push(format!("{}:{number}:{text}", self.path));
        Ok(true)
    }
}
