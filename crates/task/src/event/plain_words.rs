//! Which bytes of a comment are plain words of the one who wrote it.
//!
//! The comment is parsed as GitHub parses it. Quotations, code, HTML comments, links, folded parts and
//! markup are not plain words, nor is what the tree and the text do not agree about.

use std::collections::HashMap;

use comrak::Arena;
use comrak::arena_tree::NodeEdge;
use comrak::nodes::{Node, NodeValue};

use patchwright_base::gfm::html::{self, Piece};
use patchwright_base::gfm::tags::Tag;
use patchwright_base::gfm::{self, Places};

/// For each byte of `text`, whether it is plain. In a text that takes too long to parse, nothing is.
pub(super) fn plain_bytes(text: &str) -> Vec<bool> {
    gfm::apart_if_long(text, || plain(text))
}

fn plain(text: &str) -> Vec<bool> {
    // The same bytes, with one kind of line end.
    let text = text.replace("\r\n", " \n").replace('\r', "\n").replace('\0', " ");
    let arena = Arena::new();
    let Some(root) = gfm::parse(&arena, &text) else { return vec![false; text.len()] };
    let mut page = Page {
        plain: vec![false; text.len()],
        places: Places::new(&text),
        elements: html::elements(root.descendants().filter_map(html_of), is_not_plain),
        tags: 0,
        inside: 0,
        until: None,
    };
    for edge in root.traverse() {
        match edge {
            NodeEdge::Start(node) => page.start(&text, node),
            NodeEdge::End(node) => page.inside -= usize::from(is_others(&node.data().value)),
        }
    }
    page.plain
}

/// Elements whose content is not the writer's plain words.
const NOT_PLAIN: &[&str] = &[
    "a",
    "blockquote",
    "code",
    "del",
    "kbd",
    "pre",
    "q",
    "s",
    "samp",
    "script",
    "style",
    "textarea",
    "tt",
];

fn is_not_plain(tag: &Tag<'_>) -> bool {
    !tag.closing
        && (NOT_PLAIN.iter().any(|name| tag.is(name)) || is_folded(tag) || tag.hides_content())
}

fn is_folded(tag: &Tag<'_>) -> bool {
    tag.is("details") && !tag.attributes.iter().any(|(name, _)| name == "open")
}

/// What is in it, somebody else wrote, or it is no text.
fn is_others(value: &NodeValue) -> bool {
    matches!(
        value,
        NodeValue::BlockQuote
            | NodeValue::Link(_)
            | NodeValue::Image(_)
            | NodeValue::FootnoteDefinition(_)
    )
}

fn html_of(node: Node<'_>) -> Option<String> {
    match &node.data().value {
        NodeValue::HtmlBlock(block) => Some(block.literal.clone()),
        NodeValue::HtmlInline(html) => Some(html.clone()),
        _ => None,
    }
}

struct Page<'a> {
    plain: Vec<bool>,
    places: Places<'a>,
    /// Elements whose content is not plain: number of the tag that opens, and of the tag that closes.
    elements: HashMap<usize, usize>,
    /// Tags so far.
    tags: usize,
    /// Open nodes whose content is not plain.
    inside: usize,
    /// The tag that ends the element whose content is not plain; `usize::MAX` when none does.
    until: Option<usize>,
}

impl Page<'_> {
    fn start(&mut self, text: &str, node: Node<'_>) {
        self.places.enter(node);
        let data = node.data();
        self.inside += usize::from(is_others(&data.value));
        match &data.value {
            NodeValue::Text(words) if self.inside == 0 && self.until.is_none() => {
                let (from, to) = self.places.of(node);
                let source = &text[from..to];
                if source == words || gfm::shows(source, words) == Some(source.len()) {
                    self.plain[from..to].fill(true);
                }
            }
            NodeValue::HtmlInline(html) => {
                self.html(html);
            }
            NodeValue::HtmlBlock(block) => {
                let plain = self.html(&block.literal);
                let lines = self.places.lines(data.sourcepos.start.line, &block.literal);
                let mut at = 0;
                for (from, to) in lines.unwrap_or_default() {
                    let length = to - from;
                    self.plain[from..to].copy_from_slice(&plain[at..at + length]);
                    at += length + 1;
                }
            }
            _ => {}
        }
    }

    /// For each byte of this HTML, whether it is plain.
    fn html(&mut self, html: &str) -> Vec<bool> {
        let mut plain = vec![false; html.len()];
        for piece in html::pieces(html) {
            match piece {
                Piece::Words(from, words) if self.inside == 0 && self.until.is_none() => {
                    plain[from..from + words.len()].fill(true);
                }
                Piece::Tag(tag) => self.tag(&tag),
                Piece::Open(_) => self.until = self.until.or(Some(usize::MAX)),
                Piece::Words(..) | Piece::Hidden(_) => {}
            }
        }
        plain
    }

    fn tag(&mut self, tag: &Tag<'_>) {
        let number = self.tags;
        self.tags += 1;
        if self.until == Some(number) {
            self.until = None;
        } else if self.until.is_none() && is_not_plain(tag) {
            // GitHub folds up to the end what is never closed, but then it was hardly meant so.
            let end = self.elements.get(&number).copied();
            self.until = if is_folded(tag) { end } else { Some(end.unwrap_or(usize::MAX)) };
        }
    }
}
