//! A piece of a file replaced by another: what the tools `replace` and the text editor share.
//!
//! Files are bytes, so what is not UTF-8 stays as it is. Line ends are those of the file: in a file
//! with CRLF, text written with LF is found and comes out with CRLF. When nothing is found, the
//! lines that come closest are shown, because the next call needs them.

use std::fmt::Write;

use memchr::{memchr, memmem};

use super::root::{MAX_FILE, Root};
use super::{ToolError, ToolOutput, encoding, long_line};
use crate::block::nearest::most_alike;
use crate::patch::tree::Entry;

/// Lines of a file that are compared when nothing is found, and of the piece that is sought.
const MAX_LINES: usize = 20_000;
const MAX_SOUGHT: usize = 30;
/// Bytes of a file that are compared.
const MAX_COMPARED: usize = 4 << 20;
/// Characters of a line that are shown.
const MAX_LINE: usize = 300;
/// Lines around a change that are shown.
const AROUND: usize = 3;
/// Most lines of a change that are shown.
const MAX_SHOWN: usize = 60;

/// How often the old text has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// The tool knows no other number.
    Once,
    Exactly(usize),
    AtLeastOnce,
}

/// Replaces the first text by the second in a file. Nothing is written when the count is another.
pub(super) fn substitute(
    root: &Root,
    path: &str,
    (old, new): (&str, &str),
    count: Count,
) -> Result<ToolOutput, ToolError> {
    let (target, content) = read(root, path)?;
    let failed = |why: String| ToolError::tell(format!("`{path}` was not changed: {why}"));
    if old.is_empty() {
        return Err(failed("the text to replace is empty".to_owned()));
    }
    if old == new {
        return Err(failed("the new text is the same as the old text".to_owned()));
    }
    long_line::refuse(path, &[old, new], &content)?;
    let (mut old, mut new) = with_line_ends(&content, old, new);
    let mut places: Vec<usize> = memmem::find_iter(&content, old.as_bytes()).collect();
    if places.is_empty()
        && let Some(bare) = without_numbers(&old)
    {
        let found: Vec<usize> = memmem::find_iter(&content, bare.as_bytes()).collect();
        // What is there once is what was copied.
        if let [_] = found.as_slice() {
            new = without_numbers(&new).unwrap_or(new);
            (old, places) = (bare, found);
        }
    }
    match (places.len(), count) {
        (0, _) => return Err(failed(not_found(&content, &old))),
        (2.., Count::Once) => return Err(failed(miscounted(&content, &places, (1, ONE)))),
        (found, Count::Exactly(expected)) if found != expected => {
            let advice = advice(found, expected);
            return Err(failed(miscounted(&content, &places, (expected, &advice))));
        }
        _ => {}
    }
    let mut changed = Vec::with_capacity(content.len() + places.len() * new.len());
    let mut rest = 0;
    for place in &places {
        changed.extend_from_slice(content.get(rest..*place).unwrap_or_default());
        changed.extend_from_slice(new.as_bytes());
        rest = place + old.len();
    }
    changed.extend_from_slice(content.get(rest..).unwrap_or_default());
    root.write(&target, &changed)?;
    let times = places.len();
    let mut text = format!("Edited {target} ({times} replacement{})", plural(times));
    if let [only] = places.as_slice() {
        let _ = write!(text, ":\n{}", shown_around(&changed, *only, new.len()));
    }
    Ok(ToolOutput { changed: vec![target], ..ToolOutput::text(text) })
}

/// A regular file as it is, and its path without links.
pub(super) fn read(root: &Root, path: &str) -> Result<(String, Vec<u8>), ToolError> {
    let failed = |why: &str| ToolError::tell(format!("cannot edit `{path}`: {why}"));
    let (target, entry) = root.locate(path)?;
    match entry {
        Entry::File { .. } => {}
        Entry::Absent => return Err(failed("there is no such file")),
        Entry::Dir => return Err(failed("it is a folder")),
        Entry::Link(_) | Entry::Outside | Entry::Other => {
            return Err(failed("it is not a regular file"));
        }
    }
    let content = root.read(&target, MAX_FILE).map_err(|err| failed(&err.to_string()))?;
    Ok((target, content))
}

/// A text without the numbers that our readers put in front of lines (`L26: `, or `26` and a tab), where all lines have them
/// and each is one more than the last.
fn without_numbers(text: &str) -> Option<String> {
    let mut bare = String::with_capacity(text.len());
    let mut last = None;
    for line in text.split_inclusive('\n') {
        let (number, rest) = match line.trim_start_matches(' ').strip_prefix('L') {
            Some(numbered) => numbered.split_once(": ").or_else(|| numbered.split_once(':'))?,
            None => line.split_once('\t')?,
        };
        let number: usize = number.trim_start_matches(' ').parse().ok()?;
        if last.is_some_and(|last| number != last + 1) {
            return None;
        }
        last = Some(number);
        bare.push_str(rest);
    }
    last.is_some().then_some(bare)
}

