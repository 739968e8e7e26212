//! Unified diffs as models write them: line numbers are hints at most, hunks are found by their
//! lines.
//!
//! A hunk's old lines are looked for as they are, then without blanks at their ends, then indented by
//! the same blanks more or less (one place only), and at last without up to three context lines at
//! either edge (one place only). Among several places the one nearest to the header's line number
//! wins, or else the first behind the hunk before. `/dev/null` makes and deletes files. Renames and
//! binary patches are refused.

use super::lines::{self, Splice};
use super::{Applied, Miss};
use crate::block::nearest;
use crate::block::places::{STEPS, Shift, Step, places};

/// Context lines that may be wrong at one edge of a hunk.
const FUZZ: usize = 3;

/// The part of a diff that is about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub path: String,
    /// Headers and hunks.
    pub diff: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Create,
    Delete,
    Update,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Context,
    Remove,
    Add,
}

#[derive(Clone, Debug, Default)]
struct Hunk<'a> {
    header: &'a str,
    /// First old line, counted from 1, and their number, as far as the header says so.
    start: Option<(usize, usize)>,
    lines: Vec<(Sign, &'a str)>,
    /// Set by `\ No newline at end of file`: whether the new last line ends.
    final_end: Option<bool>,
}

/// Where a hunk goes: its first line in the file, the lines of it that are used, and their shift.
struct HunkPosition<'h, 'a> {
    at: usize,
    lines: &'h [(Sign, &'a str)],
    shift: Shift,
    note: Option<&'static str>,
}

/// The text looks like a diff: it begins with the headers of one.
pub fn begins(lines: &[&str]) -> bool {
    let mut lines = lines.iter().skip_while(|line| line.trim().is_empty());
    match (lines.next(), lines.next()) {
        (Some(first), _) if first.starts_with("diff --git ") => true,
        (Some(first), Some(second)) => first.starts_with("--- ") && second.starts_with("+++ "),
        _ => false,
    }
}

/// Splits a diff into its files. `path` is the file of a diff without headers.
pub fn sections(lines: &[&str], path: Option<&str>) -> Result<Vec<Section>, Miss> {
    let first = lines.iter().position(|line| !line.trim().is_empty()).unwrap_or(0);
    let starts: Vec<usize> =
        (0..lines.len()).filter(|at| starts_section(lines, *at, first)).collect();
    if starts.is_empty() {
        let has_hunk = lines.iter().any(|line| line.starts_with(['+', '-', '@']));
        return match path {
            Some(path) if has_hunk => {
                Ok(vec![Section { path: path.to_owned(), diff: lines.join("\n") }])
            }
            Some(_) => Err(Miss::new("the diff has no hunk: lines that begin with `-` and `+`")),
            None => Err(Miss::new(
                "the diff names no file: it must begin with `--- a/PATH` and `+++ b/PATH`",
            )),
        };
    }
    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    let mut sections = Vec::with_capacity(starts.len());
    for (start, end) in starts.iter().copied().zip(ends) {
        let part = lines.get(start..end).unwrap_or_default();
        sections.push(Section { path: file_of(part)?, diff: part.join("\n") });
    }
    Ok(sections)
}

/// A file begins here: `diff --git`, or `---` and `+++` that belong to no `diff --git` before them.
fn starts_section(lines: &[&str], at: usize, first: usize) -> bool {
    let line = |at: usize| lines.get(at).copied().unwrap_or_default();
    if line(at).starts_with("diff --git ") {
        return true;
    }
    let is_header = line(at).starts_with("--- ") && line(at + 1).starts_with("+++ ");
    // Removed and added lines can look the same; what follows a header is a hunk or nothing.
    let follows = line(at + 2);
    if !is_header || !(at == first || follows.starts_with("@@") || follows.trim().is_empty()) {
        return false;
    }
    let extended = lines[..at].iter().rev().take(12).find(|line| {
        !["index ", "new file", "deleted file", "old mode", "new mode", "similarity", "rename "]
            .iter()
            .any(|start| line.starts_with(start))
    });
    !extended.is_some_and(|line| line.starts_with("diff --git "))
}

