//! `grep_files`: files whose contents match a regular expression, newest first, or the lines.
//!
//! The expression engine is linear in the input, and large trees are searched by several threads.
//! Ignored, binary and special files are left out; time and results are bounded, and what was left
//! out because of a bound is said.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::overrides::{Override, OverrideBuilder};
use serde::Deserialize;

use super::root::Root;
use super::{Effect, GuestTool, Power, ToolError, ToolOutput, long_line, parse_args, walk};
use crate::patch::tree::Entry;

pub const GREP_FILES: GuestTool = GuestTool {
    name: "grep_files",
    effect: Effect::Reads,
    powers: &[Power::Read],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| grep_files(call.root, &parse_args("grep_files", args)?, call.cancelled),
};

#[derive(Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// What to look for, as a regular expression.
    pub pattern: String,
    /// Glob for the files to look into, such as "*.py" or "*.{c,h}"; all when absent.
    pub include: Option<String>,
    /// Folder or file to look into; the root when absent.
    pub path: Option<String>,
    /// Most results; 100 when absent.
    pub limit: Option<NonZeroUsize>,
    /// "files" for the paths of matching files, newest first (default), "lines" for
    /// `path:line:text`, or "count" for `path:count`.
    pub output: Option<Output>,
    /// False when capital letters do not matter.
    #[schemars(extend("x-quiet" = true))]
    pub case_sensitive: Option<bool>,
    /// True for a pattern that is a plain text.
    #[schemars(extend("x-quiet" = true))]
    pub fixed_strings: Option<bool>,
    /// Lines to show before each match.
    #[schemars(extend("x-quiet" = true))]
    pub before: Option<usize>,
    /// Lines to show behind each match.
    #[schemars(extend("x-quiet" = true))]
    pub after: Option<usize>,
    /// First result to show, counted from 1.
    #[schemars(extend("x-quiet" = true))]
    pub offset: Option<NonZeroUsize>,
    /// False for files that git ignores, too.
    #[schemars(extend("x-quiet" = true))]
    pub respect_git_ignore: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    #[default]
    Files,
    Lines,
    Count,
}

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 2_000;
/// Most results that are left out in front.
const MAX_SKIPPED: usize = 10_000;
/// Most lines around a match, on each side.
const MAX_AROUND: usize = 100;
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
/// Files up to this size are searched in one piece, in bytes.
const SMALL: usize = 64 << 10;

/// Searches; see [`Args`].
pub fn grep_files(
    root: &Root,
    args: &Args,
    cancelled: &AtomicBool,
) -> Result<ToolOutput, ToolError> {
    let matcher = matcher(args)?;
    let path = args.path.as_deref().unwrap_or(".");
    let (target, entry) = root.locate(path)?;
    let skipped = args.offset.map_or(0, |first| first.get() - 1).min(MAX_SKIPPED);
    let limit = args.limit.map_or(DEFAULT_LIMIT, NonZeroUsize::get).min(MAX_LIMIT);
    let around = [args.before, args.after].map(|lines| lines.unwrap_or(0).min(MAX_AROUND));
    // So many matches, each with the lines around it.
    let most = limit.saturating_mul(1 + around.iter().sum::<usize>()).min(MAX_LIMIT.max(limit));
    let search = Search {
        matcher,
        around,
        include: include(args.include.as_deref())?,
        clock: Clock { end: Instant::now() + MAX_TIME, cancelled },
        output: args.output.unwrap_or_default(),
        limit: most,
        skipped,
        lines: walk::First::new(most + skipped),
        matching: AtomicUsize::new(0),
        unread: AtomicUsize::new(0),
        is_cut: AtomicBool::new(false),
    };
    match entry {
        Entry::File { .. } => {
            let failed = |err| ToolError::tell(format!("cannot search `{path}`: {err}"));
            let file = root.open_file(&target).map_err(failed)?;
            let mut thread = Thread::new(&search);
            thread.file(&target, file);
            let files = thread.files;
            Ok(search.answer(vec![files], walk::Gaps::default()))
        }
        Entry::Dir => {
            let ignoring = args.respect_git_ignore != Some(false);
            let (threads, gaps) = walk::at_once(root, &target, ignoring, &|| Thread::new(&search));
            let files = threads.into_iter().map(|thread| thread.files).collect();
            Ok(search.answer(files, gaps))
        }
        Entry::Absent => {
            Err(ToolError::tell(format!("cannot search `{path}`: there is no such path")))
        }
        Entry::Link(_) | Entry::Outside | Entry::Other => {
            Err(ToolError::tell(format!("cannot search `{path}`: not a file or folder")))
        }
    }
}

