//! A text as lines with their ends, and as it is with some of them replaced.

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
