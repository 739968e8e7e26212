//! `rg` as a program: what commands find under that name where the image has no ripgrep. Options,
//! output and exit codes are ripgrep's, of which models know the common ones by heart.
//!
//! Two things differ: files come in the order of their paths, and ignore files count without a `.git`
//! folder, because the workspace has none.

mod args;
mod print;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use ignore::{DirEntry, WalkBuilder};

use self::args::{Args, Case, Invocation, Kind};
use self::print::{Printer, Style};

/// The name of the program.
pub const NAME: &str = "rg";

const FOUND: u8 = 0;
const NOT_FOUND: u8 = 1;
const FAILED: u8 = 2;

/// Largest compiled expression, in bytes.
const MAX_REGEX: usize = 64 << 20;
/// Bytes of one line that are searched.
const MAX_LINE: usize = 64 << 20;

/// Runs the program; `args` are those behind its name. Returns the exit code.
pub fn run(args: &[OsString], out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let read = |path: &str| {
        let text = if path == "-" {
            io::read_to_string(io::stdin())
        } else {
            fs_err::read_to_string(path)
        };
        text.map_err(|err| err.to_string())
    };
    let asked = match args::parse(args, &read) {
        Ok(asked) => asked,
        Err(why) => return fail(err, &why),
    };
    match asked {
        Invocation::Version => told(
            out,
            concat!("ripgrep 14.1.1 (patchwright-guest ", env!("CARGO_PKG_VERSION"), ")\n"),
        ),
        Invocation::Help => told(
            out,
            "usage: rg [OPTIONS] PATTERN [PATH...]\n       rg [OPTIONS] --files [PATH...]\n",
        ),
        Invocation::Search(args) => match search(&args, out, err) {
            Ok(code) => code,
            // Nobody reads any more, as behind `| head`.
            Err(Trouble::Output(broken)) if broken.kind() == io::ErrorKind::BrokenPipe => FOUND,
            Err(Trouble::Output(broken)) => fail(err, &broken.to_string()),
            Err(Trouble::Wrong(why)) => fail(err, &why),
        },
    }
}

fn told(out: &mut dyn Write, text: &str) -> u8 {
    // A closed stream is no error of the search.
    let _ = out.write_all(text.as_bytes());
    FOUND
}

fn fail(err: &mut dyn Write, why: &str) -> u8 {
    let _ = writeln!(err, "rg: {why}");
    FAILED
}

/// Why a search ends early.
#[derive(Debug)]
enum Trouble {
    /// Standard output cannot be written.
    Output(io::Error),
    /// The command line makes no sense; for standard error.
    Wrong(String),
}

impl From<io::Error> for Trouble {
    fn from(err: io::Error) -> Trouble {
        Trouble::Output(err)
    }
}

fn wrong(err: impl std::fmt::Display) -> Trouble {
    Trouble::Wrong(err.to_string())
}

fn search(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8, Trouble> {
    if args.kind == Kind::Types {
        list_types(args, out)?;
        return Ok(FOUND);
    }
    let reads_stdin = args.paths == ["-"]
        || (args.paths.is_empty() && args.kind != Kind::Files && stdin_has_something());
    let is_one_file =
        reads_stdin || matches!(args.paths.as_slice(), [only] if !Path::new(only).is_dir());
    let matcher = if args.kind == Kind::Files { None } else { Some(matcher(args)?) };
    let style = Style::of(args, args.with_name.unwrap_or(!is_one_file));
    let mut job =
        Job { args, printer: Printer::new(out, style), err, has_failed: false, found: false };
    if let (true, Some(matcher)) = (reads_stdin, &matcher) {
        let mut searcher = searcher(args, true);
        job.one(matcher, &mut searcher, "<stdin>", io::stdin().lock())?;
    } else {
        job.walk(matcher.as_ref())?;
    }
    let is_silent_success = args.kind == Kind::Nothing && job.found;
    Ok(match (job.found, job.has_failed && !is_silent_success) {
        (_, true) => FAILED,
        (true, false) => FOUND,
        (false, false) => NOT_FOUND,
    })
}

/// Something is piped in: standard input is searched then, when no path is given.
fn stdin_has_something() -> bool {
    let kind =
        File::open("/proc/self/fd/0").and_then(|file| file.metadata()).map(|it| it.file_type());
    kind.is_ok_and(|kind| kind.is_file() || kind.is_fifo() || kind.is_socket())
}

fn matcher(args: &Args) -> Result<RegexMatcher, Trouble> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .unicode(true)
        .case_insensitive(args.case == Case::Insensitive)
        .case_smart(args.case == Case::Smart)
        .fixed_strings(args.is_fixed)
        .word(args.is_word)
        .whole_line(args.is_line)
        .size_limit(MAX_REGEX)
        .dfa_size_limit(MAX_REGEX);
    if args.is_multiline {
        builder.dot_matches_new_line(args.dot_matches_line_end);
    } else {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build_many(&args.patterns).map_err(wrong)
}

fn searcher(args: &Args, is_named: bool) -> Searcher {
    let binary = if args.as_text {
        BinaryDetection::none()
    } else if is_named || args.binary {
        BinaryDetection::convert(0)
    } else {
        BinaryDetection::quit(0)
    };
    let is_of_lines = args.kind == Kind::Lines;
    SearcherBuilder::new()
        .binary_detection(binary)
        .heap_limit(Some(MAX_LINE))
        .line_number(args.line_numbers)
        .invert_match(args.is_inverted)
        .multi_line(args.is_multiline)
        .before_context(if is_of_lines { args.before } else { 0 })
        .after_context(if is_of_lines { args.after } else { 0 })
        .max_matches(args.most)
        .build()
}

fn overrides(args: &Args) -> Result<Override, Trouble> {
    let mut builder = OverrideBuilder::new(".");
    for (glob, is_exact) in &args.globs {
        builder.case_insensitive(!is_exact).map_err(wrong)?;
        builder.add(glob).map_err(wrong)?;
    }
    builder.build().map_err(wrong)
}

fn types(args: &Args) -> Result<Types, Trouble> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    for added in &args.types_added {
        builder.add_def(added).map_err(wrong)?;
    }
    for name in &args.types {
        builder.select(name);
    }
    for name in &args.types_not {
        builder.negate(name);
    }
    builder.build().map_err(wrong)
}

