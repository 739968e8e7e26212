//! A text as lines with their ends, and the search for a block of lines in it.

use std::fmt::Write as _;

/// Most places of one block that are looked at.
const MAX_PLACES: usize = 1000;

/// A line and what ends it: nothing, LF or CRLF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub text: &'a str,
    pub end: &'a str,
}

/// The lines of a text; the empty text has none.
pub fn split(text: &str) -> Vec<Line<'_>> {
    let split = |raw| match str::strip_suffix(raw, "\n") {
        Some(line) => match line.strip_suffix('\r') {
            Some(line) => Line { text: line, end: "\r\n" },
            None => Line { text: line, end: "\n" },
        },
        None => Line { text: raw, end: "" },
    };
    text.split_inclusive('\n').map(split).collect()
}

/// The lines of a text without their ends.
pub fn texts(text: &str) -> Vec<&str> {
    split(text).into_iter().map(|line| line.text).collect()
}

/// How closely lines have to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Exact,
    /// Blanks at the end of lines do not count.
    TrailingBlanks,
    /// All lines may be indented more, or all less, by the same blanks.
    Indentation,
}

/// The steps, strictest first.
pub const STEPS: [Step; 3] = [Step::Exact, Step::TrailingBlanks, Step::Indentation];

/// How much further in the lines of the file are than those of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shift {
    #[default]
    None,
    In(String),
    Out(String),
}

impl Shift {
    /// A line of the block as it has to stand in the file.
    pub fn apply(&self, line: &str) -> String {
        if line.trim().is_empty() {
            return line.to_owned();
        }
        match self {
            Shift::None => line.to_owned(),
            Shift::In(blanks) => format!("{blanks}{line}"),
            Shift::Out(blanks) => {
                let shared = line.bytes().zip(blanks.bytes()).take_while(|(a, b)| a == b).count();
                line.get(shared..).unwrap_or(line).to_owned()
            }
        }
    }
}

/// Where a block stands in a step, in order; at most a thousand places.
pub fn places(lines: &[&str], block: &[&str], step: Step) -> Vec<(usize, Shift)> {
    let plain = |places: Vec<usize>| places.into_iter().map(|at| (at, Shift::None)).collect();
    match step {
        Step::Exact => plain(occurrences(lines, block, |line| line)),
        Step::TrailingBlanks => plain(occurrences(lines, block, str::trim_end)),
        Step::Indentation => {
            if block.iter().all(|line| line.trim().is_empty()) {
                return Vec::new();
            }
            let mut allowance = 4 * lines.len() + (1 << 16);
            let mut found = Vec::new();
            for at in occurrences(lines, block, str::trim) {
                if allowance < block.len() {
                    break;
                }
                allowance -= block.len();
                let there = lines.get(at..at + block.len()).unwrap_or_default();
                found.extend(shift(there, block).map(|shift| (at, shift)));
            }
            found
        }
    }
}

