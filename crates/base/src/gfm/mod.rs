//! Markdown as GitHub reads it: the tree, and where in the text its parts stand. The only place that calls the
//! parser, so that its options and its bound are the same for what comes in, what goes out, and markers.
//!
//! What a part of the tree shows is looked up at its place before the text there is trusted, because the
//! parser's places are wrong in some corners ([`Places`] mends two of them).

pub mod html;
pub mod tags;

use std::cell::Cell;

use comrak::nodes::{Node, NodeValue, Sourcepos};
use comrak::{Arena, Options};
use tokio::runtime::{Handle, RuntimeFlavor};

/// How often the parser may ask whether to go on. It asks every 256 steps. A text of 256 KB of any one
/// piece of markup takes at most 8,000 questions.
const MAX_STEPS: usize = 40_000;

/// [`MAX_STEPS`] for a report, which is 64 KB at most: an ordinary passage of that length takes some hundred questions.
const MAX_REPORT_STEPS: usize = 20_000;

/// The tree of a text without `\r` and NUL; `None` when it takes too long, which no text by a person does.
/// An alert's mark and a formula stay text.
pub fn parse<'a>(arena: &'a Arena<'a>, markdown: &str) -> Option<Node<'a>> {
    bounded(arena, markdown, &options(), MAX_STEPS)
}

/// The tree of a passage that goes into a report, with everything that GitHub would act on; `None` when it
/// takes too long.
pub fn parse_for_report<'a>(arena: &'a Arena<'a>, markdown: &str) -> Option<Node<'a>> {
    let mut options = options();
    options.extension.alerts = true;
    options.extension.math_dollars = true;
    options.extension.math_code = true;
    bounded(arena, markdown, &options, MAX_REPORT_STEPS)
}

fn bounded<'a>(
    arena: &'a Arena<'a>,
    markdown: &str,
    options: &Options<'_>,
    most: usize,
) -> Option<Node<'a>> {
    let questions = Cell::new(0);
    let is_too_much = || {
        questions.set(questions.get() + 1);
        questions.get() > most
    };
    comrak::try_parse_document(arena, markdown, options, &is_too_much).ok()
}

/// A text longer than this, in bytes, is read [`apart`].
pub const LONG: usize = 8 << 10;

/// Does long work over a text. On an async thread, another one takes over its other tasks meanwhile.
pub fn apart<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// [`apart`] when the text is long.
pub fn apart_if_long<T>(text: &str, work: impl FnOnce() -> T) -> T {
    if text.len() > LONG { apart(work) } else { work() }
}

/// GitHub's extensions of `CommonMark` that decide what is shown.
fn options() -> Options<'static> {
    let mut options = Options::default();
    options.extension.strikethrough = true;
    options.extension.table = true;
    options.extension.autolink = true;
    options.extension.tasklist = true;
    options.extension.footnotes = true;
    options.parse.leave_footnote_definitions = true;
    options
}

/// Byte ranges of the nodes of a tree in its text. Nodes have to be visited in their order.
pub struct Places<'a> {
    text: &'a str,
    lines: Vec<usize>,
    /// Lines of link definitions at the beginning of the paragraph, which the parser does not count.
    definitions: usize,
    /// Line, first column, and where in a cell `\|` stands, which the parser counts as one character.
    cell: Option<(usize, usize, Vec<usize>)>,
}

impl<'a> Places<'a> {
    pub fn new(text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { text, lines, definitions: 0, cell: None }
    }

    /// A node begins: what follows may be in it.
    pub fn enter(&mut self, node: Node<'_>) {
        let place = node.data().sourcepos;
        match &node.data().value {
            NodeValue::Paragraph | NodeValue::Heading(_) => {
                let underline = match &node.data().value {
                    NodeValue::Heading(heading) => usize::from(heading.setext),
                    _ => 0,
                };
                // comrak removes link definitions from the start of a paragraph but keeps counting
                // lines from its first line.
                let last = node.last_child().map_or(0, |last| last.data().sourcepos.end.line);
                self.cell = None;
                self.definitions = (place.end.line).saturating_sub(underline + last);
            }
            NodeValue::TableCell => {
                self.definitions = 0;
                let from = self.offset(place.start.line, place.start.column);
                let to = self.offset(place.end.line, place.end.column + 1);
                let cell = self.text.get(from..to).unwrap_or_default();
                // comrak parses a cell after `\|` has become `|`, so columns behind one are too
                // small.
                let pipes = cell.match_indices("\\|").enumerate().map(|(n, (at, _))| at - n);
                self.cell = Some((place.start.line, place.start.column, pipes.collect()));
            }
            value if value.block() => {
                self.definitions = 0;
                self.cell = None;
            }
            _ => {}
        }
    }

