//! The blocks of a passage, written again from the tree. A block is its lines; what contains it puts
//! its own marks before them, so what a line means never depends on the source's indentation.

use comrak::nodes::{ListType, Node, NodeList, NodeTable, NodeValue, TableAlignment};

use super::escape::{self, TextContainer, TextPosition};
use super::inline;
use patchwright_base::text;

/// Quotes and lists inside each other: further in, everything stands on one level.
const MAX_DEPTH: usize = 12;

/// Fences whose content GitHub draws or applies instead of showing it.
const DRAWN: &[&str] = &["math", "mermaid", "geojson", "topojson", "stl", "suggestion"];

/// The whole passage. Its last line ends.
pub(super) fn document(root: Node<'_>) -> String {
    let mut out = blocks(root, Spacing::Loose, 0).join("\n");
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// The language of a code block, when GitHub shows its code: one word.
pub(super) fn label(info: &str) -> String {
    let is_word = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#');
    let word: String = info.trim().chars().take_while(is_word).take(20).collect();
    if DRAWN.contains(&word.to_ascii_lowercase().as_str()) { String::new() } else { word }
}

/// Whether blank lines stand between the blocks of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spacing {
    Tight,
    Loose,
}

/// What a block is, as far as its neighbours have to know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Words,
    Code,
    Quote,
    /// A list that may follow words without a blank line.
    Follower,
    List,
    Other,
}

fn blocks(parent: Node<'_>, spacing: Spacing, depth: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut before: Option<(Shape, usize)> = None;
    // Two lists in a row with the same mark would be parsed as one.
    let mut lists = 0usize;
    for (node, is_flat) in children(parent, depth) {
        let Some((shape, lines)) = block(node, if is_flat { MAX_DEPTH } else { depth }, lists)
        else {
            continue;
        };
        let is_list = matches!(shape, Shape::List | Shape::Follower);
        lists = if is_list { lists + 1 } else { 0 };
        let position = node.data().sourcepos;
        let close = before.is_some_and(|(before, end)| {
            let may_follow = match (before, shape) {
                (Shape::Words, Shape::Code | Shape::Quote | Shape::Follower) => true,
                (before, _) => before == Shape::Code,
            };
            may_follow && (spacing == Spacing::Tight || position.start.line <= end + 1)
        });
        if before.is_some() && !close {
            out.push(String::new());
        }
        out.extend(lines);
        before = Some((shape, position.end.line));
    }
    out
}

/// The blocks in a block; too far in, all that have words, side by side.
fn children(parent: Node<'_>, depth: usize) -> Vec<(Node<'_>, bool)> {
    if depth < MAX_DEPTH {
        return parent.children().map(|child| (child, false)).collect();
    }
    let has_words = |node: &Node<'_>| {
        matches!(
            node.data().value,
            NodeValue::Paragraph
                | NodeValue::Heading(_)
                | NodeValue::CodeBlock(_)
                | NodeValue::HtmlBlock(_)
                | NodeValue::ThematicBreak
                | NodeValue::Table(_)
        )
    };
    parent.descendants().filter(has_words).map(|node| (node, true)).collect()
}

