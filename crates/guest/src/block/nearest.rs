//! Where a block that is not in a file would most likely belong: what the model is shown instead of
//! a bare "not found".

use std::collections::HashMap;
use std::fmt::Write as _;

use super::places::{Step, places};

/// Lines of a file and of a block that are compared; those behind are not looked at.
const MAX_LINES: usize = 50_000;
/// Places of one line of the block that are counted.
const MAX_PLACES: usize = 64;
/// Lines that are shown.
const SHOWN: usize = 12;
/// Bytes of a line that are compared.
const MAX_WIDTH: usize = 400;
/// Characters of a line that are compared, for a few lines that are compared with all others.
const MAX_SHORT: usize = 300;
/// Lines are worth showing when they are at least this alike, in percent.
const ALIKE: usize = 40;

/// The closest place for the block, as words for the model: line numbers, how alike, and the lines.
pub fn describe(lines: &[&str], block: &[&str]) -> String {
    let block = &block[..block.len().min(MAX_LINES)];
    let Some(start) = closest(&lines[..lines.len().min(MAX_LINES)], block) else {
        return match lines.len() {
            0 => "The file is empty.".to_owned(),
            count => format!("Nothing in its {count} lines is like it."),
        };
    };
    let end = (start + block.len()).min(lines.len());
    let there = lines.get(start..end).unwrap_or_default();
    let alike = similarity(there, block);
    let from = start.saturating_sub(1);
    let to = (end + 1).min(from + SHOWN);
    let mut text = format!(
        "The nearest are lines {}-{end} ({alike}% alike):\n{}",
        start + 1,
        numbered(lines, from, to)
    );
    let differs = |(there, line): &(&&str, &&str)| there.trim_end() != line.trim_end();
    if let Some((offset, (there, line))) =
        there.iter().zip(block).enumerate().find(|(_, pair)| differs(pair))
    {
        let (there, line) = (short(there), short(line));
        let number = start + offset + 1;
        let _ = write!(
            text,
            "The first difference: line {number} is `{there}`, and you wrote `{line}`."
        );
    }
    text
}

/// What is wrong with the text behind an `@@`: it must be a whole line. Models write the name of a function alone.
pub fn describe_header(lines: &[&str], header: &str) -> String {
    /// Most lines that have it and are shown.
    const HAVING: usize = 5;
    let wanted = header.trim();
    if let Some(at) = lines.iter().position(|line| line.trim() == wanted) {
        return format!(
            "Line {} is this line, but it does not stand below the hunk before it: write hunks in the order of the file, \
             and do not repeat a line that a hunk has already.",
            at + 1
        );
    }
    let having = || lines.iter().enumerate().filter(|(_, line)| line.contains(wanted));
    let shown: String = having().take(HAVING).map(|(at, _)| numbered(lines, at, at + 1)).collect();
    let more = having().count().saturating_sub(HAVING);
    let found = match (shown.is_empty(), more) {
        (true, _) => describe(lines, &[header]),
        (false, 0) => format!("It is in:\n{shown}"),
        (false, more) => format!("It is in {more} more lines, and in:\n{shown}"),
    };
    format!("Behind `@@ ` the whole line is needed, as it is in the file, or nothing. {found}")
}

/// What is said when the lines that an edit would put in are in the file already.
pub fn already_there(lines: &[&str], new: &[&str]) -> Option<String> {
    if new.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    let (at, _) = places(lines, new, Step::TrailingBlanks).into_iter().next()?;
    Some(format!(
        "The new lines are in the file already, from line {}: this edit may have been applied before.",
        at + 1
    ))
}

