//! What is read beside the bytes themselves: escapes, hexadecimal digits and base64.

use super::reading::{BEHIND, Reader, SecretSpans, TextPart};

/// Escapes as [`escape`] reads them; everything else as it is.
pub(super) struct Escapes<'a> {
    reader: Reader<'a>,
    /// Offset of the next byte: the last escape may end behind its part.
    next: usize,
}

impl<'a> Escapes<'a> {
    pub(super) fn new(reader: Reader<'a>) -> Escapes<'a> {
        Escapes { reader, next: 0 }
    }

    pub(super) fn read(&mut self, part: TextPart<'_>, found: &mut SecretSpans) {
        let mut at = part.place(self.next);
        while at < part.until {
            let (byte, length) = escape(&part.bytes[at..]).unwrap_or((part.bytes[at], 1));
            self.reader.feed(byte, part.base + at, part.base + at + length, found);
            at += length;
        }
        self.next = part.base + at;
    }
}

/// Characters that HTML and XML name.
const NAMED: &[(&[u8], u8)] =
    &[(b"&amp;", b'&'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&quot;", b'"'), (b"&apos;", b'\'')];

/// The byte that an escape at the beginning of `rest` stands for, and how long the escape is:
/// `%41`, `\x41`, `\u0041`, `\u{41}`, `\101`, `\"`, `\\`, `&#65;`, `&#x41;`, `&amp;`. A text that
/// was escaped twice has two backslashes, or four, where one would do.
fn escape(rest: &[u8]) -> Option<(u8, usize)> {
    if !matches!(rest, [b'&' | b'%' | b'\\', ..]) {
        return None;
    }
    if let Some((name, byte)) = NAMED.iter().find(|(name, _)| rest.starts_with(name)) {
        return Some((*byte, name.len()));
    }
    let more = rest.iter().take(4).take_while(|byte| **byte == b'\\').count().saturating_sub(1);
    let numbered = |skipped: usize| {
        let (byte, length) = numbered(rest.get(skipped..)?)?;
        Some((byte, skipped + length))
    };
    // The longest reading first: a text that was escaped twice has more backslashes.
    (0..=more).rev().find_map(numbered).or(match rest {
        [b'\\', byte @ (b'"' | b'\\' | b'/' | b'\''), ..] => Some((*byte, 2)),
        _ => None,
    })
}

/// An escape that gives the number of its character.
fn numbered(rest: &[u8]) -> Option<(u8, usize)> {
    let (radix, skip, close, most) = match rest {
        [b'%', ..] => (16, 1, None, 2),
        [b'\\', b'x' | b'X', ..] => (16, 2, None, 2),
        [b'\\', b'u', b'{', ..] => (16, 3, Some(b'}'), 6),
        [b'\\', b'u', ..] => (16, 2, None, 4),
        [b'\\', b'0'..=b'3', ..] => (8, 1, None, 3),
        [b'&', b'#', b'x' | b'X', ..] => (16, 3, Some(b';'), 7),
        [b'&', b'#', ..] => (10, 2, Some(b';'), 7),
        _ => return None,
    };
    let mut value = 0u32;
    let mut digits = 0;
    while digits < most
        && let Some(digit) = rest.get(skip + digits).and_then(|b| char::from(*b).to_digit(radix))
    {
        value = value * radix + digit;
        digits += 1;
    }
    let exact = close.is_none() && digits != most;
    if digits == 0 || exact {
        return None;
    }
    let closed = usize::from(close.is_some() && rest.get(skip + digits).copied() == close);
    Some((u8::try_from(value).ok()?, skip + digits + closed))
}

/// The letter of a `\n`, `\r` or `\t` that is written out: text inside JSON has its line ends so.
pub(super) fn is_line_escape(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at], b'n' | b'r' | b't') && at > 0 && bytes[at - 1] == b'\\'
}

