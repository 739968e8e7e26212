//! Mode "indentation" of `read_file`: the block of lines around an anchor, by their indents.

use std::num::NonZeroUsize;

use super::{Indentation, long_line, numbered};

/// Columns of one level.
const LEVEL: usize = 4;

/// The lines around the anchor whose indents belong to it, numbered, at most `limit`.
pub(super) fn around(
    text: &str,
    offset: usize,
    limit: usize,
    args: Indentation,
) -> Result<Vec<String>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let anchor = args.anchor_line.map_or(offset, NonZeroUsize::get) - 1;
    if anchor >= lines.len() {
        return Err(format!("the anchor line {} is behind its {} lines", anchor + 1, lines.len()));
    }
    let limit = args.max_lines.map_or(limit, |max| limit.min(max.get()));
    let indents = indents(&lines);
    let threshold = match args.max_levels.unwrap_or(0) {
        0 => 0,
        levels => indents[anchor].saturating_sub(levels.saturating_mul(LEVEL)),
    };
    let block = Block {
        lines: &lines,
        indents: &indents,
        least: threshold,
        with_siblings: args.include_siblings.unwrap_or(false),
        with_header: args.include_header.unwrap_or(true),
    };
    let (mut first, mut last) = block.grow(anchor, limit);
    while first < last && lines[first].trim().is_empty() {
        first += 1;
    }
    while first < last && lines[last].trim().is_empty() {
        last -= 1;
    }
    Ok((first..=last).map(|at| numbered(at + 1, lines[at], long_line::SHOWN, 0)).collect())
}

/// The indent of each line in columns; an empty line has that of the line above.
fn indents(lines: &[&str]) -> Vec<usize> {
    let mut above = 0;
    lines
        .iter()
        .map(|line| {
            if !line.trim().is_empty() {
                let blanks = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
                above = blanks.map(|c| if c == '\t' { LEVEL } else { 1 }).sum();
            }
            above
        })
        .collect()
}

struct Block<'l> {
    lines: &'l [&'l str],
    indents: &'l [usize],
    /// Lines with a smaller indent do not belong to the block.
    least: usize,
    with_siblings: bool,
    with_header: bool,
}

impl Block<'_> {
    /// Grows by one line up and one line down in turn, until both ends have stopped or the limit is
    /// reached. Returns the first and the last line.
    fn grow(&self, anchor: usize, limit: usize) -> (usize, usize) {
        let (mut first, mut last) = (anchor, anchor);
        let (mut goes_up, mut goes_down) = (true, true);
        let (mut heads, mut feet) = (0, 0);
        while (goes_up || goes_down) && last - first + 1 < limit {
            if goes_up {
                goes_up = first > 0 && self.takes_above(first - 1, &mut heads);
                first -= usize::from(goes_up);
            }
            if goes_down && last - first + 1 < limit {
                goes_down = last + 1 < self.lines.len() && self.takes_below(last + 1, &mut feet);
                last += usize::from(goes_down);
            }
        }
        (first, last)
    }

    /// Upwards, the first line at the outermost level is the head of the block; above it only what
    /// documents it.
    fn takes_above(&self, at: usize, heads: &mut usize) -> bool {
        if self.indents[at] < self.least {
            return false;
        }
        if self.indents[at] > self.least || self.with_siblings {
            return *heads == 0 || self.with_siblings;
        }
        if *heads == 0 {
            *heads = 1;
            return true;
        }
        self.with_header && is_header(self.lines[at])
    }

    /// Downwards, the first line at the outermost level closes the block.
    fn takes_below(&self, at: usize, feet: &mut usize) -> bool {
        if self.indents[at] < self.least || *feet > 0 {
            return false;
        }
        if self.indents[at] == self.least && !self.with_siblings {
            *feet = 1;
        }
        true
    }
}

/// A comment, an attribute or a decorator.
fn is_header(line: &str) -> bool {
    let line = line.trim_start();
    ["#", "//", "--", "/*", "*", "@"].iter().any(|start| line.starts_with(start))
}