/// The path that the headers of a section name.
fn file_of(section: &[&str]) -> Result<String, Miss> {
    let head = section.iter().take_while(|line| !line.starts_with("@@")).take(16);
    let header = |start: &str| head.clone().find_map(|line| line.strip_prefix(start));
    if ["rename from ", "copy from "].iter().any(|start| header(start).is_some()) {
        return Err(Miss::new(
            "renames and copies are not taken from a diff: run `git mv` or `cp` in a shell block, and \
             edit the file under its new name",
        ));
    }
    if ["GIT binary patch", "Binary files "].iter().any(|start| header(start).is_some()) {
        return Err(Miss::new("a binary patch cannot be applied"));
    }
    let (old, new) = (header("--- ").map(name), header("+++ ").map(name));
    let path = match (old, new) {
        (Some(None), Some(None)) => None,
        (Some(Some(old)), Some(Some(new))) => {
            match (old.strip_prefix("a/"), new.strip_prefix("b/")) {
                (Some(_), Some(new)) => Some(new.to_owned()),
                _ => Some(new),
            }
        }
        (_, Some(Some(new))) => Some(new.strip_prefix("b/").unwrap_or(&new).to_owned()),
        (Some(Some(old)), _) => Some(old.strip_prefix("a/").unwrap_or(&old).to_owned()),
        _ => header("diff --git ").and_then(git_name),
    };
    path.filter(|path| !path.is_empty())
        .ok_or_else(|| Miss::new("the headers of the diff name no file"))
}

/// A name behind `---` or `+++`; `None` for `/dev/null`.
fn name(field: &str) -> Option<String> {
    let field = field.split('\t').next().unwrap_or_default().trim();
    let name = match field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => unquoted(quoted),
        None => field.to_owned(),
    };
    (name != "/dev/null").then_some(name)
}

/// `a/NAME b/NAME`, for sections without `---` and `+++`.
fn git_name(field: &str) -> Option<String> {
    let half = field.len().checked_sub(1)? / 2;
    let (old, new) = (field.get(..half)?, field.get(half + 1..)?);
    (old.strip_prefix("a/")? == new.strip_prefix("b/")?).then(|| new[2..].to_owned())
}

/// Undoes git's quoting of names: backslash escapes and octal bytes.
fn unquoted(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b't') => bytes.push(b'\t'),
            Some(b'n') => bytes.push(b'\n'),
            Some(first @ b'0'..=b'3') => {
                let mut value = first - b'0';
                for _ in 0..2 {
                    if let Some(digit @ b'0'..=b'7') = rest.peek().copied() {
                        value = value * 8 + (digit - b'0');
                        rest.next();
                    }
                }
                bytes.push(value);
            }
            Some(other) => bytes.push(other),
            None => bytes.push(b'\\'),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Applies the part of a diff that is about this file.
pub fn apply(before: Option<&str>, diff: &str) -> Result<Applied, Miss> {
    let (kind, hunks) = parse(diff);
    match (kind, before) {
        (Kind::Delete, Some(_)) => return Ok(Applied { content: None, note: None }),
        (Kind::Delete, None) => return Err(Miss::new("there is no such file to delete")),
        (Kind::Create, Some(text)) if !text.trim().is_empty() => {
            return Err(Miss::new(
                "the diff makes a new file, and there is one already. Write a diff against it",
            ));
        }
        (Kind::Create, _) => return Ok(created(&hunks)),
        (Kind::Update, _) => {}
    }
    if hunks.is_empty() {
        return Err(Miss::new("the diff has no hunk: lines that begin with `-` and `+`"));
    }
    let is_new = hunks.iter().all(|hunk| hunk.lines.iter().all(|(sign, _)| *sign == Sign::Add));
    let Some(before) = before else {
        return if is_new {
            Ok(created(&hunks))
        } else {
            Err(Miss::new("there is no such file. For a new one, write `--- /dev/null`"))
        };
    };
    update(before, &hunks)
}

