//! One pass over Markdown that leaves out what GitHub does not show.
//!
//! The text is parsed as GitHub parses it, and what the tree shows is taken from the text, in its order
//! and as it is written there. Between the pieces that are shown, only marks stay (`*`, `>`, `|`, blanks
//! and the like): so what the tree does not know (definitions, titles, surplus cells) is left out,
//! whatever it is. A piece that the text does not have at the place that the tree names is written from
//! the tree.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use comrak::Arena;
use comrak::arena_tree::NodeEdge;
use comrak::nodes::{Node, NodeCode, NodeCodeBlock, NodeLink, NodeValue};

use super::formulas;
use super::hidden::{Cleaned, Counts};
use crate::gfm::html::{self, Ends, Piece};
use crate::gfm::tags::{self, At};
use crate::gfm::{self, Places};

/// Removes hidden markup once; `None` when the text takes too long to parse. Removing may uncover more:
/// [`super::hidden::clean`] repeats it.
pub(super) fn strip(text: &str) -> Option<Cleaned> {
    let arena = Arena::new();
    let root = gfm::parse(&arena, text)?;
    let mut page = Page {
        text,
        places: Places::new(text),
        at: 0,
        out: String::with_capacity(text.len()),
        removed: Counts::new(),
        elements: html::elements(root.descendants().filter_map(html_of), |tag| tag.hides_content()),
        tags: 0,
        hiding: None,
        cut: 0,
        ends: Ends::default(),
        used: HashSet::new(),
        footnotes: root.descendants().filter_map(referenced).collect(),
        definitions: Vec::new(),
        links: Vec::new(),
        tables: 0,
    };
    let mut skipped: Option<Node<'_>> = None;
    for edge in root.traverse() {
        match edge {
            NodeEdge::Start(node) if skipped.is_some() => page.pass(node),
            NodeEdge::Start(node) => {
                page.places.enter(node);
                if !page.start(node) {
                    skipped = Some(node);
                }
            }
            NodeEdge::End(node) => {
                let is_skipped = skipped.is_some_and(|skipped| skipped.same_node(node));
                if is_skipped {
                    skipped = None;
                }
                if skipped.is_none() {
                    page.end(node, is_skipped);
                }
            }
        }
    }
    page.reach(text.len());
    Some(page.finish())
}

/// Fences whose content GitHub draws.
const DRAWN: &[&str] = &["mermaid", "geojson", "topojson", "stl"];

/// What ends the part that is not shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The tag with this number.
    Tag(usize),
    /// The end of the block, for an element that nothing closes.
    Block,
    /// Nothing: it began as a block of its own.
    End,
}

struct Page<'a> {
    text: &'a str,
    places: Places<'a>,
    /// What stands before this is dealt with.
    at: usize,
    out: String,
    removed: Counts,
    /// Elements whose content is hidden: number of the tag that opens, and of the tag that closes.
    elements: HashMap<usize, usize>,
    /// Tags so far.
    tags: usize,
    hiding: Option<Until>,
    /// Up to here a formula is left out.
    cut: usize,
    ends: Ends,
    /// Labels that a link names, as they are compared.
    used: HashSet<String>,
    /// Footnotes that something refers to. Of several definitions the first is shown.
    footnotes: HashSet<String>,
    /// Definitions in `out`, and their labels.
    definitions: Vec<(Range<usize>, String)>,
    /// Open links: where the bracket stands that opens, if the text has one.
    links: Vec<Option<usize>>,
    /// Depth of tables.
    tables: usize,
}

impl<'a> Page<'a> {
    fn count(&mut self, kind: &'static str) {
        *self.removed.entry(kind).or_default() += 1;
    }

    fn push(&mut self, shown: &str) {
        if self.hiding.is_none() {
            self.out.push_str(shown);
        }
    }

    /// Goes on to `to`. What stands between shows nothing by itself: its marks stay.
    fn reach(&mut self, to: usize) {
        self.at = self.at.max(self.cut.min(to));
        if self.hiding.is_some() {
            self.at = self.at.max(to);
        }
        while self.at < to {
            let rest = &self.text[self.at..to];
            let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
            let marks = line.find(|c| !is_mark(c)).unwrap_or(line.len());
            self.out.push_str(&line[..marks]);
            self.at += marks;
            if marks < line.len() {
                let length = self.unseen(&rest[marks..], line.len() - marks);
                self.at += length;
            } else if line.len() < rest.len() {
                self.out.push('\n');
                self.at += 1;
            }
        }
    }

