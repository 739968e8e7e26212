//! SEARCH/REPLACE blocks: the markers, and putting one block into a file.
//!
//! ```text
//! src/greet.py
//! <<<<<<< SEARCH
//! print("hello")
//! =======
//! print("good morning")
//! >>>>>>> REPLACE
//! ```
//!
//! The format is aider's; five to nine signs make a marker. Where SEARCH stands is decided in steps,
//! and the first step that finds a place is taken: the lines as they are; without blanks at their
//! ends; indented by the same blanks more or less, when only one place fits; all of that once more
//! without empty lines around the block; and with `...` lines for what is left out, when every part
//! between them has exactly one place.

use super::lines::{self, Line, Splice};
use super::{Applied, Miss};
use crate::block::nearest;
use crate::block::places::{STEPS, Shift, Step, places};

/// What a line of a reply is to a SEARCH/REPLACE block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    Search,
    Divider,
    Replace,
}

/// The marker that a line is.
pub fn marker(line: &str) -> Option<Marker> {
    let line = line.trim_end();
    let rest = |sign: char| {
        let rest = line.trim_start_matches(sign);
        (5..=9).contains(&(line.len() - rest.len())).then_some(rest)
    };
    match line.as_bytes().first()? {
        b'<' => matches!(rest('<')?, " SEARCH" | " SEARCH>").then_some(Marker::Search),
        b'=' => rest('=')?.is_empty().then_some(Marker::Divider),
        b'>' => (rest('>')? == " REPLACE").then_some(Marker::Replace),
        _ => None,
    }
}

/// The line was most likely meant as a marker at the beginning or the end of a block.
pub fn is_almost_marker(line: &str) -> bool {
    let line = line.trim();
    // `>>> replace(x)` is Python; a marker of three signs has nothing behind its word.
    let is_like = |sign: char, words: [&str; 2]| {
        let rest = line.trim_start_matches(sign);
        let signs = line.len() - rest.len();
        let rest = rest.trim().to_ascii_lowercase();
        (signs >= 3 && words.contains(&rest.as_str()))
            || (signs >= 5 && words.iter().any(|word| rest.starts_with(word)))
    };
    is_like('<', ["search", "original"]) || is_like('>', ["replace", "updated"])
}

/// Puts a block into a file.
pub fn apply(before: Option<&str>, search: &str, replace: &str) -> Result<Applied, Miss> {
    let (search, replace) = (lines::texts(search), lines::texts(replace));
    let text = before.unwrap_or_default();
    let file = lines::split(text);
    if search.iter().all(|line| line.trim().is_empty()) {
        return Ok(append(before, &file, &search, &replace));
    }
    if before.is_none() {
        return Err(Miss::new(
            "there is no such file. Check the path; for a new file, leave SEARCH empty",
        ));
    }
    let old: Vec<&str> = file.iter().map(|line| line.text).collect();
    if let Some((splice, note)) = place(&old, &search, &replace)? {
        let content = Some(lines::spliced(&file, &[splice]));
        return Ok(Applied { content, note });
    }
    if let Some(splices) = elided(&old, &search, &replace)? {
        let content = Some(lines::spliced(&file, &splices));
        return Ok(Applied { content, note: Some("`...` stood for the lines between".to_owned()) });
    }
    let mut message = format!(
        "the {} of SEARCH {} not in the file. {}",
        count(search.len()),
        if search.len() == 1 { "is" } else { "are" },
        nearest::describe(&old, &search)
    );
    if let Some(remark) = nearest::already_there(&old, &replace) {
        message.push('\n');
        message.push_str(&remark);
    }
    Err(Miss(message))
}

