//! Links, pictures and definitions: words stay, and addresses without room for words.

use comrak::nodes::{Node, NodeLink, NodeValue};

use super::{Page, is_mark};
use patchwright_base::gfm::tags;

impl Page<'_> {
    /// Definitions at the beginning of a paragraph that GitHub's parser takes for definitions, and ours for
    /// words: behind the box of a task, and with a target in which a parenthesis stays open.
    pub(super) fn lax_definitions(&mut self, node: Node<'_>, from: usize, to: usize) {
        let task = node.parent().filter(|it| matches!(it.data().value, NodeValue::TaskItem(_)));
        let is_task = task.is_some() && node.previous_sibling().is_none();
        let mut at = from;
        while let Some(rest) = self.text.get(at..to)
            && let Some((_, target, length)) = definition(rest)
            && (is_task || target.matches('(').count() > target.matches(')').count())
        {
            let Some(end) = definition_end(&rest[length..]) else { break };
            self.count("unused link definition");
            self.cut = at + length + end;
            at = self.cut + 1;
        }
    }

    /// Behind the words of a link: its target.
    pub(super) fn link_end(
        &mut self,
        node: Node<'_>,
        from: Option<usize>,
        to: usize,
        link: &NodeLink,
    ) {
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
    pub(super) fn image(&mut self, node: Node<'_>, from: usize, to: usize, link: &NodeLink) {
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
    pub(super) fn target(&mut self, link: &NodeLink) -> String {
        let is_plain = !link.url.contains(['<', '>', '(', ')', '\\', '&']);
        if link.url.is_empty() || is_plain {
            return self.address(&link.url).to_owned();
        }
        self.count("link address");
        "link".to_owned()
    }

    /// A link's address, when it is no place to hide words in.
    pub(super) fn address<'t>(&mut self, target: &'t str) -> &'t str {
        if tags::is_address(target) {
            return target;
        }
        self.count("link address");
        "link"
    }
}

/// Label, target and length of a link's definition, as far as its target; a title may follow.
pub(super) fn definition(rest: &str) -> Option<(&str, &str, usize)> {
    let head = &rest[..rest.floor_char_boundary(1002)];
    let (label, _) = head.strip_prefix('[')?.split_once("]:")?;
    let behind = &rest[label.len() + 3..];
    if label.is_empty() || label.contains(['[', ']']) {
        return None;
    }
    let (target, length) = tags::destination(behind)?;
    Some((label, target, rest.len() - behind.len() + length))
}

/// Where a definition ends behind its target: with a title, or with the line.
fn definition_end(rest: &str) -> Option<usize> {
    let line_end = |from: usize| rest[from..].find('\n').map_or(rest.len(), |at| from + at);
    let title = rest.trim_start();
    let start = rest.len() - title.len();
    if let Some((_, length)) = tags::quoted(title) {
        let end = line_end(start + length);
        if rest[start + length..end].trim().is_empty() {
            return Some(end);
        }
    }
    rest[..line_end(0)].trim().is_empty().then(|| line_end(0))
}

/// A label as labels are compared.
pub(super) fn compared(label: &str) -> String {
    label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
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
