//! What `rg` prints where it is not on a terminal.

use std::io::{self, Write};

use grep_matcher::{Captures, Matcher};
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::args::{Args, Kind};

/// How results look.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[derive(Clone, Debug)]
pub(super) struct Style {
    kind: Kind,
    is_inverted: bool,
    with_name: bool,
    column: bool,
    each_match: bool,
    heading: bool,
    trim: bool,
    only_matching: bool,
    has_context: bool,
    max_columns: Option<usize>,
    replacement: Option<Vec<u8>>,
    path_end: &'static str,
}

impl Style {
    pub(super) fn of(args: &Args, with_name: bool) -> Style {
        Style {
            kind: args.kind,
            is_inverted: args.is_inverted,
            with_name,
            column: args.column,
            each_match: args.each_match,
            heading: args.heading && with_name,
            trim: args.trim,
            only_matching: args.only_matching,
            has_context: args.before + args.after > 0,
            max_columns: args.max_columns,
            replacement: args.replacement.clone().map(String::into_bytes),
            path_end: if args.null { "\0" } else { "\n" },
        }
    }
}

/// Where everything goes.
pub(super) struct Printer<'p> {
    out: &'p mut dyn Write,
    style: Style,
    /// Lines of a file have been printed.
    is_used: bool,
}

impl<'p> Printer<'p> {
    pub(super) fn new(out: &'p mut dyn Write, style: Style) -> Printer<'p> {
        Printer { out, style, is_used: false }
    }

    pub(super) fn path(&mut self, path: &str) -> io::Result<()> {
        write!(self.out, "{path}{}", self.style.path_end)
    }

    /// For the results of one file.
    pub(super) fn file_printer<'s>(
        &'s mut self,
        matcher: &'s RegexMatcher,
        path: &'s str,
    ) -> FilePrinter<'s, 'p> {
        FilePrinter {
            printer: self,
            matcher,
            path,
            lines: 0,
            matches: 0,
            binary: None,
            is_begun: false,
        }
    }
}

/// The results of one file.
pub(super) struct FilePrinter<'s, 'p> {
    printer: &'s mut Printer<'p>,
    matcher: &'s RegexMatcher,
    path: &'s str,
    /// Lines and matches that were found.
    lines: u64,
    matches: u64,
    /// Where a NUL was met.
    binary: Option<u64>,
    is_begun: bool,
}

impl FilePrinter<'_, '_> {
    /// Prints what is known at the end; whether something was found.
    pub(super) fn finish(self) -> io::Result<bool> {
        let FilePrinter { printer, path, lines, matches, .. } = self;
        let count = match printer.style.kind {
            Kind::NotMatching => {
                if lines == 0 {
                    printer.path(path)?;
                }
                return Ok(lines == 0);
            }
            Kind::Matching if lines > 0 => {
                printer.path(path)?;
                return Ok(true);
            }
            Kind::Count => lines,
            Kind::CountMatches => matches,
            _ => return Ok(lines > 0),
        };
        if count > 0 {
            if printer.style.with_name {
                let end = if printer.style.path_end == "\0" { "\0" } else { ":" };
                write!(printer.out, "{path}{end}")?;
            }
            writeln!(printer.out, "{count}")?;
        }
        Ok(count > 0)
    }

    /// What stands in front of the lines of a file.
    fn begin(&mut self) -> io::Result<()> {
        if self.is_begun {
            return Ok(());
        }
        self.is_begun = true;
        let Printer { out, style, is_used } = &mut *self.printer;
        if *is_used && style.heading {
            writeln!(out)?;
        } else if *is_used && style.has_context {
            writeln!(out, "--")?;
        }
        *is_used = true;
        if style.heading {
            writeln!(out, "{}", self.path)?;
        }
        Ok(())
    }

    fn line(
        &mut self,
        sign: char,
        number: Option<u64>,
        column: Option<usize>,
        text: &[u8],
    ) -> io::Result<()> {
        let Printer { out, style, .. } = &mut *self.printer;
        if style.with_name && !style.heading {
            write!(out, "{}{sign}", self.path)?;
        }
        if let Some(number) = number {
            write!(out, "{number}{sign}")?;
        }
        if let Some(column) = column.filter(|_| style.column) {
            write!(out, "{column}{sign}")?;
        }
        let mut text = text.strip_suffix(b"\n").unwrap_or(text);
        if style.trim {
            text = text.trim_ascii_start();
        }
        if style.max_columns.is_some_and(|most| text.len() > most) {
            let what = if sign == ':' { "matching" } else { "context" };
            return writeln!(out, "[Omitted long {what} line]");
        }
        out.write_all(text)?;
        out.write_all(b"\n")
    }

