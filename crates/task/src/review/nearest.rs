//! What a reviewer is told about a quote that is not on the diff: where else to look. Pure.

use std::collections::BTreeSet;

use patchwright_base::text;
use patchwright_forge::Side;
use patchwright_git::hunks::{Diff, Line};
use patchwright_review::anchor::{Anchor, Anchored, Index};
use patchwright_review::finding::Finding;
use patchwright_tools::review::Placed;

/// Lines that are suggested.
const SUGGESTED: usize = 3;
/// Lines of a difference that are looked at.
const MAX_LOOKED_AT: usize = 50_000;

/// Where a finding stands; or what is wrong with its quote. The review asks the same index.
pub(super) fn place(index: &Index<'_>, diff: &Diff, finding: &Finding) -> Placed {
    let Anchored { anchor, finding, .. } = index.anchor(finding.clone());
    let is_changed = !matches!(anchor, Anchor::Nowhere { .. });
    let words = match &anchor {
        Anchor::Lines { path, line, start_line, .. } => Ok(match start_line {
            Some(start) => format!("{}, lines {start} to {line}", text::code(path)),
            None => format!("{}, line {line}", text::code(path)),
        }),
        Anchor::File { why, .. } | Anchor::Nowhere { why } => {
            let nearest = nearest(diff, &finding);
            Err(if nearest.is_empty() {
                why.clone()
            } else {
                format!("{why}. The nearest lines of its difference are:\n{nearest}")
            })
        }
    };
    let code = code(diff, &anchor);
    Placed { path: finding.path, words, is_changed, code }
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