    /// What the tree does not have, `line` bytes of it in this line. Returns how much is dealt with.
    fn unseen(&mut self, rest: &str, line: usize) -> usize {
        if self.tables > 0 {
            self.count("surplus table cell");
        } else if let Some((label, target, length)) = definition(rest) {
            let shown = self.address(target);
            let start = self.out.len();
            self.out.extend(["[", label, "]: ", shown]);
            self.definitions.push((start..self.out.len(), compared(label)));
            return length;
        } else if rest.starts_with(['"', '\'', '(']) {
            self.count("link title");
        } else if rest.starts_with('[') {
            self.count("unused link definition");
        } else {
            self.count("hidden text");
        }
        line
    }

    /// A piece that stands at `from..to` when `is_there`. Otherwise `shown` is written from the tree.
    fn piece(&mut self, (from, to): (usize, usize), is_there: bool, shown: &str) {
        // A formula that ends inside of it takes it along.
        if from >= self.at {
            self.reach(from);
            self.push(if is_there { &self.text[from..to] } else { shown });
        } else if from >= self.cut {
            self.push(shown);
        }
        self.at = self.at.max(to);
    }

    /// A node of a part that is not shown. Its tags count all the same.
    fn pass(&mut self, node: Node<'_>) {
        if let Some(html) = html_of(node) {
            self.tags +=
                html::pieces(&html).iter().filter(|it| matches!(it, Piece::Tag(_))).count();
        }
    }

    /// A node begins. False when nothing in it is shown.
    fn start(&mut self, node: Node<'_>) -> bool {
        let (from, to) = self.places.of(node);
        if self.hiding.is_none() && from < to && to <= self.cut {
            self.pass(node);
            return false;
        }
        let data = node.data();
        match &data.value {
            NodeValue::Paragraph | NodeValue::Heading(_) => {
                if let Some(first) = node.first_child() {
                    self.lax_definitions(self.places.of(first).0, to);
                }
            }
            NodeValue::Item(_) => self.item(from, false),
            NodeValue::TaskItem(_) => self.item(from, true),
            NodeValue::Table(_) => self.tables += 1,
            NodeValue::CodeBlock(block) => self.code_block(data.sourcepos.start.line, from, block),
            NodeValue::HtmlBlock(block) => {
                self.html_block(node, data.sourcepos.start.line, from, &block.literal);
            }
            NodeValue::HtmlInline(_) => {
                if from >= self.at {
                    self.reach(from);
                }
                let shown = self.html(node, Until::Block);
                self.out.push_str(&shown);
                self.at = self.at.max(to);
            }
            NodeValue::Text(words) => self.words(from, to, words),
            NodeValue::Code(code) => {
                let is_there = is_code(&self.text[from..to], code);
                let fence = "`".repeat(code.num_backticks.max(1));
                self.piece((from, to), is_there, &format!("{fence}{}{fence}", code.literal));
            }
            NodeValue::FootnoteReference(footnote) => {
                let mark = format!("[^{}]", footnote.name);
                if tags::is_label(&footnote.name) {
                    let is_there = self.text[from..to].eq_ignore_ascii_case(&mark);
                    self.piece((from, to), is_there, &mark);
                } else {
                    self.count("link label");
                    self.piece((from, to), false, "");
                }
            }
            NodeValue::FootnoteDefinition(footnote) => {
                return self.footnote(from, &footnote.name);
            }
            NodeValue::Link(_) => {
                let is_there = from >= self.at && self.text[from..to].starts_with(['[', '<']);
                if is_there {
                    self.reach(from);
                    let bracket = &self.text[from..=from];
                    self.push(bracket);
                    self.at = from + 1;
                }
                self.links.push(is_there.then_some(from));
            }
            NodeValue::Image(link) => {
                self.image(node, from, to, link);
                return false;
            }
            _ => {}
        }
        true
    }

    /// A node ends.
    fn end(&mut self, node: Node<'_>, is_skipped: bool) {
        let data = node.data();
        match &data.value {
            NodeValue::Table(_) if !is_skipped => {
                let (_, to) = self.places.of(node);
                self.reach(to.max(self.at));
                self.tables -= 1;
            }
            NodeValue::Link(link) if !is_skipped => {
                let (_, to) = self.places.of(node);
                if let Some(from) = self.links.pop() {
                    self.link_end(node, from, to, link);
                }
            }
            NodeValue::FootnoteDefinition(_) if is_skipped => {
                let (_, to) = self.places.of(node);
                self.at = self.at.max(to);
            }
            value if value.block() && self.hiding == Some(Until::Block) => {
                self.at = self.at.max(self.places.of(node).1);
                self.hiding = None;
            }
            _ => {}
        }
    }