fn matcher(args: &Args) -> Result<RegexMatcher, ToolError> {
    RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .multi_line(true)
        .case_insensitive(args.case_sensitive == Some(false))
        .fixed_strings(args.fixed_strings == Some(true))
        .size_limit(MAX_REGEX)
        .dfa_size_limit(MAX_REGEX)
        .build(&args.pattern)
        .map_err(|err| ToolError::tell(format!("the pattern is not valid: {err}")))
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

/// What all threads share.
struct Search<'c> {
    matcher: RegexMatcher,
    /// Lines that are shown before and behind a match.
    around: [usize; 2],
    include: Override,
    clock: Clock<'c>,
    output: Output,
    limit: usize,
    /// Results that are left out in front.
    skipped: usize,
    lines: walk::First,
    /// Files that match.
    matching: AtomicUsize,
    /// Files that could not be opened, read or taken into memory line by line.
    unread: AtomicUsize,
    is_cut: AtomicBool,
}

/// Files that match, with their times.
type Files = Vec<(SystemTime, String)>;

impl Search<'_> {
    fn answer(self, files: Vec<Files>, gaps: walk::Gaps) -> ToolOutput {
        let (mut lines, mut is_cut) = self.lines.finish();
        is_cut |= self.is_cut.into_inner();
        if self.output == Output::Files {
            let mut files: Files = files.into_iter().flatten().collect();
            files.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            is_cut |= files.len() > self.limit + self.skipped;
            let shown = files.iter().skip(self.skipped).take(self.limit);
            lines = shown.map(|(_, path)| walk::shown(path).into_owned()).collect();
        } else {
            lines.drain(..self.skipped.min(lines.len()));
        }
        if lines.is_empty() {
            lines.push("No matches found.".to_owned());
        }
        if self.clock.is_over() {
            lines.push(
                "(the search ran out of time; narrow it with `path` or `include`)".to_owned(),
            );
        } else if is_cut {
            lines.push(format!("(more than {} results)", self.limit));
        }
        match self.unread.into_inner() {
            0 => {}
            1 => lines.push("(1 file could not be searched)".to_owned()),
            count => lines.push(format!("({count} files could not be searched)")),
        }
        lines.extend(gaps.note());
        ToolOutput::text(lines.join("\n"))
    }
}

/// One thread's part of the search.
struct Thread<'s> {
    search: &'s Search<'s>,
    matcher: RegexMatcher,
    searcher: Searcher,
    buffer: Vec<u8>,
    files: Files,
    /// For matching a path from the root against `include`.
    path: String,
}

impl walk::Visitor for Thread<'_> {
    fn goes_on(&self) -> bool {
        !self.search.clock.is_over()
    }

    fn see(&mut self, file: &walk::WalkedFile<'_>) -> bool {
        if !self.goes_on() {
            return false;
        }
        if !self.search.include.is_empty() {
            self.path.clear();
            self.path.push('/');
            self.path.push_str(file.path);
            if self.search.include.matched(&self.path, false).is_ignore() {
                return true;
            }
        }
        if let Ok(open) = file.open() {
            self.file(file.path, open)
        } else {
            self.search.unread.fetch_add(1, Ordering::Relaxed);
            true
        }
    }

    fn is_behind(&self, path: &str) -> bool {
        self.search.output != Output::Files && self.search.lines.is_behind(path)
    }
}

