//! Which bytes of one paragraph are plain: not code, not a link, not markup. See [`super::shown`].

use std::collections::BTreeSet;

/// Marks in `plain` (as long as `text`) what is plain. In `html` only tags mean something.
pub(super) fn mark(text: &str, html: bool, plain: &mut [bool]) {
    plain.fill(true);
    let mut spans = Spans {
        text,
        html,
        plain,
        at: 0,
        brackets: Vec::new(),
        runs: None,
        unclosed: BTreeSet::new(),
        patience: 8 * text.len() + 1024,
    };
    if !html && let Some(end) = definition(text) {
        spans.hide_to(end);
    }
    while spans.at < text.len() {
        spans.step();
    }
}

struct Spans<'a> {
    text: &'a str,
    html: bool,
    plain: &'a mut [bool],
    at: usize,
    /// Where brackets that may be a link's have opened.
    brackets: Vec<usize>,
    /// Runs of backticks: position and length.
    runs: Option<Vec<(usize, usize)>>,
    /// Lengths of runs that nothing closes any more.
    unclosed: BTreeSet<usize>,
    /// Bytes that may still be looked at in vain; without patience the rest is not plain.
    patience: usize,
}

impl Spans<'_> {
    fn hide(&mut self, from: usize, to: usize) {
        if let Some(range) = self.plain.get_mut(from..to) {
            range.fill(false);
        }
    }

    /// Hides from here to `end`, and goes on there.
    fn hide_to(&mut self, end: usize) {
        self.hide(self.at, end);
        self.at = end;
    }

    fn step(&mut self) {
        let rest = &self.text[self.at..];
        let Some(byte) = rest.bytes().next() else { return };
        match byte {
            b'<' => self.angle(rest),
            b'h' | b'H' | b'w' | b'W' => self.address(rest),
            _ if self.html => self.at += 1,
            b'\\' => {
                let next = rest.as_bytes().get(1).is_some_and(u8::is_ascii_punctuation);
                self.at += 1 + usize::from(next);
            }
            b'`' => self.code(rest),
            b'[' => {
                self.brackets.push(self.at);
                self.at += 1;
            }
            b']' => self.link(rest),
            _ => self.at += 1,
        }
        // Steps of one byte can end inside a character, which begins no span.
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
    }

    /// A code span, when a run of the same length closes it.
    fn code(&mut self, rest: &str) {
        let length = rest.bytes().take_while(|byte| *byte == b'`').count();
        if self.unclosed.contains(&length) {
            self.at += length;
            return;
        }
        let text = self.text;
        let runs = self.runs.get_or_insert_with(|| runs(text));
        let behind = runs.partition_point(|(at, _)| *at < self.at + length);
        let found = runs.iter().skip(behind).find(|(_, other)| *other == length);
        if let Some(end) = found.map(|(at, _)| at + length) {
            self.hide_to(end);
        } else {
            self.unclosed.insert(length);
            self.at += length;
        }
    }

    /// The closing bracket of a link or image: its text and its address are not plain.
    fn link(&mut self, rest: &str) {
        let opened = self.brackets.pop();
        let mut looked = 0;
        let end = match rest.as_bytes().get(1) {
            Some(b'(') => destination(rest, &mut looked),
            Some(b'[') => rest[2..].find([']', '[', '\n']).and_then(|end| {
                looked = end;
                rest[2 + end..].starts_with(']').then_some(2 + end + 1)
            }),
            _ => None,
        };
        if let (Some(opened), Some(end)) = (opened, end) {
            let end = self.at + end;
            self.hide(opened, end);
            self.at = end;
        } else {
            self.at += 1;
            self.give_up(looked);
        }
    }

    /// `looked` bytes were read for nothing.
    fn give_up(&mut self, looked: usize) {
        match self.patience.checked_sub(looked) {
            Some(left) => self.patience = left,
            None => self.hide_to(self.text.len()),
        }
    }

    /// A comment, an address in angle brackets, or a tag.
    fn angle(&mut self, rest: &str) {
        if rest.starts_with("<!--") {
            match rest[2..].find("-->") {
                Some(end) => self.hide_to(self.at + 2 + end + 3),
                // In a paragraph these are characters; in HTML they hide what follows.
                None if self.html => self.hide_to(self.text.len()),
                None => {
                    self.at += 4;
                    self.give_up(rest.len());
                }
            }
            return;
        }
        let is_tag = rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
        let Some(end) = is_tag.then(|| tag_end(rest)).flatten() else {
            self.at += 1;
            if is_tag {
                self.give_up(rest.len().min(LONGEST_TAG));
            }
            return;
        };
        let hides = ["code", "pre", "kbd", "samp", "tt", "a", "q", "blockquote", "del", "s"];
        let name = tag_name(rest).filter(|name| hides.contains(&name.as_str()));
        let Some(name) = name else {
            self.hide_to(self.at + end);
            return;
        };
        let closing = format!("</{name}");
        let is_closing = |found: &usize| {
            let candidate = rest.get(end + found..end + found + closing.len());
            candidate.is_some_and(|candidate| candidate.eq_ignore_ascii_case(&closing))
        };
        let found = rest[end..].match_indices("</").map(|(found, _)| found).find(is_closing);
        // Not closed: up to the end of the paragraph.
        self.hide_to(found.map_or(self.text.len(), |found| self.at + end + found));
    }

    /// A bare web address.
    fn address(&mut self, rest: &str) {
        let starts = |start: &str| {
            rest.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start))
        };
        let before = self.text[..self.at].chars().next_back();
        let inside = before.is_some_and(|before| before.is_alphanumeric() || before == '_');
        if inside || !["http://", "https://", "www."].iter().any(|start| starts(start)) {
            self.at += 1;
            return;
        }
        let end = rest.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(rest.len());
        self.hide_to(self.at + end);
    }
}