/// An empty SEARCH makes a file, or adds to the end of one.
fn append(before: Option<&str>, file: &[Line<'_>], search: &[&str], replace: &[&str]) -> Applied {
    // A file of nothing but empty lines holds an empty SEARCH as it is.
    let is_blank = file.iter().all(|line| line.text.trim().is_empty());
    let removed = if is_blank { search.len().min(file.len()) } else { 0 };
    let at = if is_blank { 0 } else { file.len() };
    let added: Vec<String> = replace.iter().map(|line| (*line).to_owned()).collect();
    let note = (!is_blank && before.is_some())
        .then(|| format!("SEARCH was empty: {} added to the end", count(added.len())));
    let splice = Splice { at, removed, added, final_end: Some(true) };
    Applied { content: Some(lines::spliced(file, &[splice])), note }
}

/// The place of the whole block, and how loosely it was found.
fn place(
    old: &[&str],
    search: &[&str],
    replace: &[&str],
) -> Result<Option<(Splice, Option<String>)>, Miss> {
    let trimmed = without_blank_edges(search);
    let attempts = [(search, replace), (trimmed, without_blank_edges(replace))];
    let different = if trimmed.len() == search.len() { 1 } else { 2 };
    for (search, replace) in attempts.into_iter().take(different) {
        for step in STEPS {
            let found = places(old, search, step);
            if step == Step::Indentation && found.len() > 1 {
                return Err(ambiguous(&found));
            }
            let Some((at, shift)) = found.into_iter().next() else { continue };
            let added = replace.iter().map(|line| shift.apply(line)).collect();
            let note = match (step, shift) {
                (Step::Indentation, Shift::In(_) | Shift::Out(_)) => {
                    Some("the indentation was adapted to the file's".to_owned())
                }
                _ => None,
            };
            let splice = Splice { at, removed: search.len(), added, final_end: None };
            return Ok(Some((splice, note)));
        }
    }
    Ok(None)
}

fn ambiguous(found: &[(usize, Shift)]) -> Miss {
    let numbers: Vec<String> = found.iter().take(8).map(|(at, _)| (at + 1).to_string()).collect();
    Miss(format!(
        "SEARCH is in the file only with another indentation, and at {} places (lines {}). Copy the \
         lines exactly, with more of them around",
        found.len(),
        numbers.join(", ")
    ))
}

/// The parts between `...` lines. `None` when there are none of these lines.
fn elided(old: &[&str], search: &[&str], replace: &[&str]) -> Result<Option<Vec<Splice>>, Miss> {
    let is_dots = |line: &&str| matches!(line.trim(), "..." | "…");
    if !search.iter().any(is_dots) {
        return Ok(None);
    }
    let parts: Vec<&[&str]> = search.split(|line| is_dots(line)).collect();
    let new: Vec<&[&str]> = replace.split(|line| is_dots(line)).collect();
    if parts.len() != new.len() {
        return Err(Miss(format!(
            "SEARCH has {} `...` lines and REPLACE has {}: they must leave out the same parts. Better \
             write the lines out",
            parts.len() - 1,
            new.len() - 1
        )));
    }
    let mut splices: Vec<Splice> = Vec::new();
    let mut position = 0;
    for (number, (part, new)) in (1..).zip(parts.into_iter().zip(new)) {
        if part.is_empty() && new.is_empty() {
            continue;
        }
        let found = [Step::Exact, Step::TrailingBlanks]
            .into_iter()
            .map(|step| places(old, part, step))
            .find(|found| !found.is_empty())
            .unwrap_or_default();
        let at = match found.as_slice() {
            [(at, _)] if *at >= position => *at,
            [] | [_] => {
                return Err(Miss(format!(
                    "part {number} of SEARCH, between its `...` lines, is not in the file behind the \
                     part before it. {}",
                    nearest::describe(old, part)
                )));
            }
            many => {
                return Err(Miss(format!(
                    "part {number} of SEARCH, between its `...` lines, is in the file {} times. Write \
                     the lines out",
                    many.len()
                )));
            }
        };
        position = at + part.len();
        let added = new.iter().map(|line| (*line).to_owned()).collect();
        splices.push(Splice { at, removed: part.len(), added, final_end: None });
    }
    Ok(Some(splices))
}

fn without_blank_edges<'b, 'a>(block: &'b [&'a str]) -> &'b [&'a str] {
    let is_text = |line: &&str| !line.trim().is_empty();
    let from = block.iter().position(&is_text).unwrap_or(0);
    let to = block.iter().rposition(is_text).map_or(0, |last| last + 1);
    block.get(from..to).unwrap_or_default()
}

fn count(lines: usize) -> String {
    if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") }
}
