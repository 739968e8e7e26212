//! A text as somebody reads it who sees Markdown or HTML rendered: for finding in it what was escaped on the way.

use std::ops::Range;

use crate::invisible::is_invisible;

/// The words, and where they come from.
#[derive(Debug, Default)]
pub(super) struct Unescaped {
    pub(super) text: String,
    /// For each byte of the text: where what it stands for begins and ends in the source.
    places: Vec<(usize, usize)>,
}

impl Unescaped {
    /// Without backslashes before punctuation, with character references read, without invisible characters and the
    /// marks of quotations.
    pub(super) fn of(source: &str) -> Unescaped {
        let mut out = Unescaped::default();
        read(source, &mut |c, place| {
            out.text.push(c);
            out.places.extend(std::iter::repeat_n((place.start, place.end), c.len_utf8()));
        });
        out
    }

    /// The text alone.
    pub(super) fn words(source: &str) -> String {
        let mut out = String::with_capacity(source.len());
        read(source, &mut |c, _| out.push(c));
        out
    }

    /// What a part of the text stands for in the source.
    pub(super) fn source(&self, part: &Range<usize>) -> Range<usize> {
        let begin = self.places.get(part.start).map_or(0, |place| place.0);
        let end = part.end.checked_sub(1).and_then(|last| self.places.get(last));
        begin..end.map_or(begin, |place| place.1)
    }
}

fn read(source: &str, take: &mut dyn FnMut(char, Range<usize>)) {
    let mut at = 0;
    let mut is_start = true;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        if is_start {
            is_start = false;
            at += quotation(rest);
            continue;
        }
        let mut len = first.len_utf8();
        let mut meant = first;
        match first {
            '\\' => {
                if let Some(next) = rest[1..].chars().next().filter(char::is_ascii_punctuation) {
                    (meant, len) = (next, 2);
                }
            }
            '&' => {
                if let Some((c, taken)) = reference(rest) {
                    (meant, len) = (c, taken);
                }
            }
            _ => {}
        }
        if !is_invisible(meant) {
            take(meant, at..at + len);
        }
        is_start = meant == '\n';
        at += len;
    }
}

/// Bytes of the marks of a quotation at the start of a line.
fn quotation(line: &str) -> usize {
    let rest = line.trim_start_matches([' ', '\t', '>']);
    let marks = &line[..line.len() - rest.len()];
    if marks.contains('>') { marks.len() } else { 0 }
}

/// The character that a reference stands for, and its bytes.
fn reference(text: &str) -> Option<(char, usize)> {
    // None that stands for one character is longer than `&#1114111;`.
    let end = text.bytes().take(11).position(|byte| byte == b';')?;
    let name = text.get(1..end)?;
    let c = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        _ => {
            let number = name.strip_prefix('#')?;
            let hexadecimal = number.strip_prefix(['x', 'X']);
            let code = match hexadecimal {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    };
    Some((c, end + 1))
}

#[cfg(test)]
mod tests {
    use super::Unescaped;

    #[test]
    fn reads_what_is_rendered_and_knows_where_it_stands() {
        for (source, read) in [
            (r"ghp\_a\-b", "ghp_a-b"),
            (r"C:\new \n", r"C:\new \n"),
            ("a&#8203;b&#x5f;c&amp;&quot;&none;&", "ab_c&\"&none;&"),
            ("> one\n>> two\n  three\n", "one\ntwo\n  three\n"),
            ("", ""),
        ] {
            let unescaped = Unescaped::of(source);
            assert_eq!(unescaped.text, read, "{source}");
            assert_eq!(Unescaped::words(source), read, "{source}");
        }
        let source = r"x ghp\_ü y";
        let unescaped = Unescaped::of(source);
        let at = unescaped.text.find("ghp_ü").unwrap();
        assert_eq!(&source[unescaped.source(&(at..at + 6))], r"ghp\_ü");
    }
}
