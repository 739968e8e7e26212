//! Characters of a passage: what Markdown or GitHub would act on is escaped, whole, so that the
//! serialiser need not know what stands around a text. Also which links may stay.

use std::fmt::Write as _;

use patchwright_base::text;

/// Keeps `@name`, `#1` and the like apart. Shown as nothing.
pub(super) const APART: &str = "&#8203;";

/// Where a text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TextPosition {
    Block,
    Cell,
}

/// What a text is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TextContainer {
    Prose,
    /// Between the brackets of a link.
    Label,
    /// Between the brackets of a link, and the link's own address.
    Address,
}

/// Appends `words` so that they read as they are, wherever the line in `out` stands.
pub(super) fn push_escaped(
    words: &str,
    place: TextPosition,
    within: TextContainer,
    out: &mut String,
) {
    let mut chars = words.chars().filter(|c| *c != '\u{200b}').peekable();
    // `@` in one element and a name in the next must not form a mention once the elements are
    // joined.
    let meets = chars.peek().is_some_and(|first| match out.chars().next_back() {
        Some('@') => can_be_called(*first),
        Some('#') => first.is_ascii_digit(),
        Some('-') => first.is_ascii_digit() && ends_with_word(&out[..out.len() - 1], "gh"),
        Some(':') => *first == '/',
        _ => false,
    });
    if meets {
        out.push_str(APART);
    }
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        let starts = out.is_empty() || out.ends_with('\n');
        let before = out.chars().next_back().unwrap_or('\n');
        let is_before_digit = next.is_some_and(|c| c.is_ascii_digit());
        match c {
            ' ' | '\t' | '\n' | '\r' if starts => {}
            '\t' | '\n' | '\r' => out.push(' '),
            c if text::is_deceptive(c) => {
                out.extend(c.escape_unicode());
            }
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' if next.is_some_and(|c| c.is_alphanumeric() || c == ' ') => out.push(c),
            '\\' | '`' | '*' | '[' | '~' | '$' => escaped(c, out),
            ']' | '^' if within != TextContainer::Prose => escaped(c, out),
            ']' if matches!(next, Some('(' | '[' | ':')) => escaped(c, out),
            '|' if starts || place == TextPosition::Cell => escaped(c, out),
            // Inside a word GitHub does not read `_` as emphasis, so `snake_case` stays readable.
            '_' if !before.is_alphanumeric() || !next.is_some_and(char::is_alphanumeric) => {
                escaped(c, out);
            }
            '@' if next.is_some_and(can_be_called) => out.extend(["@", APART]),
            '#' => {
                out.push_str(if starts { "\\#" } else { "#" });
                if is_before_digit {
                    out.push_str(APART);
                }
            }
            // GitHub links `GH-12` to issue 12.
            '-' if is_before_digit && ends_with_word(out, "gh") => out.extend([APART, "-"]),
            '+' | '-' | '=' | ':' if starts => escaped(c, out),
            ':' if next == Some('/') && within != TextContainer::Address => {
                out.extend([APART, ":"]);
            }
            // GitHub links bare `www.` addresses.
            '.' if ends_with_word(out, "www") && within != TextContainer::Address => {
                out.extend([APART, "."]);
            }
            '.' | ')' if is_list_number(out) => escaped(c, out),
            c => out.push(c),
        }
    }
}

fn escaped(c: char, out: &mut String) {
    out.extend(['\\', c]);
}

fn ends_with_word(text: &str, word: &str) -> bool {
    let Some(start) = text.len().checked_sub(word.len()) else { return false };
    text.is_char_boundary(start) && text[start..].eq_ignore_ascii_case(word)
}

/// The line in `out` has digits and nothing else, as many as a list may have.
fn is_list_number(out: &str) -> bool {
    let digits = out.bytes().rev().take(10).take_while(u8::is_ascii_digit).count();
    (1..=9).contains(&digits)
        && matches!(out.as_bytes().iter().rev().nth(digits), None | Some(b'\n'))
}

/// A code span. Its fence is longer than any run of backticks inside.
pub(super) fn code_span(literal: &str, place: TextPosition, out: &mut String) {
    let mut literal = inert(&literal.replace('\n', " "));
    if place == TextPosition::Cell {
        // GitHub splits cells before it reads code spans, so `\|` ends the cell even in code.
        literal = literal.replace("\\|", "\\\u{200b}|").replace('|', "\\|");
    }
    if literal.is_empty() {
        return;
    }
    let fence = "`".repeat(text::longest_run(&literal, '`') + 1);
    let is_blank = literal.trim_matches(' ').is_empty();
    let ends = |c: char| literal.starts_with(c) || literal.ends_with(c);
    let pad = if !is_blank && (ends('`') || ends(' ')) { " " } else { "" };
    out.extend([fence.as_str(), pad, &literal, pad, &fence]);
}

