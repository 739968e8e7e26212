//! One pass over Markdown that leaves out what GitHub does not show.
//!
//! The text is parsed as GitHub parses it, and what the tree shows is taken from the text, in its order
//! and as it is written there. Between the pieces that are shown, only marks stay (`*`, `>`, `|`, blanks
//! and the like): so what the tree does not know (definitions, titles, surplus cells) is left out,
//! whatever it is. A piece that the text does not have at the place that the tree names is written from
//! the tree. [`blocks`] has code, HTML and the marks of lists, [`links`] links, pictures and definitions,
//! [`words`] plain text.

mod blocks;
mod links;
mod words;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use comrak::Arena;
use comrak::arena_tree::NodeEdge;
use comrak::nodes::{Node, NodeValue};

use super::formulas;
use patchwright_base::gfm::html::{self, Ends, Piece};
use patchwright_base::gfm::{self, Places, tags};
use patchwright_base::invisible::{Cleaned, Counts};

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
        elements: html::elements(root.descendants().filter_map(html_of), hides),
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

/// What ends the part that is not shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HiddenUntil {
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
    hiding: Option<HiddenUntil>,
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

impl Page<'_> {
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
        } else if let Some((label, target, length)) = links::definition(rest) {
            let shown = self.address(target);
            let start = self.out.len();
            self.out.extend(["[", label, "]: ", shown]);
            self.definitions.push((start..self.out.len(), links::compared(label)));
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

    fn footnote_reference(&mut self, from: usize, to: usize, name: &str) {
        let mark = format!("[^{name}]");
        if tags::is_label(name) {
            let is_there = self.text[from..to].eq_ignore_ascii_case(&mark);
            self.piece((from, to), is_there, &mark);
        } else {
            self.count("link label");
            self.piece((from, to), false, "");
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
                    self.lax_definitions(node, self.places.of(first).0, to);
                }
            }
            NodeValue::Item(_) => self.item(from),
            NodeValue::TaskItem(_) => self.task_item(from),
            NodeValue::Table(_) => self.tables += 1,
            NodeValue::CodeBlock(block) => self.code_block(data.sourcepos.start.line, from, block),
            NodeValue::HtmlBlock(block) => {
                self.html_block(node, data.sourcepos.start.line, from, &block.literal);
            }
            NodeValue::HtmlInline(_) => {
                if from >= self.at {
                    self.reach(from);
                }
                let shown = self.html(node, HiddenUntil::Block);
                self.out.push_str(&shown);
                self.at = self.at.max(to);
            }
            NodeValue::Text(words) => self.words(from, to, words),
            NodeValue::Code(code) => {
                let is_there = words::is_code(&self.text[from..to], code);
                let fence = "`".repeat(code.num_backticks.max(1));
                self.piece((from, to), is_there, &format!("{fence}{}{fence}", code.literal));
            }
            NodeValue::FootnoteReference(footnote) => {
                self.footnote_reference(from, to, &footnote.name);
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
            value if value.block() && self.hiding == Some(HiddenUntil::Block) => {
                self.at = self.at.max(self.places.of(node).1);
                self.hiding = None;
            }
            _ => {}
        }
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

/// The name of a footnote that something refers to.
fn referenced(node: Node<'_>) -> Option<String> {
    match &node.data().value {
        NodeValue::FootnoteReference(footnote) => Some(footnote.name.to_lowercase()),
        _ => None,
    }
}

/// The HTML of a node.
fn hides(tag: &patchwright_base::gfm::tags::Tag<'_>) -> bool {
    tag.hides_content()
}

fn html_of(node: Node<'_>) -> Option<String> {
    match &node.data().value {
        NodeValue::HtmlBlock(block) => Some(formulas::without_invisible(&block.literal).0),
        NodeValue::HtmlInline(html) => Some(html.clone()),
        _ => None,
    }
}
