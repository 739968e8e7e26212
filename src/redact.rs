//! Our own secrets never leave: [`Redactor`] knows them and finds them, whole or in part, in any
//! common encoding, in whatever is about to go out.
//!
//! Every text that leaves the process is passed through [`Redactor::redact`] (logs, errors) or
//! [`Redactor::scan`] (what is published; a hit blocks). It does not know other people's keys: that
//! is [`crate::policy::secrets`].
//!
//! A secret is found by its *windows*: any [`WINDOW`] consecutive bytes of it, as they are, reversed
//! or rot13. The text is read several times (as it is, without separators, every second byte, with
//! escapes, hex and base64 decoded), each time by one sliding window looked up in one table, so the
//! time is linear in the text and does not depend on the number of secrets.

mod learned;
mod public;

use std::collections::HashMap;
use std::fmt;

use secrecy::{ExposeSecret, SecretString};

pub use self::learned::learn;

use self::public::{public_prefix, without_armour};

/// How many consecutive bytes of a secret are enough to be found.
pub const WINDOW: usize = 12;
/// Secrets shorter than this are not looked for: they would match ordinary words.
const SHORTEST: usize = 6;
/// Windows with fewer different bytes than this say nothing (`------------`).
const DISTINCT: usize = 5;
/// How much of a publicly known prefix a window may contain before it counts as ordinary text.
const PRIVATE: usize = 8;
/// No report needs more places than this.
const MAX_HITS: usize = 200;

/// Knows the secrets of this process. Prints nothing of them, not even how long they are.
#[derive(Default)]
pub struct Redactor {
    names: Vec<String>,
    values: Vec<SecretString>,
    plain: Windows,
    /// Windows of the secrets' letters and digits alone, for text whose separators were dropped.
    compact: Windows,
}

/// A place where a secret, or enough of it, was found. Does not contain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Name of the secret, as given to [`Redactor::new`].
    pub secret: String,
    /// How it was written: `plain`, `reversed`, `rot13`, `hex`, `base64`, …
    pub encoding: &'static str,
    /// Byte offset in the scanned text.
    pub offset: usize,
    /// Line in the scanned text, from 1.
    pub line: usize,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    /// Learns secrets by name. Values are trimmed; those under six bytes are ignored.
    pub fn new<N: Into<String>>(secrets: impl IntoIterator<Item = (N, SecretString)>) -> Redactor {
        let mut redactor = Redactor::default();
        for (name, secret) in secrets {
            redactor.add(name.into(), &secret);
        }
        redactor
    }

    fn add(&mut self, name: String, secret: &SecretString) {
        let value = secret.expose_secret().trim();
        if value.len() < SHORTEST || self.values.iter().any(|v| v.expose_secret() == value) {
            return;
        }
        let id = self.names.len();
        let public = public_prefix(value);
        let bytes = without_armour(value);
        self.plain.learn(id, bytes.as_bytes(), public);
        let compact: Vec<u8> = bytes.bytes().filter(u8::is_ascii_alphanumeric).collect();
        let letters = value.as_bytes()[..public].iter().filter(|b| b.is_ascii_alphanumeric());
        self.compact.learn(id, &compact, letters.count());
        self.names.push(name);
        self.values.push(SecretString::from(value));
    }

    /// Replaces every secret, and every part of one that [`Redactor::scan`] finds, by `***`.
    pub fn redact(&self, text: &str) -> String {
        let text = self.redact_own(text);
        learned::ask(|learned| learned.redact_own(&text)).unwrap_or(text)
    }

    fn redact_own(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.values {
            if text.contains(value.expose_secret()) {
                text = text.replace(value.expose_secret(), "***");
            }
        }
        // What stood around a part can make up another one when the part is gone.
        for _ in 0..8 {
            let spans = self.spans(text.as_bytes());
            if spans.is_empty() {
                return text;
            }
            text = without(&text, spans);
        }
        "***".to_owned()
    }

    /// Finds secrets, or twelve consecutive characters of one, in any encoding named in [`Hit`].
    /// Neighbouring windows are one hit.
    pub fn scan(&self, bytes: &[u8]) -> Vec<Hit> {
        let mut hits = self.scan_own(bytes);
        hits.extend(learned::ask(|learned| learned.scan_own(bytes)).unwrap_or_default());
        hits
    }

    fn scan_own(&self, bytes: &[u8]) -> Vec<Hit> {
        let mut spans = self.spans(bytes);
        spans.sort_by_key(|span| span.start);
        let mut ends = vec![0; self.names.len()];
        let (mut line, mut counted) = (1, 0);
        spans
            .into_iter()
            .filter(|span| {
                // The same place read in another way is no news.
                let news = span.start >= ends[span.secret];
                ends[span.secret] = ends[span.secret].max(span.end);
                news
            })
            .map(|span| {
                line += bytes[counted..span.start].split(|b| *b == b'\n').count() - 1;
                counted = span.start;
                Hit {
                    secret: self.names[span.secret].clone(),
                    encoding: span.encoding,
                    offset: span.start,
                    line,
                }
            })
            .collect()
    }

    fn spans(&self, bytes: &[u8]) -> Vec<Span> {
        if self.names.is_empty() {
            return Vec::new();
        }
        let mut found = Found::default();
        let plain = |encoding| Reader::new(&self.plain, encoding);
        let mut reader = plain("plain");
        for (at, byte) in bytes.iter().enumerate() {
            reader.feed(*byte, at, at + 1, &mut found);
        }
        let mut reader = Reader::new(&self.compact, "separated");
        for (at, byte) in bytes.iter().enumerate().filter(|(_, b)| b.is_ascii_alphanumeric()) {
            if !is_line_escape(bytes, at) {
                reader.feed(*byte, at, at + 1, &mut found);
            }
        }
        for phase in 0..2 {
            let mut reader = plain("separated");
            for (at, byte) in bytes.iter().enumerate().skip(phase).step_by(2) {
                reader.feed(*byte, at, at + 1, &mut found);
            }
        }
        read_escapes(bytes, plain("escaped"), &mut found);
        read_hex(bytes, [plain("hex"), plain("hex")], &mut found);
        read_base64(bytes, std::array::from_fn(|_| plain("base64")), &mut found);
        found.0
    }
}

