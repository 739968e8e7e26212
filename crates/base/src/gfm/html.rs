//! HTML in Markdown, in pieces: tags, what shows nothing, and words.

use std::collections::HashMap;

use super::tags::{self, At, Tag};

/// A piece of HTML.
pub enum Piece<'a> {
    /// They begin at this byte.
    Words(usize, &'a str),
    Tag(Tag<'a>),
    /// It shows nothing; why it is left out.
    Hidden(&'static str),
    /// Like `Hidden`, but it never ends: it hides everything that follows.
    Open(&'static str),
}

/// The pieces in their order.
pub fn pieces(html: &str) -> Vec<Piece<'_>> {
    let mut ends = Ends::default();
    let mut out = Vec::new();
    let (mut at, mut words) = (0, 0);
    while let Some(next) = html[at..].find('<') {
        at += next;
        let Some((piece, length)) = piece(&html[at..], |needle| ends.find(html, needle, at)) else {
            at += 1;
            continue;
        };
        if words < at {
            out.push(Piece::Words(words, &html[words..at]));
        }
        out.push(piece);
        at += length;
        words = at;
    }
    if words < html.len() {
        out.push(Piece::Words(words, &html[words..]));
    }
    out
}

/// What begins with this `<` and its length; `None` when it is a character. `find` looks further on and
/// gives a distance.
fn piece(
    rest: &str,
    mut find: impl FnMut(&'static str) -> Option<usize>,
) -> Option<(Piece<'_>, usize)> {
    if let Some(body) = rest.strip_prefix("<!--") {
        let short = [(">", 5), ("->", 6)].into_iter().find(|(end, _)| body.starts_with(end));
        let ends = [("-->", 3), ("--!>", 4)];
        let ends = ends.iter().filter_map(|(end, n)| Some(find(end).filter(|at| *at >= 4)? + n));
        return Some(match short.map(|(_, length)| length).or_else(|| ends.min()) {
            Some(end) => (Piece::Hidden("HTML comment"), end),
            None => (Piece::Open("unclosed HTML comment"), rest.len()),
        });
    }
    for (open, close) in [("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">"), ("</", ">")] {
        // To a browser everything else behind `</` is a comment as well.
        let is_tag =
            |body: &str| open == "</" && body.starts_with(|c: char| c.is_ascii_alphabetic());
        if rest.strip_prefix(open).is_some_and(|body| !is_tag(body)) {
            let end = find(close).map_or(rest.len(), |end| end + close.len());
            return Some((Piece::Hidden("markup declaration"), end));
        }
    }
    match tags::tag(rest) {
        At::Nothing => None,
        At::Tag(tag) => {
            let length = tag.length;
            Some((Piece::Tag(tag), length))
        }
        At::TooLong => {
            Some((Piece::Hidden("HTML attribute"), find(">").map_or(rest.len(), |end| end + 1)))
        }
        At::Quoted => Some((Piece::Open("unfinished tag"), rest.len())),
        At::Unfinished => Some((Piece::Hidden("unfinished tag"), rest.len())),
    }
}

/// The next position of each closing mark, searched once: a text full of openings that never close would
/// otherwise be searched to its end for each of them.
#[derive(Default)]
pub struct Ends(HashMap<&'static str, (usize, Option<usize>)>);

impl Ends {
    /// The distance from `from`.
    pub fn find(&mut self, text: &str, needle: &'static str, from: usize) -> Option<usize> {
        if let Some((asked, answer)) = self.0.get(needle)
            && *asked <= from
            && answer.is_none_or(|at| at >= from)
        {
            return answer.map(|at| at - from);
        }
        let answer = text.get(from..).and_then(|rest| rest.find(needle)).map(|at| from + at);
        self.0.insert(needle, (from, answer));
        answer.map(|at| at - from)
    }
}

/// Which closing tag ends each of the `wanted` elements, by their numbers among all tags of these texts.
pub fn elements(
    texts: impl Iterator<Item = String>,
    wanted: impl Fn(&Tag<'_>) -> bool,
) -> HashMap<usize, usize> {
    let mut open: HashMap<String, Vec<(usize, bool)>> = HashMap::new();
    let mut ends = HashMap::new();
    let mut number = 0;
    for html in texts {
        for piece in pieces(&html) {
            let Piece::Tag(tag) = piece else { continue };
            let of_name = open.entry(tag.name.to_ascii_lowercase()).or_default();
            if !tag.closing {
                of_name.push((number, wanted(&tag)));
            } else if let Some((start, true)) = of_name.pop() {
                ends.insert(start, number);
            }
            number += 1;
        }
    }
    ends
}