/// Both texts with the line ends of the file: always when it has only CRLF, and in a mixed file when
/// the old text is not there as it was written.
fn with_line_ends(content: &[u8], old: &str, new: &str) -> (String, String) {
    let crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    let has_crlf = memmem::find(content, b"\r\n").is_some();
    if has_crlf && (has_only_crlf(content) || memmem::find(content, old.as_bytes()).is_none()) {
        return (crlf(old), crlf(new));
    }
    (old.to_owned(), new.to_owned())
}

/// Each line ends with CRLF, and there is one.
pub(super) fn has_only_crlf(content: &[u8]) -> bool {
    let feeds = memchr::memchr_iter(b'\n', content).count();
    feeds > 0 && memmem::find_iter(content, b"\r\n").count() == feeds
}

/// What to do where one place is meant.
const ONE: &str = "Give more of the lines around the one that you mean";

/// What to do by the arguments that the tool has: in some families one of them, in others the other.
fn advice(found: usize, expected: usize) -> String {
    let all = format!("`expected_replacements: {found}` or `allow_multiple: true`");
    if expected == 1 {
        format!("{ONE}; or to replace all of them, set {all}, whichever the tool has")
    } else {
        format!("Give the number that is there: {all}, whichever the tool has")
    }
}

fn miscounted(content: &[u8], places: &[usize], (expected, advice): (usize, &str)) -> String {
    let found = places.len();
    let lines: Vec<String> =
        places.iter().take(20).map(|place| line_of(content, *place).to_string()).collect();
    let more = if found > lines.len() { ", …" } else { "" };
    format!(
        "the old text is there {found} time{}, not {expected} (line{} {}{more}). {advice}",
        plural(found),
        plural(found),
        lines.join(", ")
    )
}

fn line_of(content: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', content.get(..at).unwrap_or_default()).count() + 1
}

/// What is said when the old text is nowhere: the lines that come closest.
fn not_found(content: &[u8], old: &str) -> String {
    let compared = content.get(..content.len().min(MAX_COMPARED)).unwrap_or_default();
    let text = String::from_utf8_lossy(compared);
    let lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
    let sought: Vec<&str> = old.lines().skip_while(|line| line.trim().is_empty()).collect();
    let sought = sought.get(..sought.len().min(MAX_SOUGHT)).unwrap_or_default();
    let Some(start) = most_alike(&lines, sought) else {
        let next = encoding::note(content).unwrap_or("Read the file again");
        return format!("the old text is not in it, nor anything like it. {}", capital(next));
    };
    let same = |(line, sought): (&&str, &&str)| line.trim() == sought.trim();
    let is_spaced = lines.iter().skip(start).zip(sought).all(same);
    let why = if is_spaced {
        "the old text is not in it; these lines differ from it only in white space"
    } else {
        "the old text is not in it; these lines come closest"
    };
    let last = (start + sought.len().max(1)).min(lines.len());
    let shown = lines.get(start..last).unwrap_or_default();
    let is_shown_otherwise = shown.iter().any(|line| line.contains('\u{fffd}'));
    let next = encoding::note(content).filter(|_| is_shown_otherwise);
    let next = next.map_or_else(|| "Copy the text as it is there".to_owned(), capital);
    format!("{why}:\n{}{next}", numbered(shown, start + 1))
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

/// The changed lines with a few around them, with numbers.
pub(super) fn shown_around(content: &[u8], at: usize, length: usize) -> String {
    let first = line_of(content, at);
    let last = line_of(content, at + length);
    let from = first.saturating_sub(AROUND).max(1);
    let count = (last + AROUND + 1 - from).min(MAX_SHOWN);
    let mut rest = content;
    for _ in 1..from {
        let Some(end) = memchr(b'\n', rest) else { break };
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    // Enough for the lines that are shown, however large the file is.
    let rest = rest.get(..rest.len().min(MAX_SHOWN * MAX_LINE * 4)).unwrap_or_default();
    let text = String::from_utf8_lossy(rest);
    let lines: Vec<&str> = text.lines().take(count).collect();
    numbered(&lines, from)
}

/// Lines with their numbers in front, as `cat -n` has them.
pub(super) fn numbered(lines: &[&str], first: usize) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let line = line.trim_end_matches('\r');
        let most = if lines.len() == 1 { long_line::ALONE } else { long_line::SHOWN };
        let _ = writeln!(text, "{:>6}\t{}", first + index, long_line::cut(line, most, 0));
    }
    text
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