/// The text with `***` in the place of the spans.
fn without(text: &str, mut spans: Vec<Span>) -> String {
    spans.sort_by_key(|span| span.start);
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for span in spans {
        let (start, end) = (floor(text, span.start.max(done)), ceil(text, span.end));
        if end <= done {
            continue;
        }
        if start > done || done == 0 {
            out.push_str(&text[done..start]);
            out.push_str("***");
        }
        done = end;
    }
    out.push_str(&text[done..]);
    out
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// The table of windows. Up to twelve bytes of a window are one `u128`.
#[derive(Default)]
struct Windows {
    /// Window lengths in use: [`WINDOW`], and those of secrets that are shorter.
    lengths: Vec<usize>,
    table: HashMap<(usize, u128), (usize, &'static str)>,
    /// One bit per hash: most positions are dismissed here.
    bits: Vec<u64>,
}

const FILTER_BITS: u32 = 17;

impl Windows {
    fn learn(&mut self, secret: usize, bytes: &[u8], public: usize) {
        let length = bytes.len().min(WINDOW);
        if length < SHORTEST {
            return;
        }
        if self.bits.is_empty() {
            self.bits = vec![0; 1 << (FILTER_BITS - 6)];
        }
        if !self.lengths.contains(&length) {
            self.lengths.push(length);
        }
        let first = public.saturating_sub(WINDOW - PRIVATE).min(bytes.len() - length);
        for window in bytes[first..].windows(length) {
            let mut seen = [false; 256];
            for byte in window {
                seen[usize::from(*byte)] = true;
            }
            if length == WINDOW && seen.iter().filter(|s| **s).count() < DISTINCT {
                continue;
            }
            let reversed: Vec<u8> = window.iter().rev().copied().collect();
            let turned: Vec<u8> = window.iter().map(|b| rot13(*b)).collect();
            for (form, name) in [(window, ""), (&reversed, "reversed"), (&turned, "rot13")] {
                let key = form.iter().fold(0u128, |key, b| (key << 8) | u128::from(*b));
                self.table.entry((length, key)).or_insert((secret, name));
                let hash = hash(key);
                self.bits[hash >> 6] |= 1 << (hash & 63);
            }
        }
    }

    fn find(&self, length: usize, key: u128) -> Option<(usize, &'static str)> {
        let hash = hash(key);
        if self.bits[hash >> 6] & (1 << (hash & 63)) == 0 {
            return None;
        }
        self.table.get(&(length, key)).copied()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a hash keeps the bits that it wants")]
fn hash(key: u128) -> usize {
    let folded = (key as u64) ^ ((key >> 64) as u64).rotate_left(29);
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER_BITS)) as usize
}

fn rot13(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        other => other,
    }
}

/// A piece of the text that has part of a secret in it.
struct Span {
    start: usize,
    end: usize,
    secret: usize,
    encoding: &'static str,
}

#[derive(Default)]
struct Found(Vec<Span>);

impl Found {
    fn add(&mut self, span: Span) {
        let near = self.0.iter().rposition(|last| {
            last.secret == span.secret
                && last.encoding == span.encoding
                && span.start <= last.end
                && last.start <= span.start
        });
        match near {
            Some(at) => self.0[at].end = self.0[at].end.max(span.end),
            None if self.0.len() < MAX_HITS => self.0.push(span),
            None => {
                // Too many places to tell apart: the last one grows, so that nothing stays visible.
                if let Some(last) = self.0.last_mut() {
                    last.start = last.start.min(span.start);
                    last.end = last.end.max(span.end);
                }
            }
        }
    }
}

/// A sliding window over one way of reading the text.
struct Reader<'a> {
    windows: &'a Windows,
    encoding: &'static str,
    key: u128,
    fed: usize,
    starts: [usize; WINDOW],
}