/// The start with the most equal lines; without any, the one at the line that is most like the
/// longest line of the block.
fn closest(lines: &[&str], block: &[&str]) -> Option<usize> {
    let mut by_text: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        let line = line.trim();
        let places = by_text.entry(line).or_default();
        if !line.is_empty() && places.len() < MAX_PLACES {
            places.push(at);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (offset, line) in block.iter().enumerate() {
        let line = line.trim();
        // A brace says less about the place than a sentence does.
        let weight = line.len().min(40);
        for at in by_text.get(line).into_iter().flatten() {
            if let Some(start) = at.checked_sub(offset) {
                *votes.entry(start).or_default() += weight;
            }
        }
    }
    let best = votes.into_iter().max_by_key(|(start, votes)| (*votes, usize::MAX - start));
    if let Some((start, _)) = best {
        return Some(start);
    }
    let (offset, longest) = block
        .iter()
        .enumerate()
        .max_by_key(|(offset, line)| (line.trim().len(), usize::MAX - offset))?;
    let wanted = pairs(longest);
    let (at, alike) = lines
        .iter()
        .enumerate()
        .map(|(at, line)| (at, dice(&wanted, &pairs(line))))
        .max_by_key(|(at, alike)| (*alike, usize::MAX - at))?;
    (alike >= ALIKE).then(|| at.saturating_sub(offset))
}

/// How alike two runs of lines are, in percent.
fn similarity(there: &[&str], block: &[&str]) -> usize {
    let weight = |line: &str| line.trim().len().clamp(1, MAX_WIDTH);
    let total: usize = block.iter().map(|line| weight(line)).sum();
    let alike: usize = there
        .iter()
        .zip(block)
        .map(|(there, line)| {
            let percent =
                if there == line { 100 } else { dice(&pairs(there), &pairs(line)).min(99) };
            percent * weight(line)
        })
        .sum();
    alike / total.max(1)
}

/// Neighbouring bytes of a trimmed line, with how often they occur.
fn pairs(line: &str) -> HashMap<[u8; 2], usize> {
    let mut pairs = HashMap::new();
    let bytes = line.trim().as_bytes();
    for pair in bytes[..bytes.len().min(MAX_WIDTH)].windows(2) {
        if let [a, b] = *pair {
            *pairs.entry([a, b]).or_default() += 1;
        }
    }
    pairs
}

/// The coefficient of Dice, in percent.
fn dice(one: &HashMap<[u8; 2], usize>, other: &HashMap<[u8; 2], usize>) -> usize {
    let count = |pairs: &HashMap<[u8; 2], usize>| pairs.values().sum::<usize>();
    let shared: usize =
        one.iter().map(|(pair, times)| (*times).min(other.get(pair).copied().unwrap_or(0))).sum();
    200 * shared / (count(one) + count(other)).max(1)
}

/// Where the lines begin that a few lines are most like, compared at every place: slower than
/// [`describe`], and right where no line of the block is in the file as it is.
pub fn most_alike(lines: &[&str], sought: &[&str]) -> Option<usize> {
    let closest = (0..lines.len())
        .map(|start| (likeness(lines.get(start..).unwrap_or_default(), sought), start))
        .max_by_key(|(likeness, start)| (*likeness, std::cmp::Reverse(*start)))?;
    (closest.0 >= ALIKE).then_some(closest.1)
}

/// How much the beginning of `lines` is like `sought`, in percent.
fn likeness(lines: &[&str], sought: &[&str]) -> usize {
    if sought.is_empty() {
        return 0;
    }
    let total: usize = sought.iter().zip(lines).map(|(one, other)| line_likeness(one, other)).sum();
    total / sought.len()
}

fn line_likeness(one: &str, other: &str) -> usize {
    let (one, other) = (one.trim(), other.trim());
    if one == other {
        return 100;
    }
    let one: Vec<char> = one.chars().take(MAX_SHORT).collect();
    let other: Vec<char> = other.chars().take(MAX_SHORT).collect();
    let shorter = one.len().min(other.len());
    let front = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let back = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    let alike = (front + back).min(shorter);
    100 * alike / one.len().max(other.len()).max(1)
}

fn short(line: &str) -> String {
    let short: String = line.chars().take(120).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
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
