//! Marks of lists and footnotes, blocks of code, and HTML.

use comrak::nodes::{Node, NodeCodeBlock};

use super::{HiddenUntil, Page, formulas, html_of};
use patchwright_base::gfm::html::{self, Piece};
use patchwright_base::gfm::tags;

/// Fences whose content GitHub draws.
const DRAWN: &[&str] = &["mermaid", "geojson", "topojson", "stl"];

impl Page<'_> {
    /// The mark of a list item.
    pub(super) fn item(&mut self, from: usize) {
        if from < self.at {
            return;
        }
        self.mark(from, mark_length(&self.text[from..]));
    }

    /// The mark of a list item, and its box.
    pub(super) fn task_item(&mut self, from: usize) {
        if from < self.at {
            return;
        }
        let rest = &self.text[from..];
        let mut length = mark_length(rest);
        let gap = rest[length..].len() - rest[length..].trim_start().len();
        let tick = rest.get(length + gap..length + gap + 3);
        if tick.is_some_and(|tick| tick.starts_with('[') && tick.ends_with(']')) {
            length += gap + 3;
        }
        self.mark(from, length);
    }

    fn mark(&mut self, from: usize, length: usize) {
        self.reach(from);
        self.push(&self.text[from..from + length]);
        self.at = from + length;
    }

    pub(super) fn footnote(&mut self, from: usize, name: &str) -> bool {
        if !self.footnotes.remove(&name.to_lowercase()) {
            self.count("unused footnote");
            if from >= self.at {
                self.reach(from);
            }
            return false;
        }
        let mark = format!("[^{name}]:");
        let there = self.text[from..].get(..mark.len());
        if from >= self.at && there.is_some_and(|there| there.eq_ignore_ascii_case(&mark)) {
            self.reach(from);
            self.at = from + mark.len();
            if tags::is_label(name) {
                self.push(&self.text[from..from + mark.len()]);
            } else {
                self.count("link label");
            }
        }
        true
    }

    /// Writes the lines of a block that begins here, each further one behind the same margin.
    pub(super) fn push_lines(&mut self, lines: &str) {
        let Some((first, rest)) = lines.split_once('\n') else {
            return self.out.push_str(lines);
        };
        let line = self.out.rsplit('\n').next().unwrap_or_default();
        let margin: String = line.chars().map(|c| if c == '>' { '>' } else { ' ' }).collect();
        self.out.push_str(first);
        for line in rest.split('\n') {
            self.out.extend(["\n", &margin, line]);
        }
    }

    /// Code as it is. Its info string is not shown, so only a word of it stays. What GitHub draws from a
    /// block is not its text, so a note stands in its place.
    pub(super) fn code_block(&mut self, line: usize, from: usize, block: &NodeCodeBlock) {
        let label: String = block
            .info
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#' | '.' | '_'))
            .take(20)
            .collect();
        let lower = label.to_ascii_lowercase();
        let hides = formulas::hides(&block.literal) || formulas::comments(&block.literal);
        let note = match lower.as_str() {
            drawn if DRAWN.contains(&drawn) => Some(("[a drawing was left out]", "drawing")),
            "math" if hides => Some(("[a formula was left out]", "invisible formula")),
            _ => None,
        };
        if label != block.info {
            self.count("code fence label");
        }
        let first = self.places.line_end(from);
        let lines = self.places.lines(line + usize::from(block.fenced), &block.literal);
        let begins = |first: usize| block.fenced || self.text[from..first].trim().is_empty();
        let mut end = lines.filter(|_| from >= self.at).and_then(|lines| {
            let (start, _) = *lines.first().unwrap_or(&(first, first));
            let (_, end) = *lines.last().unwrap_or(&(first, first));
            (start >= from && begins(start)).then_some(end)
        });
        if block.fenced && block.closed {
            end = end.and_then(|end| self.closing_fence(end, block));
        }
        let Some(end) = end else {
            return self.code_from_tree(from, &label, block, note);
        };
        self.reach(from);
        self.at = end;
        let marks = self.text[from..].bytes().take_while(|byte| *byte == block.fence_char).count();
        match note {
            Some((note, kind)) => {
                self.push(note);
                self.count(kind);
            }
            None if block.fenced && label != block.info => {
                self.push(&self.text[from..from + marks]);
                self.push(&label);
                self.push(&self.text[first..end]);
            }
            None => self.push(&self.text[from..end]),
        }
    }

    /// The end of the line behind `end`, which closes the fence.
    pub(super) fn closing_fence(&self, end: usize, block: &NodeCodeBlock) -> Option<usize> {
        let from = (end < self.text.len()).then_some(end + 1)?;
        let to = self.places.line_end(from);
        let line = self.text[from..to].trim_start_matches([' ', '\t', '>']).trim_end();
        (!line.is_empty() && line.bytes().all(|byte| byte == block.fence_char)).then_some(to)
    }

    pub(super) fn code_from_tree(
        &mut self,
        from: usize,
        label: &str,
        block: &NodeCodeBlock,
        note: Option<(&str, &'static str)>,
    ) {
        if from >= self.at {
            self.reach(from);
        }
        if let Some((note, kind)) = note {
            self.count(kind);
            return self.push(note);
        }
        let longest = block.literal.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let code = format!("{fence}{label}\n{}{fence}", block.literal);
        if self.hiding.is_none() {
            self.push_lines(&code);
        }
    }

    pub(super) fn html_block(&mut self, node: Node<'_>, line: usize, from: usize, literal: &str) {
        let lines = self.places.lines(line, literal).filter(|_| from >= self.at);
        let end = lines.and_then(|lines| {
            let (start, _) = *lines.first()?;
            (start >= from && self.text[from..start].trim().is_empty()).then_some(lines.last()?.1)
        });
        if from >= self.at {
            self.reach(from);
        }
        let was_hidden = self.hiding.is_some();
        let hidden = formulas::without_invisible(literal).1;
        (0..hidden).for_each(|_| self.count("invisible formula"));
        let shown = self.html(node, HiddenUntil::End);
        // GitHub's parser may see words in this, and HTML of another kind below.
        let first = literal.lines().next().unwrap_or_default();
        let is_lower = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
        if first.strip_prefix("<!").is_some_and(is_lower) && !first.contains('>') {
            self.hiding = Some(HiddenUntil::End);
        }
        match end {
            Some(end) if shown == literal && !was_hidden => {
                self.out.push_str(&self.text[from..end]);
            }
            _ => self.push_lines(shown.trim_end_matches('\n')),
        }
        self.at = self.at.max(end.unwrap_or(from));
    }

    /// What is shown of a node of HTML. An element that hides and is never closed hides as far as
    /// `unclosed` says.
    pub(super) fn html(&mut self, node: Node<'_>, unclosed: HiddenUntil) -> String {
        let html = html_of(node).unwrap_or_default();
        let mut shown = String::new();
        for piece in html::pieces(&html) {
            let is_hidden = self.hiding.is_some();
            match piece {
                Piece::Tag(tag) => self.tag(&tag, unclosed, &mut shown),
                _ if is_hidden => {}
                Piece::Words(_, words) => decode(words, &mut shown),
                Piece::Hidden(kind) => self.count(kind),
                Piece::Open(kind) => {
                    self.count(kind);
                    self.hiding = Some(HiddenUntil::End);
                }
            }
        }
        shown
    }

    pub(super) fn tag(&mut self, tag: &tags::Tag<'_>, unclosed: HiddenUntil, shown: &mut String) {
        let number = self.tags;
        self.tags += 1;
        if self.hiding == Some(HiddenUntil::Tag(number)) {
            self.hiding = None;
            return;
        }
        if self.hiding.is_some() {
            return;
        }
        if tag.hides_content() {
            self.count("hidden element");
            let void = ["img", "br", "hr", "input", "source", "wbr"].iter().any(|n| tag.is(n));
            if !void {
                let end = self.elements.get(&number);
                self.hiding = Some(end.map_or(unclosed, |end| HiddenUntil::Tag(*end)));
            }
            return;
        }
        for _ in 0..tag.worded_attributes() {
            self.count("HTML attribute");
        }
        if tag.hides_words_in_address() {
            self.count("link address");
        }
        if tag.has_odd_name() {
            self.count("odd element");
        }
        shown.push_str(&tag.bare());
    }
}

/// How long the mark of the list item is that this begins with.
fn mark_length(rest: &str) -> usize {
    let digits = rest.bytes().take(9).take_while(u8::is_ascii_digit).count();
    digits + usize::from(rest[digits..].starts_with(['-', '*', '+', '.', ')']))
}

/// Words of HTML, character references read unless they stand for characters of markup.
fn decode(words: &str, out: &mut String) {
    let mut rest = words;
    while let Some(at) = rest.find('&') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match tags::entity(from) {
            // Nor may one make a tag of a `<` before it.
            Some((shown, length))
                if !matches!(shown.as_str(), "<" | ">" | "&") && !out.ends_with(['<', '/']) =>
            {
                out.push_str(&shown);
                rest = &from[length..];
            }
            _ => {
                out.push('&');
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
}