impl<'a> Reader<'a> {
    fn new(windows: &'a Windows, encoding: &'static str) -> Reader<'a> {
        Reader { windows, encoding, key: 0, fed: 0, starts: [0; WINDOW] }
    }

    /// Takes the next byte; `start..end` is where it stands in the text.
    fn feed(&mut self, byte: u8, start: usize, end: usize, found: &mut Found) {
        self.key = (self.key << 8) | u128::from(byte);
        self.starts[self.fed % WINDOW] = start;
        self.fed += 1;
        for length in &self.windows.lengths {
            if self.fed < *length {
                continue;
            }
            let key = self.key & ((1u128 << (8 * length)) - 1);
            if let Some((secret, form)) = self.windows.find(*length, key) {
                let start = self.starts[(self.fed - length) % WINDOW];
                let encoding = match (self.encoding, form) {
                    ("plain", form) if !form.is_empty() => form,
                    (encoding, _) => encoding,
                };
                found.add(Span { start, end, secret, encoding });
            }
        }
    }

    fn restart(&mut self) {
        self.fed = 0;
    }
}

/// `%41`, `\x41`, `\u0041`, `\u{41}`, `&#65;`, `&#x41;`; everything else as it is.
fn read_escapes(bytes: &[u8], mut reader: Reader<'_>, found: &mut Found) {
    let mut at = 0;
    while at < bytes.len() {
        let (byte, length) = escape(&bytes[at..]).unwrap_or((bytes[at], 1));
        reader.feed(byte, at, at + length, found);
        at += length;
    }
}

fn escape(rest: &[u8]) -> Option<(u8, usize)> {
    let (radix, skip, close, most) = match rest {
        [b'%', ..] => (16, 1, None, 2),
        [b'\\', b'x' | b'X', ..] => (16, 2, None, 2),
        [b'\\', b'u', b'{', ..] => (16, 3, Some(b'}'), 6),
        [b'\\', b'u', ..] => (16, 2, None, 4),
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
fn is_line_escape(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at], b'n' | b'r' | b't') && at > 0 && bytes[at - 1] == b'\\'
}

/// Hexadecimal digits in both alignments; separators, `0x` and `\x` between them do not matter.
fn read_hex(bytes: &[u8], mut readers: [Reader<'_>; 2], found: &mut Found) {
    let mut last: Option<(u8, usize)> = None;
    let mut phase = 0;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let marks = matches!(bytes[at..], [b'0' | b'\\', b'x' | b'X', ..]);
        let skipped = marks || is_line_escape(bytes, at);
        at += if marks { 2 } else { 1 };
        if skipped {
            continue;
        }
        let Some(digit) = char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok()) else {
            if byte.is_ascii_alphanumeric() {
                last = None;
                readers.iter_mut().for_each(Reader::restart);
            }
            continue;
        };
        if let Some((high, start)) = last {
            readers[phase].feed((high << 4) | digit, start, at, found);
            phase ^= 1;
        }
        last = Some((digit, at - 1));
    }
}

/// Base64 of either alphabet in all four alignments, over line breaks.
fn read_base64(bytes: &[u8], mut readers: [Reader<'_>; 4], found: &mut Found) {
    // The last four sextets with their places; position `count` starts a group in one alignment.
    let mut recent = [(0u8, 0usize); 4];
    let mut count = 0usize;
    for (at, byte) in bytes.iter().enumerate() {
        if is_line_escape(bytes, at) {
            continue;
        }
        let sextet = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'\n' | b'\r' | b' ' | b'\t' | b'"' | b'\\' => continue,
            _ => {
                count = 0;
                readers.iter_mut().for_each(Reader::restart);
                continue;
            }
        };
        recent[count % 4] = (sextet, at);
        count += 1;
        // In alignment `a`, the byte that this sextet completes depends on its place in the group.
        for (alignment, reader) in readers.iter_mut().enumerate() {
            let place = (count + 3 - alignment) % 4;
            if place == 0 || count < alignment + 2 {
                continue;
            }
            let (before, start) = recent[(count + 2) % 4];
            let value = match place {
                1 => (before << 2) | (sextet >> 4),
                2 => (before << 4) | (sextet >> 2),
                _ => (before << 6) | sextet,
            };
            reader.feed(value, start, at + 1, found);
        }
    }
}