    /// The mark of a list item, and its box.
    fn item(&mut self, from: usize, is_task: bool) {
        if from < self.at {
            return;
        }
        self.reach(from);
        let rest = &self.text[from..];
        let digits = rest.bytes().take(9).take_while(u8::is_ascii_digit).count();
        let mut length =
            digits + usize::from(rest[digits..].starts_with(['-', '*', '+', '.', ')']));
        if is_task {
            let gap = rest[length..].len() - rest[length..].trim_start().len();
            let tick = rest.get(length + gap..length + gap + 3);
            if tick.is_some_and(|tick| tick.starts_with('[') && tick.ends_with(']')) {
                length += gap + 3;
            }
        }
        self.push(&rest[..length]);
        self.at = from + length;
    }

    /// Definitions at the beginning of a paragraph whose target has an open parenthesis: GitHub's parser takes
    /// them for definitions, ours for words.
    fn lax_definitions(&mut self, from: usize, to: usize) {
        let mut at = from;
        while let Some(rest) = self.text.get(at..to)
            && let Some((_, target, length)) = definition(rest)
            && target.matches('(').count() > target.matches(')').count()
        {
            let end = self.places.line_end(at + length);
            let title = self.text[at + length..end].trim();
            let is_title = tags::quoted(title).is_some_and(|(_, length)| length == title.len());
            if !title.is_empty() && !is_title {
                break;
            }
            self.count("unused link definition");
            self.cut = end;
            at = end + 1;
        }
    }

