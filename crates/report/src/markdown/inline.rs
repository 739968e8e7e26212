//! What stands in a paragraph or a cell of a passage, written again from the tree.

use comrak::nodes::{Node, NodeLink, NodeValue};

use super::escape::{self, APART, TextContainer, TextPosition};
use patchwright_base::text;

/// Formatting inside formatting inside …: further in, only the words stay.
const MAX_DEPTH: usize = 16;

/// Longest address that is shown when it may not be a link.
const MAX_SHOWN: usize = 200;

/// The children of a block. Lines end as in the source; in a cell there is one line.
pub(super) fn render(block: Node<'_>, place: TextPosition) -> String {
    let around = Formatting::default();
    written(block, place, around)
}

/// [`render`] in bold, for the text of a heading.
pub(super) fn bold(block: Node<'_>, place: TextPosition) -> String {
    let around = Formatting { strong: Active::Yes, ..Formatting::default() };
    match written(block, place, around) {
        words if words.is_empty() => words,
        words => format!("**{words}**"),
    }
}

fn written(block: Node<'_>, place: TextPosition, around: Formatting) -> String {
    let mut writer = Writer { out: String::new(), place, closed: None };
    for child in block.children() {
        writer.node(child, around);
    }
    // A blank line would end the paragraph, and what follows could become a block of its own.
    let lines: Vec<&str> = writer.out.lines().filter(|line| !line.trim().is_empty()).collect();
    let words = lines.join("\n");
    words.trim_end().to_owned()
}

/// Whether a formatting is in force already; it is not repeated inside itself.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Active {
    #[default]
    No,
    Yes,
}

/// The formatting around a node.
#[derive(Clone, Copy, Default)]
struct Formatting {
    emphasis: Active,
    strong: Active,
    strike: Active,
    link: Active,
    /// The words are the link's own address.
    address: Active,
    depth: usize,
}

struct Writer {
    out: String,
    place: TextPosition,
    /// Where a closing mark or code span ended: the next one must not run into it.
    closed: Option<usize>,
}

impl Writer {
    fn node(&mut self, node: Node<'_>, around: Formatting) {
        let deeper = Formatting { depth: around.depth + 1, ..around };
        if around.depth >= MAX_DEPTH && node.first_child().is_some() {
            return self.words_of(node, around);
        }
        match &node.data().value {
            NodeValue::Text(words) => self.words(words, around),
            // HTML is shown as text: GitHub would render it.
            NodeValue::HtmlInline(html) => self.words(html, around),
            NodeValue::FootnoteReference(footnote) => {
                self.words(&format!("[^{}]", footnote.name), around);
            }
            NodeValue::Code(code) => self.code(&code.literal),
            NodeValue::Math(math) => {
                let mark = if math.display_math { "$$" } else { "$" };
                // As code, because GitHub renders formulas, which can hide their source.
                self.code(&format!("{mark}{}{mark}", math.literal));
            }
            NodeValue::SoftBreak => self.line_end(""),
            NodeValue::LineBreak => self.line_end("  "),
            NodeValue::Emph if around.emphasis == Active::No => {
                self.marked("*", node, Formatting { emphasis: Active::Yes, ..deeper });
            }
            NodeValue::Strong if around.strong == Active::No => {
                self.marked("**", node, Formatting { strong: Active::Yes, ..deeper });
            }
            NodeValue::Strikethrough if around.strike == Active::No => {
                self.marked("~~", node, Formatting { strike: Active::Yes, ..deeper });
            }
            NodeValue::Link(link) => self.link(node, link, "", deeper),
            NodeValue::Image(link) => self.link(node, link, "image: ", deeper),
            _ => node.children().for_each(|child| self.node(child, deeper)),
        }
    }

    fn words(&mut self, words: &str, around: Formatting) {
        let within = match (around.link, around.address) {
            (_, Active::Yes) => TextContainer::Address,
            (Active::Yes, Active::No) => TextContainer::Label,
            (Active::No, Active::No) => TextContainer::Prose,
        };
        escape::push_escaped(words, self.place, within, &mut self.out);
    }

    /// All texts below a node, without formatting.
    fn words_of(&mut self, node: Node<'_>, around: Formatting) {
        for leaf in node.descendants() {
            match &leaf.data().value {
                NodeValue::Text(words) => self.words(words, around),
                NodeValue::HtmlInline(html) => self.words(html, around),
                NodeValue::Code(code) => self.words(&code.literal, around),
                NodeValue::Math(math) => self.words(&math.literal, around),
                NodeValue::SoftBreak | NodeValue::LineBreak => self.line_end(""),
                _ => {}
            }
        }
    }

    fn code(&mut self, literal: &str) {
        // Two code spans or marks in a row would be parsed as one longer delimiter.
        self.keep_apart();
        escape::code_span(literal, self.place, &mut self.out);
        self.closed = Some(self.out.len());
    }

    fn keep_apart(&mut self) {
        if self.closed == Some(self.out.len()) {
            self.out.push_str(APART);
        }
    }

