//! Links taken out of a passage whose writer is a stranger: their words stay, and where they lead stands beside them
//! as code. Called before the passage is written again.

use comrak::Arena;
use comrak::nodes::{Node, NodeCode, NodeValue};

use super::inline::plain_words;
use patchwright_base::text;

/// Longest address that is shown.
const MAX_SHOWN: usize = 200;

/// No link and no picture is left below `root`.
pub(super) fn unlink<'a>(arena: &'a Arena<'a>, root: Node<'a>) {
    let is_link = |node: &Node<'a>| {
        matches!(
            node.data().value,
            NodeValue::Link(_) | NodeValue::Image(_) | NodeValue::WikiLink(_)
        )
    };
    let mut links: Vec<Node<'a>> = root.descendants().filter(is_link).collect();
    // A picture may stand in a link, and is dealt with first.
    links.reverse();
    for node in links {
        let url = match &node.data().value {
            NodeValue::Link(link) | NodeValue::Image(link) => link.url.clone(),
            NodeValue::WikiLink(link) => link.url.clone(),
            _ => continue,
        };
        let shown = plain_words(node);
        let bare = url.strip_prefix("mailto:").unwrap_or(&url);
        let is_address = shown.trim().is_empty() || shown == url || shown == bare;
        let add = |value: NodeValue| {
            let new = arena.alloc(value.into());
            node.insert_before(new);
        };
        if !is_address {
            let words: Vec<Node<'a>> = node.children().collect();
            for child in words {
                node.insert_before(child);
            }
            add(NodeValue::Text(" (".into()));
        }
        add(NodeValue::Code(code(bare)));
        if !is_address {
            add(NodeValue::Text(")".into()));
        }
        node.detach();
    }
}

fn code(url: &str) -> NodeCode {
    let literal = text::visible(&text::cut(url, MAX_SHOWN)).replace(['\n', '\t'], " ");
    NodeCode { num_backticks: 1, literal }
}