    /// First byte of a node, and the one behind its last. Inside of the text and in order, but what stands
    /// there is to be looked at.
    pub fn of(&self, node: Node<'_>) -> (usize, usize) {
        let data = node.data();
        let Sourcepos { start, end } = data.sourcepos;
        let is_inline = !data.value.block();
        let shift = if is_inline { self.definitions } else { 0 };
        let column = |line: usize, column: usize| match &self.cell {
            Some((own, first, pipes)) if is_inline && *own == line => {
                let inside = column.saturating_sub(*first);
                column + pipes.partition_point(|at| *at < inside)
            }
            _ => column,
        };
        let from = self.offset(start.line + shift, column(start.line, start.column));
        let to = self.offset(end.line + shift, column(end.line, end.column + 1));
        (from, to.max(from))
    }

    /// The lines of a block from this line on, each behind marks only: where they stand. `None` when the text
    /// has other lines there.
    pub fn lines(&self, line: usize, literal: &str) -> Option<Vec<(usize, usize)>> {
        let mut found = Vec::new();
        for (at, words) in literal.lines().enumerate() {
            let from = self.line(line + at);
            let to = self.line_end(from);
            let margin = self.text.get(from..to)?.trim_end_matches('\r').strip_suffix(words)?;
            let is_margin = |c| matches!(c, ' ' | '\t' | '>');
            if at > 0 && !margin.chars().all(is_margin) {
                return None;
            }
            found.push((from + margin.len(), to));
        }
        Some(found)
    }

    /// Where a line begins, counted from 1.
    pub fn line(&self, line: usize) -> usize {
        let at = line.checked_sub(1).and_then(|at| self.lines.get(at));
        at.copied().unwrap_or(self.text.len())
    }

    /// The end of the line that `at` is in, without its line end.
    pub fn line_end(&self, at: usize) -> usize {
        let next = self.lines.partition_point(|start| *start <= at);
        self.lines.get(next).map_or(self.text.len(), |start| start - 1)
    }

    fn offset(&self, line: usize, column: usize) -> usize {
        let at = (self.line(line) + column.saturating_sub(1)).min(self.text.len());
        self.text.floor_char_boundary(at)
    }
}

/// How much of `source` shows the words `literal`: the same characters, but escapes and character
/// references may stand for them. `None` when it shows something else.
pub fn shows(source: &str, literal: &str) -> Option<usize> {
    let mut at = 0;
    let mut wanted = literal;
    while let Some(want) = wanted.chars().next() {
        let rest = source.get(at..)?;
        let mut chars = rest.chars();
        let (first, next) = (chars.next()?, chars.next());
        if first == '&'
            && let Some((decoded, length)) = tags::entity(rest)
            && let Some(behind) = wanted.strip_prefix(decoded.as_str())
        {
            (at, wanted) = (at + length, behind);
            continue;
        }
        let escaped = next.filter(|next| first == '\\' && next.is_ascii_punctuation());
        if escaped.unwrap_or(first) != want {
            return None;
        }
        at += first.len_utf8() + usize::from(escaped.is_some());
        wanted = &wanted[want.len_utf8()..];
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use comrak::Arena;

    use crate::gfm::{bounded, options, parse};

    #[test]
    fn a_parse_ends_with_its_bound_of_steps() {
        let text = "> - *a* [b](c) `d`\n".repeat(2_000);
        assert!(parse(&Arena::new(), &text).is_some());
        assert!(bounded(&Arena::new(), &text, &options(), 3).is_none());
    }
}
