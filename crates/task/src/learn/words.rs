//! What somebody wrote themselves in a comment: without quotations of others, and without what nobody sees.

use comrak::Arena;
use comrak::nodes::NodeValue;

use crate::context::hidden;
use patchwright_base::gfm::{self, Places};
use patchwright_base::text;

/// Bytes of a comment that are read.
const MAX_RAW: usize = 32 << 10;

/// The writer's own words, at most `most` bytes of them; empty when there are none, or when the text cannot be read
/// as Markdown: what cannot be told from a quotation is taken for one.
pub(super) fn own(body: &str, most: usize) -> String {
    let clean = hidden::clean(hidden::head(body, MAX_RAW)).text;
    let own = gfm::apart_if_long(&clean, || without_quotations(&clean));
    text::head(own.trim(), most).trim().to_owned()
}

fn without_quotations(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', " ");
    let arena = Arena::new();
    let Some(root) = gfm::parse(&arena, &text) else { return String::new() };
    // Whole lines: what stands beside a quotation in its lines is its mark, or that of the list around it.
    let mut quoted = vec![false; text.lines().count() + 1];
    let mut places = Places::new(&text);
    let mut has_html_quotation = false;
    for node in root.descendants() {
        places.enter(node);
        let data = node.data();
        match &data.value {
            NodeValue::BlockQuote => {
                let place = data.sourcepos;
                for line in place.start.line..=place.end.line {
                    if let Some(line) = quoted.get_mut(line.saturating_sub(1)) {
                        *line = true;
                    }
                }
            }
            NodeValue::HtmlBlock(block) => has_html_quotation |= quotes(&block.literal),
            NodeValue::HtmlInline(html) => has_html_quotation |= quotes(html),
            _ => {}
        }
    }
    if has_html_quotation {
        return String::new();
    }
    // A line that looks quoted is, whatever the parser makes of it.
    let kept = text.lines().enumerate().filter(|(at, line)| {
        !quoted.get(*at).copied().unwrap_or_default() && !line.trim_start().starts_with('>')
    });
    kept.map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

fn quotes(html: &str) -> bool {
    let html = html.to_ascii_lowercase();
    html.contains("<blockquote") || html.contains("<q")
}

#[cfg(test)]
mod tests {
    use super::own;

    #[test]
    fn a_quotation_is_not_what_its_quoter_says() {
        for (body, words) in [
            ("Use tabs.", "Use tabs."),
            ("> Use spaces.\n\nNo.", "No."),
            ("> Use spaces.\nalways\n\nNo.", "No."),
            ("- > Use spaces.\n- No.", "- No."),
            ("<blockquote>Use spaces.</blockquote>\n\nNo.", ""),
            ("<!-- Use spaces. -->No.", "No."),
            ("```\n> Use spaces.\n```", "```\n```"),
            (">>> Use spaces.", ""),
            ("", ""),
        ] {
            assert_eq!(own(body, 200), words, "{body}");
        }
        assert!(own(&"x ".repeat(1000), 200).len() <= 200);
    }
}
