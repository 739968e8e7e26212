//! Markdown that others wrote, on its way in: what is kept of it, `cmark-gfm` shows.

use patchwright_base::invisible::Cleaned;
use patchwright_task::context::hidden;

use super::cases::{HOSTILE, Numbers, PIECES};
use super::oracle;

/// Markup that the cases for the way out have not, or seldom.
const MORE: &[&str] = &[
    "](",
    "](<",
    ">)",
    " \"",
    "\")",
    "')",
    " (",
    "[",
    "][",
    "]: ",
    "\n[",
    "![",
    "[^",
    "]:\n",
    "| ",
    " | ",
    "\n| a | b |\n|---|---|\n| ",
    "\n- ",
    "\n  ",
    "\n> ",
    "\n\n    ",
    "\n```\n",
    "\n```rust ",
    "`",
    "**",
    "<b title=\"",
    "\">",
    "</b>",
    "<!-- ",
    " -->",
    "\n<div>\n",
    "\n</div>\n",
    "\\|",
    "\\",
    "&lt;",
    "&#65;",
    "\n===\n",
    "\n# ",
    "- [ ] ",
    "https://x.test/",
    "<https://x.test/",
    "\n",
    "\n\n",
    " ",
];

/// A case whose words are all different, `w1z`, `w2z` and so on.
fn mixed(numbers: &mut Numbers) -> String {
    let mut out = String::new();
    for at in 0..=numbers.below(16) {
        match numbers.below(8) {
            0 => out.push_str(PIECES[numbers.below(PIECES.len())]),
            1 if numbers.below(4) == 0 => out.push_str(HOSTILE[numbers.below(HOSTILE.len())]),
            _ => out.push_str(MORE[numbers.below(MORE.len())]),
        }
        if numbers.below(3) > 0 {
            out.push_str(&format!("w{at}z"));
        }
    }
    out
}

/// The words of [`mixed`] in a text.
fn words(text: &str) -> Vec<&str> {
    let word = |at: usize| {
        let digits = text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let end = at + 1 + digits;
        (digits > 0 && text[end..].starts_with('z')).then(|| &text[at..=end])
    };
    text.match_indices('w').filter_map(|(at, _)| word(at)).collect()
}

/// What a page shows: no comments, no tags, no attributes. Its second half are the addresses and the names
/// of languages, which are for the reader's browser.
fn shown(page: &str) -> (String, String) {
    let (mut text, mut behind) = (String::new(), String::new());
    let mut rest = page;
    while let Some(open) = rest.find('<') {
        text.push_str(&rest[..open]);
        rest = &rest[open..];
        let length = if rest.starts_with("<!--") {
            rest.find("-->").map(|end| end + 3)
        } else if rest[1..].starts_with(['!', '?']) {
            rest.find('>').map(|end| end + 1)
        } else if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') {
            tag_end(rest)
        } else {
            text.push('<');
            Some(1)
        };
        let length = length.unwrap_or(rest.len());
        for attribute in ["href=\"", "src=\"", "class=\"language-"] {
            for (at, _) in rest[..length].match_indices(attribute) {
                let value = &rest[at + attribute.len()..length];
                behind.push_str(value.split('"').next().unwrap_or_default());
                behind.push(' ');
            }
        }
        rest = &rest[length..];
    }
    text.push_str(rest);
    (text, behind)
}

fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') if tag[..at].trim_end().ends_with('=') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// Names of elements, and labels of links and footnotes, that are kept and nobody sees: short, without
/// blanks.
fn is_label(text: &str, word: &str) -> bool {
    text.match_indices(word).all(|(at, _)| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if text[..at].trim_end_matches(is_name).trim_end_matches('/').ends_with('<') {
            return true;
        }
        let Some((before, label)) = text[..at].rsplit_once('[') else { return false };
        let Some((rest, after)) = text[at..].split_once(']') else { return false };
        let is_short = label.len() + rest.len() <= 41 && !format!("{label}{rest}").contains(' ');
        is_short && (before.ends_with(']') || label.starts_with('^') || after.starts_with(':'))
    })
}

/// Why more than what is hidden may be gone: in doubt text is left out.
fn is_in_doubt(text: &str, cleaned: &Cleaned) -> bool {
    // `cmark-gfm` reads what is like a footnote in its own way.
    if text.contains("[^") {
        return true;
    }
    let kinds = [
        "hidden element",
        "invisible formula",
        "drawing",
        "HTML comment",
        "unclosed HTML comment",
        "unfinished tag",
        "odd element",
        "unused footnote",
        "HTML attribute",
        "markup declaration",
        "unreadable text",
    ];
    kinds.iter().any(|kind| cleaned.removed.contains_key(kind))
}

/// What is wrong with the cleaning of a text.
fn wrong(text: &str) -> Option<String> {
    let cleaned = hidden::clean(text);
    // Footnotes stand at the end of a page, where a comment that is never closed takes them along.
    let is_open = |kind: &str| cleaned.removed.contains_key(kind);
    if text.contains("[^") && (is_open("unclosed HTML comment") || is_open("unfinished tag")) {
        return None;
    }
    let page = oracle::page(text);
    let (shown, behind) = shown(&page);
    let (shown, behind) = (words(&shown), words(&behind));
    let kept = words(&cleaned.text);
    let what = if let Some(word) = kept.iter().find(|word| {
        !shown.contains(word) && !behind.contains(word) && !is_label(&cleaned.text, word)
    }) {
        format!("{word} is kept, and nobody sees it")
    } else if let Some(word) =
        shown.iter().find(|word| !kept.contains(word) && !is_in_doubt(text, &cleaned))
    {
        format!("{word} is seen, and was left out")
    } else {
        return None;
    };
    Some(format!("{what}\nfrom {text:?}\nkept {:?} {:?}\nof {page}", cleaned.text, cleaned.removed))
}

#[test]
fn what_is_kept_of_a_mix_of_markdown_is_seen_on_github() {
    let mut numbers = Numbers::new(7);
    let found: Vec<String> = (0..1500).filter_map(|_| wrong(&mixed(&mut numbers))).collect();
    let first = found.iter().take(5).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(found.is_empty(), "{} of 1500:\n{first}", found.len());
}

#[test]
fn the_judge_of_what_is_kept_sees_each_of_these() {
    for (page, seen, behind) in [
        ("<p>w1z <!-- w2z --> <b title=\"w3z\">w4z</b></p>", "w1z w4z", ""),
        ("<a href=\"w1z\" title=\"w2z\">w3z</a> <img src=\"w4z\" alt=\"w5z\">", "w3z", "w1z w4z"),
        ("<pre><code class=\"language-w1z\">w2z</code></pre>", "w2z", "w1z"),
        ("w1z <!-- w2z", "w1z", ""),
        ("w1z <b c='>w2z", "w1z", ""),
    ] {
        let (text, attributes) = shown(page);
        assert_eq!(
            (words(&text).join(" "), words(&attributes).join(" ")),
            (seen.into(), behind.into())
        );
    }
    assert!(is_label("[a][w1z]\n\n[w1z]: b", "w1z") && !is_label("[w1z]", "w1z"));
}