fn list_types(args: &Args, out: &mut dyn Write) -> Result<(), Trouble> {
    for definition in types(args)?.definitions() {
        writeln!(out, "{}: {}", definition.name(), definition.globs().join(", "))?;
    }
    Ok(())
}

/// A walk over paths that are there, in the order of paths; `None` without any.
fn walk(args: &Args, paths: &[&String]) -> Result<Option<WalkBuilder>, Trouble> {
    let Some((first, rest)) = paths.split_first() else { return Ok(None) };
    let mut builder = WalkBuilder::new(first);
    for path in rest {
        builder.add(path);
    }
    let respects = !args.no_ignore;
    builder
        .hidden(!args.hidden)
        .parents(respects)
        .ignore(respects)
        .git_ignore(respects && !args.no_ignore_vcs)
        .git_exclude(respects && !args.no_ignore_vcs)
        .git_global(false)
        .require_git(false)
        .follow_links(args.follow)
        .max_depth(args.max_depth)
        .max_filesize(args.max_size)
        .overrides(overrides(args)?)
        .types(types(args)?)
        .sort_by_file_path(Path::cmp);
    if respects {
        builder.add_custom_ignore_filename(".rgignore");
    }
    Ok(Some(builder))
}

/// A search with its outcome so far.
struct Job<'j> {
    args: &'j Args,
    printer: Printer<'j>,
    err: &'j mut dyn Write,
    has_failed: bool,
    found: bool,
}

impl Job<'_> {
    fn complain(&mut self, why: &str) {
        self.has_failed = true;
        if !self.args.no_messages {
            // Standard error may be closed; the exit code still says it.
            let _ = writeln!(self.err, "rg: {why}");
        }
    }

    fn walk(&mut self, matcher: Option<&RegexMatcher>) -> Result<(), Trouble> {
        let args = self.args;
        let is_here = args.paths.is_empty();
        let here = ["./".to_owned()];
        let paths = if is_here { &here } else { args.paths.as_slice() };
        let mut named = Vec::new();
        for path in paths {
            if Path::new(path).exists() {
                named.push(path);
            } else {
                self.complain(&format!("{path}: No such file or directory (os error 2)"));
            }
        }
        let Some(builder) = walk(args, &named)? else { return Ok(()) };
        if !args.sort_by_time && !args.reversed {
            for entry in builder.build() {
                match entry {
                    Ok(entry) => {
                        if !self.entry(&entry, matcher, is_here)? {
                            break;
                        }
                    }
                    Err(err) => self.complain(&err.to_string()),
                }
            }
            return Ok(());
        }
        let mut entries: Vec<DirEntry> = builder.build().filter_map(Result::ok).collect();
        if args.sort_by_time {
            entries.sort_by_key(|entry| {
                entry.metadata().ok().and_then(|metadata| metadata.modified().ok())
            });
        }
        if args.reversed {
            entries.reverse();
        }
        for entry in entries {
            if !self.entry(&entry, matcher, is_here)? {
                break;
            }
        }
        Ok(())
    }

    /// Prints what is asked about one file; false when nothing more is needed.
    fn entry(
        &mut self,
        entry: &DirEntry,
        matcher: Option<&RegexMatcher>,
        is_here: bool,
    ) -> Result<bool, Trouble> {
        let is_named = entry.depth() == 0;
        let is_file =
            entry.file_type().is_some_and(|kind| kind.is_file() || (is_named && !kind.is_dir()));
        if !is_file {
            return Ok(true);
        }
        let path: PathBuf = match entry.path().strip_prefix("./") {
            Ok(bare) if is_here => bare.to_owned(),
            Ok(_) | Err(_) => entry.path().to_owned(),
        };
        let shown = path.to_string_lossy();
        let Some(matcher) = matcher else {
            self.found = true;
            self.printer.path(&shown)?;
            return Ok(true);
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(err) => {
                self.complain(&format!("{shown}: {err}"));
                return Ok(true);
            }
        };
        let mut searcher = searcher(self.args, is_named);
        self.one(matcher, &mut searcher, &shown, file)?;
        Ok(!(self.found && self.args.kind == Kind::Nothing))
    }

    fn one(
        &mut self,
        matcher: &RegexMatcher,
        searcher: &mut Searcher,
        path: &str,
        from: impl Read,
    ) -> Result<(), Trouble> {
        let mut file_printer = self.printer.file_printer(matcher, path);
        let outcome = searcher.search_reader(matcher, from, &mut file_printer);
        let found = file_printer.finish()?;
        self.found |= found;
        match outcome {
            Ok(()) => {}
            Err(err) if err.kind() == io::ErrorKind::BrokenPipe => return Err(err.into()),
            Err(err) => self.complain(&format!("{path}: {err}")),
        }
        Ok(())
    }
}