/// Without anything that could pass as a marker of ours, also in code: a line is looked at as it
/// stands, whatever it is part of.
pub(super) fn inert(text: &str) -> String {
    let mut out = text.to_owned();
    for open in ["<!--", "[//]:"] {
        if !out.contains(open) {
            continue;
        }
        let mut apart = String::with_capacity(out.len());
        let mut rest = out.as_str();
        while let Some(at) = rest.find(open) {
            let (before, from) = rest.split_at(at + open.len());
            apart.push_str(before);
            let begins = from.trim_start().trim_start_matches(['#', '(', '<', '"', '\'', ' ']);
            let ours = "patchwright";
            if begins.get(..ours.len()).is_some_and(|name| name.eq_ignore_ascii_case(ours)) {
                apart.push('\u{200b}');
            }
            rest = from;
        }
        apart.push_str(rest);
        out = apart;
    }
    out
}

/// Takes back what [`inert`] did: a passage of a passage is the same passage.
pub(super) fn without_inert(text: &str) -> String {
    text.replace("<!--\u{200b}", "<!--").replace("[//]:\u{200b}", "[//]:")
}

/// A link's target that may be clicked: http(s) or relative, and not an issue, pull request or
/// discussion, which the link would notify or, behind `fixes`, close.
pub(super) fn is_harmless(target: &str) -> bool {
    if target.starts_with("//") || target.contains(['\\', '\n', '\r', '\t']) || names_thread(target)
    {
        return false;
    }
    match target.split_once(':') {
        None => true,
        Some((scheme, rest))
            if ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) =>
        {
            rest.starts_with("//")
        }
        Some((other, _)) => other.contains(['/', '#', '?']),
    }
}

/// It leads to an issue, a pull request or a discussion, on whatever host, or names one behind a `?`.
fn names_thread(target: &str) -> bool {
    let target = decoded(target).to_ascii_lowercase().replace('\\', "/");
    let parts: Vec<&str> = target.split('/').filter(|part| !part.is_empty()).collect();
    parts.windows(2).any(|pair| {
        let kinds = ["issues", "issue", "pull", "pulls", "discussions"];
        kinds.iter().any(|kind| pair[0].ends_with(kind))
            && pair[1].starts_with(|c: char| c.is_ascii_digit())
    })
}

/// An address and the words of its link are the same, however either is spelled.
pub(super) fn is_same(words: &str, url: &str) -> bool {
    decoded(words) == decoded(url)
}

/// Percent signs read, so that no spelling of a path is missed.
fn decoded(target: &str) -> String {
    let mut bytes = Vec::with_capacity(target.len());
    let mut rest = target.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let hex = others.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(byte) = byte {
            bytes.push(byte);
            rest = &others[2..];
        } else {
            bytes.push(*first);
            rest = others;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A target between parentheses: everything that could end it or be read otherwise as `%XX`.
pub(super) fn target(url: &str) -> String {
    // Other programs read the body as plain text: `#1` is a reference to them, also at the end of
    // an address.
    let url = match url.split_once('#') {
        Some((page, place)) if place.starts_with(|c: char| c.is_ascii_digit()) => page,
        _ => url,
    };
    let mut out = String::with_capacity(url.len());
    for byte in url.bytes() {
        match byte {
            b'-' if ends_with_word(&out, "gh") => out.push_str("%2D"),
            b'&' => out.push_str("&amp;"),
            _ if byte.is_ascii_alphanumeric() || b"-._/?=%+:,;#!'".contains(&byte) => {
                out.push(char::from(byte));
            }
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

/// An address that is a link by itself, whole, wherever a blank or the line's end follows.
pub(super) fn is_plain(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return false;
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let in_host = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-');
    let in_path =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '=' | '?' | '%' | '#');
    !notifies(url)
        && host.contains('.')
        && host.chars().all(in_host)
        && host.split('.').all(|part| part.starts_with(|c: char| c.is_ascii_alphanumeric()))
        && path.chars().all(in_path)
        && url.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
}

/// Behind an `@` it may begin a name, or the host of an address: GitHub's parser finds one in `_@.example`, too.
fn can_be_called(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '-' | '_')
}

/// A text in which GitHub would find a person, a team, an issue or a pull request.
pub(super) fn notifies(words: &str) -> bool {
    let follows = |mark: &str, is: fn(char) -> bool| {
        words.match_indices(mark).any(|(at, _)| words[at + mark.len()..].starts_with(is))
    };
    let is_digit = |c: char| c.is_ascii_digit();
    follows("@", char::is_alphanumeric)
        || follows("#", is_digit)
        || ["gh-", "GH-", "Gh-", "gH-"].into_iter().any(|mark| follows(mark, is_digit))
}
