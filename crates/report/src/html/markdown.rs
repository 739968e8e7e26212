//! What a model wrote, drawn: headings, lists, tables, code and links. Nothing in it can act: HTML is shown as
//! text, pictures are links, and a link leads to the web or nowhere.
//!
//! [`crate::markdown`] makes Markdown of Markdown, for GitHub; this makes elements, for a page of our own.

use comrak::Arena;
use comrak::nodes::{ListType, Node, NodeLink, NodeTable, NodeValue};
use maud::{Markup, html};

use super::shown;
use patchwright_base::{gfm, text};

/// Blocks and marks inside each other; further in, only the words stay.
const MAX_DEPTH: usize = 24;

/// How much longer the elements may be than the text that asks for them. Text that needs more is shown as it is.
pub(super) const GROWTH: usize = 4;

/// The passage, of which `most` bytes are shown, as elements.
pub(super) fn passage(markdown: &str, most: usize) -> Markup {
    let words = shown::visible(markdown, most);
    let drawn = gfm::apart_if_long(&words, || {
        let arena = Arena::new();
        gfm::parse_for_report(&arena, &words).map(|root| blocks(root, 0))
    });
    let room = GROWTH * shown::weight(&words) + 200;
    html! {
        div class="prose" {
            @match drawn {
                Some(drawn) if drawn.0.len() <= room => (drawn),
                _ => pre { (words) },
            }
        }
    }
}

fn blocks(parent: Node<'_>, depth: usize) -> Markup {
    html! { @for node in parent.children() { (block(node, depth)) } }
}

fn block(node: Node<'_>, depth: usize) -> Markup {
    if depth >= MAX_DEPTH {
        return html! { p { (plain(node)) } };
    }
    let inside = |node| blocks(node, depth + 1);
    match &node.data().value {
        // A heading of the page itself would stand in its outline.
        NodeValue::Heading(_) => html! { p class="heading" { (inlines(node, depth)) } },
        NodeValue::CodeBlock(code) => html! { pre { code { (again(&code.literal)) } } },
        NodeValue::HtmlBlock(block) => html! { pre { (again(&block.literal)) } },
        NodeValue::ThematicBreak => html! { hr; },
        NodeValue::BlockQuote => html! { blockquote { (inside(node)) } },
        NodeValue::Alert(alert) => {
            let title = alert.title.as_deref().unwrap_or(alert.alert_type.default_title());
            html! { blockquote { p { strong { (again(title)) } } (inside(node)) } }
        }
        NodeValue::List(list) if list.list_type == ListType::Ordered => {
            html! { ol start=(list.start) { (inside(node)) } }
        }
        NodeValue::List(_) => html! { ul { (inside(node)) } },
        NodeValue::Item(_) => html! { li { (item(node, depth)) } },
        NodeValue::TaskItem(task) => {
            let mark = if task.symbol.is_some() { "☑ " } else { "☐ " };
            html! { li class="task" { (mark) (item(node, depth)) } }
        }
        NodeValue::Table(table) => drawn_table(node, table, depth),
        NodeValue::FootnoteDefinition(footnote) => {
            html! { p { "[" (again(&footnote.name)) "]" } (inside(node)) }
        }
        _ => html! { p { (inlines(node, depth)) } },
    }
}

/// What an item of a list says; a single paragraph stands without space around it.
fn item(node: Node<'_>, depth: usize) -> Markup {
    let is_tight = |child: &Node<'_>| {
        matches!(child.data().value, NodeValue::Paragraph)
            && node.children().filter(|it| matches!(it.data().value, NodeValue::Paragraph)).count()
                == 1
    };
    html! {
        @for child in node.children() {
            @if is_tight(&child) { (inlines(child, depth + 1)) } @else { (block(child, depth + 1)) }
        }
    }
}

fn drawn_table(node: Node<'_>, table: &NodeTable, depth: usize) -> Markup {
    let is_empty = |cell: &Node<'_>| cell.first_child().is_none();
    html! {
        table {
            @for (at, row) in node.children().enumerate() {
                @let cells: Vec<_> = row.children().take(table.alignments.len()).collect();
                // Cells that nobody wrote would make a table of many columns grow without bound.
                @let written = cells.iter().rposition(|cell| !is_empty(cell)).map_or(0, |at| at + 1);
                tr {
                    @for cell in &cells[..written] {
                        @if at == 0 { th scope="col" { (inlines(cell, depth)) } }
                        @else { td { (inlines(cell, depth)) } }
                    }
                }
            }
        }
    }
}

fn inlines(parent: Node<'_>, depth: usize) -> Markup {
    if depth >= MAX_DEPTH {
        return html! { (plain(parent)) };
    }
    html! { @for node in parent.children() { (inline(node, depth + 1)) } }
}

fn inline(node: Node<'_>, depth: usize) -> Markup {
    match &node.data().value {
        NodeValue::Text(words) => html! { (again(words)) },
        NodeValue::HtmlInline(words) => html! { (again(words)) },
        NodeValue::Code(code) => html! { code { (again(&code.literal)) } },
        NodeValue::Math(math) => html! { code { (again(&math.literal)) } },
        NodeValue::SoftBreak => html! { "\n" },
        NodeValue::LineBreak => html! { br; },
        NodeValue::Emph => html! { em { (inlines(node, depth)) } },
        NodeValue::Strong => html! { strong { (inlines(node, depth)) } },
        NodeValue::Strikethrough => html! { del { (inlines(node, depth)) } },
        NodeValue::FootnoteReference(footnote) => html! { "[" (again(&footnote.name)) "]" },
        NodeValue::Link(link) => linked(node, link, "", depth),
        NodeValue::Image(link) => linked(node, link, "picture: ", depth),
        _ => inlines(node, depth),
    }
}

/// A link, or a picture as one: it is never loaded.
fn linked(node: Node<'_>, link: &NodeLink, kind: &str, depth: usize) -> Markup {
    let is_nested = node
        .ancestors()
        .skip(1)
        .any(|above| matches!(above.data().value, NodeValue::Link(_) | NodeValue::Image(_)));
    // Without words nobody could see the link, or where it leads.
    let is_wordless = plain(node).trim().is_empty();
    let words = html! {
        (kind) @if is_wordless { (text::cut(&again(&link.url), 200)) } @else { (inlines(node, depth)) }
    };
    // A link cannot be in a link, and an address with such characters is not what it looks like.
    let is_odd = link.url.chars().any(|c| text::is_deceptive(c) || c.is_whitespace());
    let address = Some(link.url.as_str()).filter(|url| !is_nested && !is_odd && url.len() < 2_000);
    shown::link(address, &words)
}

/// Character references of Markdown may stand for what was cleaned away before it was parsed.
fn again(words: &str) -> String {
    text::visible(&text::without_ansi(words))
}

/// All words below a node.
fn plain(node: Node<'_>) -> String {
    let mut out = String::new();
    for leaf in node.descendants() {
        match &leaf.data().value {
            NodeValue::Text(words) => out.push_str(words),
            NodeValue::HtmlInline(words) => out.push_str(words),
            NodeValue::Code(code) => out.push_str(&code.literal),
            NodeValue::CodeBlock(code) => out.push_str(&code.literal),
            NodeValue::HtmlBlock(block) => out.push_str(&block.literal),
            NodeValue::Math(math) => out.push_str(&math.literal),
            NodeValue::SoftBreak | NodeValue::LineBreak => out.push(' '),
            _ => {}
        }
    }
    again(&out)
}