    fn line_end(&mut self, mark: &str) {
        let kept = self.out.trim_end_matches(' ').len();
        self.out.truncate(kept);
        match self.place {
            TextPosition::Cell => self.out.push(' '),
            TextPosition::Block if self.out.is_empty() || self.out.ends_with('\n') => {}
            TextPosition::Block => self.out.extend([mark, "\n"]),
        }
    }

    /// The children between two marks. Blanks at the edges stand outside, where marks need them.
    fn marked(&mut self, mark: &str, node: Node<'_>, around: Formatting) {
        self.keep_apart();
        let start = self.out.len();
        self.out.push_str(mark);
        let inside = self.out.len();
        node.children().for_each(|child| self.node(child, around));
        let content = self.out.split_off(inside);
        // CommonMark reads `* word*` as a star: a delimiter must touch the text inside.
        let words = content.trim();
        if words.is_empty() {
            self.out.truncate(start);
            return;
        }
        if content.starts_with([' ', '\n']) && start > 0 {
            self.out.insert(start, ' ');
        }
        self.out.push_str(words);
        self.out.push_str(mark);
        self.closed = Some(self.out.len());
        if content.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
    }

    /// A link, or a picture as one. A target that must not be a link stands beside the words, as code.
    fn link(&mut self, node: Node<'_>, link: &NodeLink, kind: &str, around: Formatting) {
        if around.link == Active::Yes {
            let before = self.out.len();
            node.children().for_each(|child| self.node(child, around));
            if self.out.len() == before {
                self.words(kind.trim_end_matches([':', ' ']), around);
            }
            return;
        }
        let shown = plain_words(node);
        let address = shown.strip_prefix("image: ").unwrap_or(&shown);
        let is_address = escape::is_same(address, &link.url) && kind.is_empty();
        if !escape::is_harmless(&link.url) {
            return self.unlinked(node, link, &shown, around);
        }
        if shown == link.url
            && kind.is_empty()
            && escape::is_plain(&link.url)
            && self.stands_alone(node)
        {
            self.out.push_str(&link.url);
            return;
        }
        // `!` before `[` would turn the link into a picture, which loads something.
        if self.out.ends_with('!') {
            self.out.insert(self.out.len() - 1, '\\');
        }
        self.out.push('[');
        let label = self.out.len();
        let address = if is_address { Active::Yes } else { Active::No };
        let inside = Formatting { link: Active::Yes, address, ..around };
        self.words(kind, inside);
        node.children().for_each(|child| self.node(child, inside));
        // A link without visible text could not be seen, so its address becomes the label.
        let is_empty = self.out[label..].trim_end_matches([' ', ':']).len() <= kind.len();
        if is_empty && shown.trim().is_empty() {
            self.out.truncate(label);
            let address = Formatting { address: Active::Yes, ..inside };
            self.words(&format!("{kind}{}", link.url), address);
        }
        self.out.extend(["](", &escape::target(&link.url), ")"]);
    }

    fn unlinked(&mut self, node: Node<'_>, link: &NodeLink, shown: &str, around: Formatting) {
        let bare = link.url.strip_prefix("mailto:").unwrap_or(&link.url);
        if bare != shown || bare != link.url {
            node.children().for_each(|child| self.node(child, around));
        }
        if bare == shown && bare != link.url {
            return;
        }
        let url = text::visible(&text::cut(&link.url, MAX_SHOWN)).replace(['\n', '\t'], " ");
        if shown == link.url || shown.trim().is_empty() {
            return self.code(&url);
        }
        self.out.push_str(" (");
        self.code(&url);
        self.out.push(')');
    }

    /// Nothing touches the link that GitHub would take for a part of it.
    fn stands_alone(&self, node: Node<'_>) -> bool {
        let before = self.out.chars().next_back();
        let ends = |next: Node<'_>| {
            matches!(next.data().value, NodeValue::SoftBreak | NodeValue::LineBreak)
        };
        let follows = node.next_sibling().is_none_or(|next| match &next.data().value {
            NodeValue::Text(words) => match words.trim_start_matches(['.', ',']) {
                "" => next.next_sibling().is_none_or(ends),
                rest => rest.starts_with(' '),
            },
            _ => ends(next),
        });
        let is_last = node.parent().is_some_and(|parent| parent.data().value.block());
        before.is_none_or(|c| matches!(c, ' ' | '\n')) && follows && is_last
    }
}

/// The words of a link as they read.
pub(super) fn plain_words(node: Node<'_>) -> String {
    let mut out = String::new();
    for leaf in node.descendants() {
        match &leaf.data().value {
            NodeValue::Text(words) => out.push_str(words),
            NodeValue::Code(code) => out.push_str(&code.literal),
            NodeValue::Math(math) => out.push_str(&math.literal),
            NodeValue::HtmlInline(html) => out.push_str(html),
            NodeValue::SoftBreak | NodeValue::LineBreak => out.push(' '),
            _ => {}
        }
    }
    out.replace('\u{200b}', "")
}