/// `None` when nothing of it is left.
fn block(node: Node<'_>, depth: usize, lists: usize) -> Option<(Shape, Vec<String>)> {
    let (shape, lines) = match &node.data().value {
        NodeValue::Heading(_) => (Shape::Words, lines_of(&inline::bold(node, TextPosition::Block))),
        NodeValue::CodeBlock(code) => {
            let fenced = text::fence(&code.literal, &label(&code.info));
            (Shape::Code, lines_of(&escape::inert(&fenced)))
        }
        NodeValue::HtmlBlock(html) => (Shape::Words, html_as_words(&html.literal)),
        // Dashes or stars could be parsed as the mark of a list.
        NodeValue::ThematicBreak => (Shape::Other, vec!["___".to_owned()]),
        NodeValue::BlockQuote => (Shape::Quote, quoted(blocks(node, Spacing::Loose, depth + 1))),
        NodeValue::Alert(alert) => {
            let mut title = String::new();
            let words = alert.title.as_deref().unwrap_or(alert.alert_type.default_title());
            escape::push_escaped(words, TextPosition::Block, TextContainer::Prose, &mut title);
            let mut lines = vec![format!("**{}**", title.trim())];
            let inside = blocks(node, Spacing::Loose, depth + 1);
            if !inside.is_empty() {
                lines.push(String::new());
                lines.extend(inside);
            }
            (Shape::Quote, quoted(lines))
        }
        NodeValue::List(list) => return listed(node, list, depth, lists),
        NodeValue::Table(table) => (Shape::Other, tabled(node, table)),
        NodeValue::FootnoteDefinition(footnote) => {
            let mut first = String::new();
            let label = format!("[^{}]:", footnote.name);
            escape::push_escaped(&label, TextPosition::Block, TextContainer::Prose, &mut first);
            let mut lines = vec![first, String::new()];
            lines.extend(blocks(node, Spacing::Loose, depth + 1));
            (Shape::Words, lines)
        }
        _ => (Shape::Words, lines_of(&inline::render(node, TextPosition::Block))),
    };
    (!lines.is_empty()).then_some((shape, lines))
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// A block of HTML as people would have typed it to be read.
fn html_as_words(html: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in html.lines() {
        let mut out = String::new();
        escape::push_escaped(line.trim(), TextPosition::Block, TextContainer::Prose, &mut out);
        if !out.is_empty() || lines.last().is_some_and(|last| !last.is_empty()) {
            lines.push(out);
        }
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn quoted(lines: Vec<String>) -> Vec<String> {
    let marked = |line: String| if line.is_empty() { ">".to_owned() } else { format!("> {line}") };
    lines.into_iter().map(marked).collect()
}

fn listed(
    node: Node<'_>,
    list: &NodeList,
    depth: usize,
    lists: usize,
) -> Option<(Shape, Vec<String>)> {
    let spacing = if list.tight { Spacing::Tight } else { Spacing::Loose };
    let mut out: Vec<String> = Vec::new();
    // CommonMark allows nine digits.
    let start = list.start.min(100_000_000);
    let mut number = start;
    for item in node.children() {
        let mut lines = blocks(item, spacing, depth + 1);
        let mark = match (list.list_type, lists % 2) {
            (ListType::Bullet, 0) => "- ".to_owned(),
            (ListType::Bullet, _) => "* ".to_owned(),
            (ListType::Ordered, 0) => format!("{number}. "),
            (ListType::Ordered, _) => format!("{number}) "),
        };
        let inside = " ".repeat(mark.len());
        // GitHub shows a check box only in front of a paragraph.
        if let NodeValue::TaskItem(task) = &item.data().value {
            let ticked = if task.symbol.is_some() { "[x]" } else { "[ ]" };
            let is_words = item
                .first_child()
                .is_some_and(|first| matches!(first.data().value, NodeValue::Paragraph));
            match lines.first_mut() {
                Some(first) if is_words => *first = format!("{ticked} {first}"),
                _ => continue,
            }
        }
        if lines.is_empty() {
            continue;
        }
        if spacing == Spacing::Loose && !out.is_empty() {
            out.push(String::new());
        }
        for (at, line) in lines.into_iter().enumerate() {
            let before = if at == 0 { mark.as_str() } else { inside.as_str() };
            out.push(if line.is_empty() { line } else { format!("{before}{line}") });
        }
        number += 1;
    }
    // An ordered list interrupts a paragraph only if it begins with 1 (CommonMark 5.3).
    let follows = list.list_type == ListType::Bullet || start == 1;
    let shape = if follows { Shape::Follower } else { Shape::List };
    (!out.is_empty()).then_some((shape, out))
}

fn tabled(node: Node<'_>, table: &NodeTable) -> Vec<String> {
    let mut rows = node.children();
    let Some(header) = rows.next() else { return Vec::new() };
    let mut head: Vec<String> =
        header.children().map(|cell| inline::render(cell, TextPosition::Cell)).collect();
    head.resize(table.alignments.len(), String::new());
    let marks = table.alignments.iter().map(|alignment| {
        match alignment {
            TableAlignment::None => "---",
            TableAlignment::Left => ":--",
            TableAlignment::Center => ":-:",
            TableAlignment::Right => "--:",
        }
        .to_owned()
    });
    let mut out = vec![row(&head), row(&marks.collect::<Vec<_>>())];
    for cells in rows {
        let mut cells: Vec<String> =
            cells.children().map(|cell| inline::render(cell, TextPosition::Cell)).collect();
        // GitHub fills missing cells. Writing them out would let a table of many columns grow
        // without bound.
        while cells.len() > 1 && cells.last().is_some_and(String::is_empty) {
            cells.pop();
        }
        out.push(row(&cells));
    }
    out
}

fn row(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}
