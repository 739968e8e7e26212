//! A passage that somebody else wrote in Markdown, fit to stand in a report of ours: its lists,
//! emphasis, tables, code and links stay; what would act on people, issues or browsers does not.
//!
//! The passage is parsed as GitHub parses it, and written again from the tree ([`write`] has the
//! blocks, [`inline`] what stands in them, [`escape`] their characters). So GitHub reads what we
//! read. What comes out is parsed once more: when anything in it acts after all, the whole passage
//! becomes a code block.
//!
//! Where the writer is a stranger, [`unlink`] leaves no links.
//!
//! HTML becomes text, pictures become links, mentions and references notify nobody, headings are
//! bold lines (a passage cannot imitate our sections), diagrams and formulas are code, footnotes
//! are text, and what our own markers look like is broken, also in code.

mod escape;
mod inline;
mod unlink;
mod write;

use comrak::Arena;
use comrak::nodes::{Node, NodeValue};

use patchwright_base::gfm;
use patchwright_base::text;

/// The passage, safe in a report, at most `most` bytes (when `most` is at least 200). Its last line ends.
pub fn passage(markdown: &str, most: usize) -> String {
    gfm::apart_if_long(markdown, || bounded(markdown, most, Links::Kept))
}

/// Whether a reader can follow a passage's links.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Kept,
    /// Where they lead stands there as code.
    Shown,
}

fn bounded(markdown: &str, most: usize, links: Links) -> String {
    let markdown = &escape::without_inert(markdown);
    let mut room = most;
    // Escaping makes text longer, so more has to be cut than is too much.
    for _ in 0..6 {
        let words = text::visible(&text::without_ansi(&text::head(markdown, room)));
        let out = written(&words, links).unwrap_or_else(|| as_code(&words));
        if out.len() <= most {
            return out;
        }
        room = (room / 2).min(room.saturating_mul(most) / out.len());
    }
    as_code(&text::visible(&text::without_ansi(&text::head(markdown, most / 16))))
}

/// A passage that has to stay on one line, such as an item of a list.
pub fn line(markdown: &str, most: usize) -> String {
    one_line(markdown, most, Links::Kept)
}

/// A [`line`] in which nothing can be clicked: for words that a stranger may have chosen.
pub fn line_without_links(markdown: &str, most: usize) -> String {
    one_line(markdown, most, Links::Shown)
}

fn one_line(markdown: &str, most: usize, links: Links) -> String {
    let line = text::line(markdown);
    let passage = gfm::apart_if_long(&line, || bounded(&line, most, links));
    match passage.trim() {
        one if one.contains('\n') => text::inline(markdown),
        one => one.to_owned(),
    }
}

/// `None` when it would act, or takes too long to parse.
fn written(markdown: &str, links: Links) -> Option<String> {
    let arena = Arena::new();
    let root = gfm::parse_for_report(&arena, markdown)?;
    if links == Links::Shown {
        unlink::unlink(&arena, root);
    }
    let out = write::document(root);
    let arena = Arena::new();
    let again = gfm::parse_for_report(&arena, &out)?;
    let leads = |node: Node<'_>| matches!(node.data().value, NodeValue::Link(_));
    let leads_away = links == Links::Shown && again.descendants().any(leads);
    (!acts(again) && !leads_away && escape::inert(&out) == out).then_some(out)
}

fn as_code(words: &str) -> String {
    escape::inert(&text::fence(words, ""))
}

/// Something in a passage of ours would do what [`write`] is there to prevent.
fn acts(root: Node<'_>) -> bool {
    root.descendants().any(|node| match &node.data().value {
        NodeValue::Image(_)
        | NodeValue::HtmlBlock(_)
        | NodeValue::HtmlInline(_)
        | NodeValue::Heading(_)
        | NodeValue::FootnoteDefinition(_)
        | NodeValue::FootnoteReference(_)
        | NodeValue::Alert(_)
        | NodeValue::Math(_) => true,
        NodeValue::Link(link) => !escape::is_harmless(&link.url) || !link.title.is_empty(),
        NodeValue::CodeBlock(block) => write::label(&block.info) != block.info,
        NodeValue::Text(words) => escape::notifies(words),
        _ => false,
    })
}
