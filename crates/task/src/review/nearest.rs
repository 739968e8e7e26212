//! What a reviewer is told about a quote that is not on the diff: where else to look. Pure.

use std::collections::BTreeSet;

use patchwright_base::text;
use patchwright_forge::Side;
use patchwright_git::encoding;
use patchwright_git::hunks::{Diff, Line};
use patchwright_review::anchor::{Anchor, Anchored, Index};
use patchwright_review::finding::Finding;
use patchwright_review::fingerprint;
use patchwright_tools::review::Placed;

/// Lines that are suggested.
const SUGGESTED: usize = 3;
/// Lines of a difference that are looked at.
const MAX_LOOKED_AT: usize = 50_000;
/// Bytes of a file in which code is looked for.
const MAX_FILE: usize = 4 << 20;

/// Reads a file of the head.
pub(super) type ReadFile<'a> = &'a (dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync);

/// Where a finding stands; or what is wrong with its quote. The review asks the same index.
pub(super) fn place(
    index: &Index<'_>,
    diff: &Diff,
    read: ReadFile<'_>,
    finding: &Finding,
) -> Placed {
    let Anchored { anchor, finding, suggestion, sketch, .. } = index.anchor(finding.clone());
    let is_changed = !matches!(anchor, Anchor::Nowhere { .. });
    let file = diff.files.iter().find(|file| file.path == finding.path);
    let has_lines = file.is_some_and(|file| !file.hunks.is_empty());
    let off_diff = match anchor {
        Anchor::File { .. } if has_lines => off_diff(read, &finding, &sketch),
        _ => None,
    };
    let words = match (&anchor, &off_diff) {
        (Anchor::Lines { path, line, start_line, .. }, _) => {
            Ok(format!("{}, {}", text::code(path), lines(start_line.unwrap_or(*line), *line)))
        }
        (Anchor::File { .. } | Anchor::Nowhere { .. }, Some(at)) => Err(format!(
            "the quoted code stands in {at} of this file, which the difference does not show. Quote the changed \
             line that brings the problem in"
        )),
        (Anchor::File { why, .. } | Anchor::Nowhere { why }, None) => {
            let nearest = nearest(diff, &finding);
            Err(if nearest.is_empty() {
                why.clone()
            } else {
                format!("{why}. The nearest lines of its difference are:\n{nearest}")
            })
        }
    };
    let code = code(diff, &anchor);
    Placed { path: finding.path, words, is_changed, has_lines, off_diff, code, suggestion }
}

/// `line 3`, `lines 3 to 5`.
fn lines(first: u32, last: u32) -> String {
    if first < last { format!("lines {first} to {last}") } else { format!("line {last}") }
}

/// The lines of the file that hold code which its difference does not show; of several those that the model believes
/// them to be.
fn off_diff(read: ReadFile<'_>, finding: &Finding, sketch: &str) -> Option<String> {
    let content = read(&finding.path).filter(|content| content.len() <= MAX_FILE)?;
    let content = encoding::decoded(&content);
    let content = String::from_utf8_lossy(&content);
    let all: Vec<&str> = content.lines().take(MAX_LOOKED_AT).collect();
    let wanted = finding.line.unwrap_or_default();
    let number = |at: usize| u32::try_from(at + 1).unwrap_or(u32::MAX);
    let places = fingerprint::places(&all, sketch).into_iter();
    let places = places.map(|(first, last)| (number(first), number(last)));
    let (first, last) = places.min_by_key(|(first, _)| first.abs_diff(wanted))?;
    Some(lines(first, last))
}

/// The lines of an anchor, as the difference has them.
fn code(diff: &Diff, anchor: &Anchor) -> Option<String> {
    let Anchor::Lines { path, side, line, start_line } = anchor else { return None };
    let wanted = start_line.unwrap_or(*line)..=*line;
    let file = diff.files.iter().find(|file| file.path == *path)?;
    let number = |line: &Line| match side {
        Side::Left => line.old,
        Side::Right => line.new,
    };
    let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
    let lines = lines.filter(|line| number(line).is_some_and(|number| wanted.contains(&number)));
    Some(lines.map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n"))
}

/// The lines of the file's difference that have most words in common with the quote.
fn nearest(diff: &Diff, finding: &Finding) -> String {
    let Some(file) = diff.files.iter().find(|file| file.path == finding.path) else {
        return String::new();
    };
    let quoted = words(&finding.quote);
    let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines).take(MAX_LOOKED_AT);
    let mut scored: Vec<(usize, usize, &Line)> = lines
        .enumerate()
        .map(|(at, line)| {
            let own = words(&line.text);
            let common = own.intersection(&quoted).count();
            // Shared words count, words of its own count against it.
            (common * 100 / own.union(&quoted).count().max(1), at, line)
        })
        .filter(|(score, _, _)| *score > 0)
        .collect();
    scored.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
    scored.truncate(SUGGESTED);
    scored.sort_by_key(|(_, at, _)| *at);
    let shown = scored.iter().map(|(_, _, line)| {
        let number = line.new.or(line.old).unwrap_or_default();
        let sign = if line.new.is_none() { '-' } else { ' ' };
        format!("{sign} {number}|{}", text::cut(&text::visible(&line.text), 200))
    });
    shown.collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c: char| !is_part(c)).filter(|word| !word.is_empty()).collect()
}