/// The places where the keys of the block stand, by the method of Knuth, Morris and Pratt: time in
/// proportion to the lines, whatever is in them.
fn occurrences<'x>(
    lines: &[&'x str],
    block: &[&'x str],
    key: impl Fn(&'x str) -> &'x str,
) -> Vec<usize> {
    let mut found = Vec::new();
    if block.is_empty() || block.len() > lines.len() {
        return found;
    }
    let block: Vec<&str> = block.iter().map(|line| key(line)).collect();
    let is = |at: usize, line: &str| block.get(at).is_some_and(|want| *want == line);
    // `back[n]`: the longest proper prefix of the first n + 1 lines that is also their end.
    let mut back: Vec<usize> = Vec::with_capacity(block.len());
    back.push(0);
    let fall = |back: &[usize], matched: usize| {
        matched.checked_sub(1).and_then(|last| back.get(last)).copied().unwrap_or(0)
    };
    for line in block.iter().skip(1) {
        let mut matched = back.last().copied().unwrap_or(0);
        while matched > 0 && !is(matched, line) {
            matched = fall(&back, matched);
        }
        back.push(matched + usize::from(is(matched, line)));
    }
    let mut matched = 0;
    for (at, line) in lines.iter().enumerate() {
        let line = key(line);
        while matched > 0 && !is(matched, line) {
            matched = fall(&back, matched);
        }
        matched += usize::from(is(matched, line));
        if matched == block.len() {
            found.push(at + 1 - block.len());
            if found.len() == MAX_PLACES {
                break;
            }
            matched = fall(&back, matched);
        }
    }
    found
}

/// The one shift that explains all lines, which agree but for blanks around them.
fn shift(there: &[&str], block: &[&str]) -> Option<Shift> {
    let mut pairs = there
        .iter()
        .zip(block)
        .map(|(there, line)| (there.trim_end(), line.trim_end()))
        .filter(|(_, line)| !line.is_empty());
    let (first, line) = pairs.clone().next()?;
    if let Some(blanks) = first.strip_suffix(line) {
        let fits = |(there, line): (&str, &str)| there.strip_suffix(line) == Some(blanks);
        return pairs.all(fits).then(|| Shift::In(blanks.to_owned()));
    }
    let blanks = line.strip_suffix(first)?;
    let fits = |(there, line): (&str, &str)| line.strip_suffix(there) == Some(blanks);
    pairs.all(fits).then(|| Shift::Out(blanks.to_owned()))
}

/// Lines to put in the place of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    pub at: usize,
    pub removed: usize,
    pub added: Vec<String>,
    /// Whether the last line of the text ends, when the splice reaches it; `None` for as before.
    pub final_end: Option<bool>,
}

/// The text after splices, which are in order and do not overlap. New lines end as the first line
/// that they replace does, or as the first line of the text.
pub fn spliced(lines: &[Line<'_>], splices: &[Splice]) -> String {
    let usual = lines.iter().map(|line| line.end).find(|end| !end.is_empty()).unwrap_or("\n");
    let had_end = lines.last().is_none_or(|line| !line.end.is_empty());
    let mut out = String::with_capacity(lines.iter().map(|l| l.text.len() + 2).sum());
    let (mut done, mut ends) = (0, had_end);
    let copy = |from: usize, to: usize, out: &mut String| {
        for line in lines.get(from..to).unwrap_or_default() {
            out.push_str(line.text);
            out.push_str(if line.end.is_empty() { usual } else { line.end });
        }
    };
    let mut last_end = lines.last().map_or(usual, |line| line.end);
    for splice in splices {
        copy(done, splice.at, &mut out);
        let old = lines.get(splice.at..splice.at + splice.removed).unwrap_or_default();
        let end = old.iter().map(|line| line.end).find(|end| !end.is_empty()).unwrap_or(usual);
        for line in &splice.added {
            out.push_str(line);
            out.push_str(end);
        }
        done = splice.at + splice.removed;
        if done >= lines.len() {
            ends = splice.final_end.unwrap_or(had_end);
            last_end = if splice.added.is_empty() { last_end } else { end };
        }
    }
    copy(done, lines.len(), &mut out);
    if !ends {
        let end = if out.ends_with("\r\n") && last_end != "\n" { "\r\n" } else { "\n" };
        let length = out.strip_suffix(end).unwrap_or(&out).len();
        out.truncate(length);
    }
    out
}

/// Text of the lines `from..to` with their numbers, counted from 1, for a message.
pub fn numbered(lines: &[&str], from: usize, to: usize) -> String {
    /// Longest part of a line that is shown, in characters.
    const WIDTH: usize = 200;
    let shown = lines.get(from..to.min(lines.len())).unwrap_or_default();
    let mut text = String::new();
    for (number, line) in (from + 1..).zip(shown) {
        let short: String = line.chars().take(WIDTH).collect();
        let dots = if short.len() < line.len() { "…" } else { "" };
        let _ = writeln!(text, "{number:>5}| {short}{dots}");
    }
    text
}