/// No tag or address in angle brackets is longer.
const LONGEST_TAG: usize = 4096;

/// The lower-case name of the opening tag at the beginning of `text`.
pub(super) fn tag_name(text: &str) -> Option<String> {
    let rest = text.strip_prefix('<')?;
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let length = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let ends = rest[length..].starts_with([' ', '\t', '\r', '\n', '>', '/']);
    ((1..=12).contains(&length) && ends && !text.starts_with("</"))
        .then(|| rest[..length].to_ascii_lowercase())
}

/// Length of the tag or address at the beginning of `text`.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate().take(LONGEST_TAG) {
        match (quote, byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

fn runs(text: &str) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in text.bytes().enumerate().filter(|(_, byte)| *byte == b'`') {
        match runs.last_mut() {
            Some((start, length)) if *start + *length == at => *length += 1,
            _ => runs.push((at, 1)),
        }
    }
    runs
}

/// Behind a link definition (`[name]: address "title"`) at the beginning of a paragraph.
fn definition(text: &str) -> Option<usize> {
    let label = text.strip_prefix('[')?;
    let (label, rest) = label.split_once(']')?;
    let is = rest.starts_with(':') && !label.starts_with('^') && !label.trim().is_empty();
    is.then(|| text.find('\n').unwrap_or(text.len()))
}

/// Length of `](address "title")` at the beginning of `text`; `looked` is how much was read.
fn destination(text: &str, looked: &mut usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut title: Option<u8> = None;
    let mut spaced = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(2) {
        *looked = at;
        if std::mem::take(&mut escaped) {
            continue;
        }
        match (title, byte) {
            (_, b'\\') => escaped = true,
            (Some(end), byte) => {
                if end == byte {
                    title = None;
                }
            }
            (None, b'"' | b'\'') if spaced => title = Some(byte),
            (None, b'(') => depth += 1,
            (None, b')') if depth == 0 => return Some(at + 1),
            (None, b')') => depth -= 1,
            (None, byte) if byte.is_ascii_whitespace() => spaced = at > 2,
            // Words that are no title: no link.
            (None, _) if spaced => return None,
            (None, _) => {}
        }
    }
    None
}