/// The new side of all hunks.
fn created(hunks: &[Hunk<'_>]) -> Applied {
    let mut text = String::new();
    for hunk in hunks {
        // Empty lines behind the last added one are the end of the block, not of the file.
        let last =
            hunk.lines.iter().rposition(|(sign, line)| *sign == Sign::Add || !line.is_empty());
        for (sign, line) in hunk.lines.iter().take(last.map_or(0, |last| last + 1)) {
            if *sign != Sign::Remove {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    if hunks.last().and_then(|hunk| hunk.final_end) == Some(false) {
        text.pop();
    }
    Applied { content: Some(text), note: None }
}

fn parse(diff: &str) -> (Kind, Vec<Hunk<'_>>) {
    let mut kind = Kind::Update;
    let mut hunks: Vec<Hunk<'_>> = Vec::new();
    let mut is_head = true;
    for line in lines::texts(diff) {
        if line.starts_with("@@") {
            is_head = false;
            hunks.push(Hunk { header: line, start: numbers(line), ..Hunk::default() });
            continue;
        }
        if is_head {
            let is_header = ["diff --git ", "index ", "--- ", "+++ ", "old mode", "new mode"]
                .iter()
                .any(|start| line.starts_with(start));
            if line.starts_with("new file mode") || line.trim_end() == "--- /dev/null" {
                kind = Kind::Create;
                continue;
            } else if line.starts_with("deleted file mode") || line.trim_end() == "+++ /dev/null" {
                kind = Kind::Delete;
                continue;
            } else if is_header || line.trim().is_empty() {
                continue;
            } else if line.starts_with(['+', '-', ' ']) {
                is_head = false;
                hunks.push(Hunk::default());
            } else {
                continue;
            }
        }
        if let Some(hunk) = hunks.last_mut() {
            take(hunk, line);
        }
    }
    hunks.retain(|hunk| !hunk.lines.is_empty());
    (kind, hunks)
}

/// One line behind a header.
fn take<'a>(hunk: &mut Hunk<'a>, line: &'a str) {
    let entry = match line.as_bytes().first() {
        Some(b'+') => (Sign::Add, &line[1..]),
        Some(b'-') => (Sign::Remove, &line[1..]),
        Some(b' ') => (Sign::Context, &line[1..]),
        Some(b'\\') => {
            hunk.final_end = match hunk.lines.last() {
                Some((Sign::Remove, _)) => Some(true),
                _ => Some(false),
            };
            return;
        }
        // Models drop the blank in front of context lines.
        _ => (Sign::Context, line),
    };
    hunk.lines.push(entry);
}

/// The old side of `@@ -START,COUNT +… @@`.
fn numbers(header: &str) -> Option<(usize, usize)> {
    let field = header.strip_prefix("@@")?.trim_start().strip_prefix('-')?;
    let field = field.split([' ', '@']).next()?;
    let (start, count) = field.split_once(',').unwrap_or((field, "1"));
    Some((start.parse().ok()?, count.parse().ok()?))
}

fn update(before: &str, hunks: &[Hunk<'_>]) -> Result<Applied, Miss> {
    let file = lines::split(before);
    let old: Vec<&str> = file.iter().map(|line| line.text).collect();
    let mut splices = Vec::new();
    let mut notes: Vec<&str> = Vec::new();
    let (mut position, mut drift) = (0, 0_isize);
    for (number, hunk) in (1..).zip(hunks) {
        let hint = hunk.start.filter(|(start, _)| *start > 0);
        let hint = hint.map(|(start, _)| start.saturating_sub(1).saturating_add_signed(drift));
        let place = find(&old, hunk, hint, position)
            .ok_or_else(|| missed(&old, hunk, number, hunks.len()))?;
        if let Some((start, _)) = hunk.start.filter(|(start, _)| *start > 0) {
            let (at, start) = (isize::try_from(place.at), isize::try_from(start - 1));
            drift = at.unwrap_or(0).saturating_sub(start.unwrap_or(0));
        }
        position = note(&place, hunk.final_end, &mut splices).max(position);
        notes.extend(place.note.filter(|note| !notes.contains(note)));
    }
    splices.sort_by_key(|splice: &Splice| splice.at);
    let overlap = splices.windows(2).any(|pair| match pair {
        [one, next] => one.at + one.removed > next.at,
        _ => false,
    });
    if overlap {
        return Err(Miss::new(
            "two hunks of the diff change the same lines. Write them as one hunk",
        ));
    }
    let content = Some(lines::spliced(&file, &splices));
    Ok(Applied { content, note: (!notes.is_empty()).then(|| notes.join("; ")) })
}

fn old_side<'a>(lines: &[(Sign, &'a str)]) -> Vec<&'a str> {
    lines.iter().filter(|(sign, _)| *sign != Sign::Add).map(|(_, line)| *line).collect()
}