impl<'s> Thread<'s> {
    fn new(search: &'s Search<'s>) -> Thread<'s> {
        let [before, after] = search.around;
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_SEARCHED_LINE))
            .line_number(search.output == Output::Lines)
            .before_context(if search.output == Output::Lines { before } else { 0 })
            .after_context(if search.output == Output::Lines { after } else { 0 })
            .build();
        // Clones share the compiled expression, but not what it needs while it works.
        let matcher = search.matcher.clone();
        Thread {
            search,
            matcher,
            searcher,
            buffer: vec![0; SMALL],
            files: Vec::new(),
            path: String::new(),
        }
    }

    /// Searches one file; false when the search is to end.
    fn file(&mut self, path: &str, mut file: File) -> bool {
        let mut found = FileMatches {
            path,
            output: self.search.output,
            // One more than can be shown tells that there are more.
            room: self.search.limit + self.search.skipped + 1,
            lines: Vec::new(),
            count: 0,
        };
        let searched = match fill(&mut file, &mut self.buffer) {
            Ok(length) if length < SMALL => {
                let content = self.buffer.get(..length).unwrap_or_default();
                self.searcher.search_slice(&self.matcher, content, &mut found)
            }
            Ok(_) => match file.try_clone() {
                Ok(rest) => {
                    let timed = Timed { file: rest, clock: self.search.clock };
                    let whole = self.buffer.as_slice().chain(timed);
                    self.searcher.search_reader(&self.matcher, whole, &mut found)
                }
                Err(err) => Err(err),
            },
            Err(err) => Err(err),
        };
        if searched.is_err() && !self.search.clock.is_over() {
            self.search.unread.fetch_add(1, Ordering::Relaxed);
        }
        if found.count > 0 {
            if self.search.output == Output::Files {
                let modified = file.metadata().and_then(|meta| meta.modified());
                self.files.push((modified.unwrap_or(SystemTime::UNIX_EPOCH), path.to_owned()));
                if self.search.matching.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_FILES {
                    self.search.is_cut.store(true, Ordering::Relaxed);
                    return false;
                }
            } else {
                self.search.lines.add(path, found.shown());
            }
        }
        true
    }
}

/// Reads until the buffer is full or the file at its end.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(room) = buffer.get_mut(length..)
        && !room.is_empty()
    {
        match file.read(room) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
    Ok(length)
}

/// Collects the matches of one file.
struct FileMatches<'f> {
    path: &'f str,
    output: Output,
    /// Lines that may still be added.
    room: usize,
    lines: Vec<String>,
    /// Lines that match.
    count: usize,
}

impl FileMatches<'_> {
    /// Its part of the answer.
    fn shown(self) -> Vec<String> {
        if self.output == Output::Count {
            return vec![format!("{}:{}", walk::shown(self.path), self.count)];
        }
        self.lines
    }

    /// Adds a line; false when there is no room for another one. A match has `:` in front, as in the
    /// output of `grep`.
    fn add(&mut self, sign: char, number: Option<u64>, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        let text = long_line::cut(text, MAX_LINE, 0);
        let number = number.unwrap_or(0);
        self.lines.push(format!("{}{sign}{number}{sign}{text}", walk::shown(self.path)));
        self.room = self.room.saturating_sub(1);
        self.room > 0
    }
}

impl Sink for FileMatches<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.count += 1;
        match self.output {
            Output::Files => Ok(false),
            Output::Count => Ok(true),
            Output::Lines => Ok(self.add(':', found.line_number(), found.bytes())),
        }
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.add('-', around.line_number(), around.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.lines.push("--".to_owned());
        self.room = self.room.saturating_sub(1);
        Ok(self.room > 0)
    }
}