    /// A line with what stands in place of each match.
    fn replaced(&self, text: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let Some(replacement) = &self.printer.style.replacement else { return Ok(None) };
        let mut captures = self.matcher.new_captures().map_err(io::Error::other)?;
        let mut line = Vec::new();
        let replace = |captures: &_, line: &mut Vec<u8>| {
            interpolate(self.matcher, captures, text, replacement, line);
            true
        };
        self.matcher
            .replace_with_captures(text, &mut captures, &mut line, replace)
            .map_err(io::Error::other)?;
        Ok(Some(line))
    }

    /// The places of all matches in some lines.
    fn places(&self, text: &[u8]) -> io::Result<Vec<(usize, usize)>> {
        let mut places = Vec::new();
        self.matcher
            .find_iter(text, |found| {
                places.push((found.start(), found.end()));
                true
            })
            .map_err(io::Error::other)?;
        Ok(places)
    }

    fn only_matches(&mut self, found: &SinkMatch<'_>, places: &[(usize, usize)]) -> io::Result<()> {
        let bytes = found.bytes();
        for (start, end) in places.iter().copied().filter(|(start, end)| start < end) {
            let before = bytes.get(..start).unwrap_or_default();
            let line = memchr::memchr_iter(b'\n', before).count() as u64;
            let column = start - memchr::memrchr(b'\n', before).map_or(0, |at| at + 1) + 1;
            let text = bytes.get(start..end).unwrap_or_default();
            let replaced = self.replaced(text)?;
            let text = replaced.as_deref().unwrap_or(text);
            self.line(':', found.line_number().map(|number| number + line), Some(column), text)?;
        }
        Ok(())
    }
}

fn interpolate(
    matcher: &RegexMatcher,
    captures: &<RegexMatcher as Matcher>::Captures,
    text: &[u8],
    replacement: &[u8],
    line: &mut Vec<u8>,
) {
    captures.interpolate(|name| matcher.capture_index(name), text, replacement, line);
}

impl Sink for FilePrinter<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.lines += 1;
        let style = &self.printer.style;
        match style.kind {
            Kind::Lines => {}
            Kind::CountMatches => {
                let count = if style.is_inverted { 1 } else { self.places(found.bytes())?.len() };
                self.matches += count as u64;
                return Ok(true);
            }
            Kind::Count => return Ok(true),
            _ => return Ok(false),
        }
        // The rest of a file with NULs is not for eyes.
        if self.binary.is_some() {
            return Ok(false);
        }
        let (is_inverted, only_matching) = (style.is_inverted, style.only_matching);
        let column_wanted = style.column || only_matching;
        self.begin()?;
        let places =
            if is_inverted || !column_wanted { vec![] } else { self.places(found.bytes())? };
        if only_matching && !is_inverted {
            self.only_matches(found, &places)?;
            return Ok(true);
        }
        // The last one is printed below, as in every other form.
        let repeated =
            if self.printer.style.each_match { places.len().saturating_sub(1) } else { 0 };
        for (start, _) in places.iter().take(repeated) {
            self.line(':', found.line_number(), Some(start + 1), found.bytes())?;
        }
        let column = places.get(repeated).map(|(start, _)| start + 1);
        let mut number = found.line_number();
        for (index, line) in found.lines().enumerate() {
            let replaced = if is_inverted { None } else { self.replaced(line)? };
            let column = if index == 0 { column } else { None };
            self.line(':', number, column, replaced.as_deref().unwrap_or(line))?;
            number = number.map(|number| number + 1);
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> io::Result<bool> {
        if self.binary.is_some() {
            return Ok(false);
        }
        self.begin()?;
        self.line('-', around.line_number(), None, around.bytes())?;
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.is_begun {
            writeln!(self.printer.out, "--")?;
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, at: u64) -> io::Result<bool> {
        self.binary.get_or_insert(at);
        Ok(true)
    }

    fn finish(&mut self, searcher: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        let Some(at) = finish.binary_byte_offset().or(self.binary) else { return Ok(()) };
        if self.printer.style.kind != Kind::Lines || self.lines == 0 {
            return Ok(());
        }
        let name =
            if self.printer.style.with_name { format!("{}: ", self.path) } else { String::new() };
        if searcher.binary_detection().quit_byte().is_some() {
            return writeln!(
                self.printer.out,
                "{name}WARNING: stopped searching binary file after match (found \"\\0\" byte around offset {at})"
            );
        }
        writeln!(
            self.printer.out,
            "{name}binary file matches (found \"\\0\" byte around offset {at})"
        )
    }
}