fn find<'h, 'a>(
    old: &[&str],
    hunk: &'h Hunk<'a>,
    hint: Option<usize>,
    position: usize,
) -> Option<HunkPosition<'h, 'a>> {
    let block = old_side(&hunk.lines);
    if block.is_empty() {
        // Only additions: behind the line that the header names, or at the end.
        let behind = hunk.start.filter(|(start, count)| *count == 0 && *start <= old.len());
        let at = behind.map_or(old.len(), |(start, _)| start);
        return Some(HunkPosition { at, lines: &hunk.lines, shift: Shift::None, note: None });
    }
    for step in STEPS {
        let found = places(old, &block, step);
        if step == Step::Indentation && found.len() > 1 {
            return None;
        }
        if let Some((at, shift)) = best(found, hint, position) {
            let note = matches!(shift, Shift::In(_) | Shift::Out(_))
                .then_some("the indentation was adapted to the file's");
            return Some(HunkPosition { at, lines: &hunk.lines, shift, note });
        }
    }
    with_less_context(old, hunk)
}

fn best(
    found: Vec<(usize, Shift)>,
    hint: Option<usize>,
    position: usize,
) -> Option<(usize, Shift)> {
    let behind = found.iter().any(|(at, _)| *at >= position);
    let candidates = found.into_iter().filter(|(at, _)| !behind || *at >= position);
    candidates.min_by_key(|(at, _)| match hint {
        Some(hint) => at.abs_diff(hint),
        None => at.abs_diff(position),
    })
}

/// The hunk without some context lines at its edges, when that leaves one place only.
fn with_less_context<'h, 'a>(old: &[&str], hunk: &'h Hunk<'a>) -> Option<HunkPosition<'h, 'a>> {
    let is_context = |entry: &&(Sign, &str)| entry.0 == Sign::Context;
    let before = hunk.lines.iter().take_while(is_context).count();
    let behind = hunk.lines.iter().rev().take_while(is_context).count();
    if before == hunk.lines.len() {
        return None;
    }
    let cuts = (1..=2 * FUZZ).flat_map(|cut| (0..=cut).map(move |front| (front, cut - front)));
    for (front, back) in cuts.filter(|(front, back)| {
        *front <= FUZZ && *back <= FUZZ && *front <= before && *back <= behind
    }) {
        let lines = hunk.lines.get(front..hunk.lines.len() - back).unwrap_or_default();
        let block = old_side(lines);
        if block.iter().all(|line| line.trim().is_empty()) {
            continue;
        }
        for step in [Step::Exact, Step::TrailingBlanks] {
            if let [(at, _)] = places(old, &block, step).as_slice() {
                let note = Some("context lines that are not in the file were ignored");
                return Some(HunkPosition { at: *at, lines, shift: Shift::None, note });
            }
        }
    }
    None
}

/// Notes the changed runs of a hunk as splices; returns the line behind the last change.
fn note(place: &HunkPosition<'_, '_>, final_end: Option<bool>, splices: &mut Vec<Splice>) -> usize {
    let (mut at, mut last) = (place.at, place.at);
    for run in place.lines.split(|(sign, _)| *sign == Sign::Context) {
        let added = run.iter().filter(|(sign, _)| *sign == Sign::Add);
        let added: Vec<String> = added.map(|(_, line)| place.shift.apply(line)).collect();
        let removed = run.len() - added.len();
        if !run.is_empty() {
            splices.push(Splice { at, removed, added, final_end });
            last = at + removed;
        }
        at += removed + 1;
    }
    last
}

fn missed(old: &[&str], hunk: &Hunk<'_>, number: usize, of: usize) -> Miss {
    let block = old_side(&hunk.lines);
    let new: Vec<&str> = hunk
        .lines
        .iter()
        .filter(|(sign, _)| *sign != Sign::Remove)
        .map(|(_, line)| *line)
        .collect();
    let header: String = hunk.header.chars().take(80).collect();
    let mut message = format!(
        "hunk {number} of {of} ({}) does not fit: its context and removed lines are not in the file. {}",
        if header.is_empty() { "without a header" } else { &header },
        nearest::describe(old, &block)
    );
    if let Some(remark) = nearest::already_there(old, &new) {
        message.push('\n');
        message.push_str(&remark);
    }
    Miss(message)
}