    fn footnote(&mut self, from: usize, name: &str) -> bool {
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

    fn words(&mut self, from: usize, to: usize, words: &str) {
        let source = &self.text[from..to];
        let as_is = source == words;
        let is_there = as_is || gfm::shows(source, words) == Some(source.len());
        let is_next = from >= self.at || from < self.cut;
        if !is_there || !is_next || self.hiding.is_some() {
            return self.piece((from, to), is_there, &escaped(words, self.tables > 0));
        }
        self.reach(from);
        self.at = self.at.max(self.cut.min(to));
        while self.at < to {
            let rest = &self.text[self.at..to];
            let stops = |c: char| matches!(c, '$' | '<' | '[') || !as_is && matches!(c, '\\' | '&');
            let plain = rest.find(stops).unwrap_or(rest.len());
            self.push(&rest[..plain]);
            self.at += plain;
            if let Some(first) = rest[plain..].chars().next() {
                self.special(first, &rest[plain..], to);
            }
        }
    }

    /// One character of a text that means something, or several.
    fn special(&mut self, first: char, rest: &str, to: usize) {
        let hidden = match first {
            '$' => formulas::invisible(self.text, self.at, &mut self.ends)
                .map(|end| (end, "invisible formula")),
            // Browsers end a comment with this as well.
            '<' if rest.starts_with("<!--") => {
                let end = self.ends.find(self.text, "--!>", self.at);
                end.map(|end| (self.at + end + 4, "HTML comment"))
            }
            _ => None,
        };
        if let Some((end, kind)) = hidden {
            self.count(kind);
            self.at = end.min(to);
            self.cut = end;
            return;
        }
        let second = rest[first.len_utf8()..].chars().next();
        // GitHub's parser loses words of what looks like a footnote over several lines.
        if first == '[' && second == Some('^') {
            if spans_lines(&self.text[self.at..]) {
                self.count("unused footnote");
                self.hiding = Some(Until::Block);
                self.at = to;
                return;
            }
        }
        let (shown, length) = match first {
            // Shown as it is typed, but nobody types attributes there to be read.
            '<' if second == Some('/') => match tags::tag(rest) {
                At::Tag(tag) if !tag.has_odd_name() && !tag.attributes.is_empty() => {
                    (tag.bare(), tag.length)
                }
                _ => ("<".to_owned(), 1),
            },
            '&' => match tags::entity(rest) {
                Some((decoded, length)) => (escaped(&decoded, self.tables > 0), length),
                None => ("&".to_owned(), 1),
            },
            '\\' if second.is_some_and(|c| c.is_ascii_punctuation()) => (rest[..2].to_owned(), 2),
            '$' if second == Some('$') => ("$$".to_owned(), 2),
            other => (other.to_string(), other.len_utf8()),
        };
        self.push(&shown);
        self.at += length;
    }

    /// Behind the words of a link: its target.
    fn link_end(&mut self, node: Node<'_>, from: Option<usize>, to: usize, link: &NodeLink) {
        let Some(from) = from else {
            // A bare address has no more than its words.
            let words = node.first_child().map(|words| words.data().sourcepos);
            if words != Some(node.data().sourcepos) {
                let target = self.target(link);
                self.push(&format!(" ({target})"));
            }
            return;
        };
        if self.at > to {
            return self.push("]");
        }
        let tail = &self.text[self.at..to];
        if tail == ">" {
            self.at = to;
            return self.push(tail);
        }
        let marks = tail.find(|c| !is_mark(c)).unwrap_or(tail.len());
        self.push(&tail[..marks]);
        let tail = &tail[marks..];
        self.at = to;
        let inline = tail.strip_prefix("](").and_then(tags::link_target);
        if let Some((target, title, length)) = inline
            && length + 2 == tail.len()
        {
            let shown = if target.is_empty() { target } else { self.address(target) };
            if title.is_some_and(|title| !title.is_empty()) {
                self.count("link title");
            }
            return self.push(&format!("]({shown})"));
        }
        let label = match tail {
            "]" | "][]" => self.text[from + 1..to - tail.len()].to_owned(),
            _ => match tail.strip_prefix("][").and_then(|label| label.strip_suffix(']')) {
                Some(label) if tags::is_label(label) => label.to_owned(),
                _ => {
                    self.count("link label");
                    let target = self.target(link);
                    return self.push(&format!("]({target})"));
                }
            },
        };
        self.used.insert(compared(&label));
        self.push(tail);
    }

    /// A picture without its alternative text.
    fn image(&mut self, node: Node<'_>, from: usize, to: usize, link: &NodeLink) {
        let source = &self.text[from..to];
        let alt = alternative(node);
        let written = format!("![]({})", link.url);
        if !tags::is_label(&alt) {
            self.count("image alt text");
        }
        if !link.title.is_empty() {
            self.count("link title");
        }
        let shown = format!("![]({})", self.target(link));
        let is_there = source == written && shown == written;
        self.piece((from, to), is_there, &shown);
    }

    /// A link's target as the tree has it.
    fn target(&mut self, link: &NodeLink) -> String {
        let is_plain = !link.url.contains(['<', '>', '(', ')', '\\', '&']);
        if link.url.is_empty() || is_plain {
            return self.address(&link.url).to_owned();
        }
        self.count("link address");
        "link".to_owned()
    }

    /// A link's address, when it is no place to hide words in.
    fn address<'t>(&mut self, target: &'t str) -> &'t str {
        if tags::is_address(target) {
            return target;
        }
        self.count("link address");
        "link"
    }

    /// Writes the lines of a block that begins here, each further one behind the same margin.
    fn push_lines(&mut self, lines: &str) {
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
    fn code_block(&mut self, line: usize, from: usize, block: &NodeCodeBlock) {
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
    fn closing_fence(&self, end: usize, block: &NodeCodeBlock) -> Option<usize> {
        let from = (end < self.text.len()).then_some(end + 1)?;
        let to = self.places.line_end(from);
        let line = self.text[from..to].trim_start_matches([' ', '\t', '>']).trim_end();
        (!line.is_empty() && line.bytes().all(|byte| byte == block.fence_char)).then_some(to)
    }

    fn code_from_tree(
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

    fn html_block(&mut self, node: Node<'_>, line: usize, from: usize, literal: &str) {
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
        let shown = self.html(node, Until::End);
        // GitHub's parser may see words in this, and HTML of another kind below.
        let first = literal.lines().next().unwrap_or_default();
        let is_lower = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
        if first.strip_prefix("<!").is_some_and(is_lower) && !first.contains('>') {
            self.hiding = Some(Until::End);
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
    fn html(&mut self, node: Node<'_>, unclosed: Until) -> String {
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
                    self.hiding = Some(Until::End);
                }
            }
        }
        shown
    }

    fn tag(&mut self, tag: &tags::Tag<'_>, unclosed: Until, shown: &mut String) {
        let number = self.tags;
        self.tags += 1;
        if self.hiding == Some(Until::Tag(number)) {
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
                self.hiding = Some(end.map_or(unclosed, |end| Until::Tag(*end)));
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

    /// Leaves out the definitions that nothing uses.
    fn finish(mut self) -> Cleaned {
        let mut text = String::with_capacity(self.out.len());
        let mut at = 0;
        for (range, label) in std::mem::take(&mut self.definitions) {
            if !self.used.contains(&label) {
                self.count("unused link definition");
                text.push_str(&self.out[at..range.start]);
                at = range.end;
            }
        }
        text.push_str(&self.out[at..]);
        Cleaned { text, removed: self.removed }
    }
}

/// Between the pieces of a page these are the marks of its blocks and spans.
fn is_mark(c: char) -> bool {
    c.is_whitespace() || matches!(c, '>' | '*' | '_' | '~' | '#' | '|' | ':' | '-' | '=' | '\\')
}

/// How far the end of what looks like a footnote is looked for, in bytes.
const LONGEST_FOOTNOTE: usize = 2000;

/// Whether the bracket that opens here closes on another line, or far away.
fn spans_lines(rest: &str) -> bool {
    let (mut depth, mut lines) = (0usize, 0);
    for byte in rest.bytes().take(LONGEST_FOOTNOTE) {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return lines > 0,
            b']' => depth -= 1,
            b'\n' => lines += 1,
            _ => {}
        }
    }
    lines > 0 && rest.len() > LONGEST_FOOTNOTE
}

/// Label, target and length of a link's definition, as far as its target; a title may follow.
fn definition(rest: &str) -> Option<(&str, &str, usize)> {
    let head = &rest[..rest.floor_char_boundary(1002)];
    let (label, _) = head.strip_prefix('[')?.split_once("]:")?;
    let behind = &rest[label.len() + 3..];
    if label.is_empty() || label.contains(['[', ']']) {
        return None;
    }
    let (target, length) = tags::destination(behind)?;
    Some((label, target, rest.len() - behind.len() + length))
}

/// A label as labels are compared.
fn compared(label: &str) -> String {
    label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The name of a footnote that something refers to.
fn referenced(node: Node<'_>) -> Option<String> {
    match &node.data().value {
        NodeValue::FootnoteReference(footnote) => Some(footnote.name.to_lowercase()),
        _ => None,
    }
}

/// The HTML of a node.
fn html_of(node: Node<'_>) -> Option<String> {
    match &node.data().value {
        NodeValue::HtmlBlock(block) => Some(formulas::without_invisible(&block.literal).0),
        NodeValue::HtmlInline(html) => Some(html.clone()),
        _ => None,
    }
}

/// Whether the source is this code span.
fn is_code(source: &str, code: &NodeCode) -> bool {
    let fence = "`".repeat(code.num_backticks);
    let inner = source.strip_prefix(&fence).and_then(|source| source.strip_suffix(&fence));
    inner.is_some_and(|inner| {
        let is_literal = |inner: &str| {
            let trimmed = inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' '));
            inner == code.literal || trimmed == Some(code.literal.as_str())
        };
        is_literal(inner) || is_literal(&inner.replace('\n', " ").replace("\\|", "|"))
    })
}

/// Words of the tree as they are written to be read so. Angle brackets stay: what they make is looked at
/// in the next pass.
fn escaped(words: &str, in_table: bool) -> String {
    let mut out = String::with_capacity(words.len());
    let mut before = ' ';
    let mut chars = words.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        let is_markup = match c {
            '`' | '*' | '[' | ']' | '~' => true,
            '\\' => next.is_ascii_punctuation(),
            '_' => !before.is_alphanumeric() || !next.is_alphanumeric(),
            '|' => in_table,
            _ => false,
        };
        if is_markup {
            out.push('\\');
        }
        out.push(c);
        before = c;
    }
    out
}

/// Words of HTML, character references read unless they stand for characters of markup.
fn decode(words: &str, out: &mut String) {
    let mut rest = words;
    while let Some(at) = rest.find('&') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match tags::entity(from) {
            Some((shown, length)) if !matches!(shown.as_str(), "<" | ">" | "&") => {
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

/// What a picture shows where it cannot be shown.
fn alternative(node: Node<'_>) -> String {
    let words = node.descendants().filter_map(|node| match &node.data().value {
        NodeValue::Text(words) => Some(words.to_string()),
        NodeValue::Code(code) => Some(code.literal.clone()),
        NodeValue::SoftBreak | NodeValue::LineBreak => Some(" ".to_owned()),
        _ => None,
    });
    words.collect()
}