/// The `+` or `-` that a line of a diff begins with. Base64 has both in its alphabets.
pub(super) fn is_mark(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[at.saturating_sub(BEHIND)..at];
    matches!(bytes[at], b'+' | b'-') && (before.ends_with(b"\n") || before == b"\\n")
}

/// Hexadecimal digits in both alignments; separators, `0x` and `\x` between them do not matter.
pub(super) struct Hex<'a> {
    readers: [Reader<'a>; 2],
    last: Option<(u8, usize)>,
    phase: usize,
    /// Offset of the next byte: the last `0x` may end behind its part.
    next: usize,
}

impl<'a> Hex<'a> {
    pub(super) fn new(reader: &Reader<'a>) -> Hex<'a> {
        Hex { readers: [reader.clone(), reader.clone()], last: None, phase: 0, next: 0 }
    }

    pub(super) fn read(&mut self, part: TextPart<'_>, found: &mut SecretSpans) {
        let mut at = part.place(self.next);
        while at < part.until {
            let byte = part.bytes[at];
            let marks = matches!(part.bytes[at..], [b'0' | b'\\', b'x' | b'X', ..]);
            let skipped = marks || is_line_escape(part.bytes, at);
            at += if marks { 2 } else { 1 };
            if skipped {
                continue;
            }
            let Some(digit) = char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok())
            else {
                // Punctuation may separate hexadecimal digits; a letter ends the number.
                if byte.is_ascii_alphanumeric() {
                    self.last = None;
                    self.readers.iter_mut().for_each(Reader::restart);
                }
                continue;
            };
            if let Some((high, start)) = self.last {
                let end = part.base + at;
                self.readers[self.phase].feed((high << 4) | digit, start, end, found);
                // Two readers, because nobody knows whether the first digit is a high or a low one.
                self.phase ^= 1;
            }
            self.last = Some((digit, part.base + at - 1));
        }
        self.next = part.base + at;
    }
}

/// Base64 of either alphabet in all four alignments, whatever stands between its characters.
#[derive(Clone)]
pub(super) struct Base64<'a> {
    readers: [Reader<'a>; 4],
    /// The last four sextets with their offsets.
    recent: [(u8, usize); 4],
    /// Sextets so far; a group starts at each fourth, in one alignment.
    count: usize,
    /// The marks that lines of a diff begin with are no sextets.
    skips_marks: bool,
}

impl<'a> Base64<'a> {
    pub(super) fn new(reader: &Reader<'a>) -> Base64<'a> {
        let readers = std::array::from_fn(|_| reader.clone());
        Base64 { readers, recent: [(0, 0); 4], count: 0, skips_marks: false }
    }

    /// A copy that ignores, from here on, the marks that lines of a diff begin with.
    pub(super) fn without_marks(&self) -> Base64<'a> {
        Base64 { skips_marks: true, ..self.clone() }
    }

    pub(super) fn read(&mut self, part: TextPart<'_>, found: &mut SecretSpans) {
        for (at, byte) in part.bytes() {
            let is_text = !is_line_escape(part.bytes, at);
            if is_text && !(self.skips_marks && is_mark(part.bytes, at)) {
                self.take(byte, part.base + at, found);
            }
        }
    }

    fn take(&mut self, byte: u8, at: usize, found: &mut SecretSpans) {
        let sextet = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return,
        };
        self.recent[self.count % 4] = (sextet, at);
        self.count += 1;
        // In alignment `a`, the byte that this sextet completes depends on its place in the group.
        for (alignment, reader) in self.readers.iter_mut().enumerate() {
            let place = (self.count + 3 - alignment) % 4;
            if place == 0 || self.count < alignment + 2 {
                continue;
            }
            let (before, start) = self.recent[(self.count + 2) % 4];
            let value = match place {
                1 => (before << 2) | (sextet >> 4),
                2 => (before << 4) | (sextet >> 2),
                _ => (before << 6) | sextet,
            };
            reader.feed(value, start, at + 1, found);
        }
    }
}
