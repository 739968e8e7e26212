//! Our own secrets never leave: [`Redactor`] knows them and finds them, whole or in part, in any
//! common encoding, in whatever is about to go out.
//!
//! Every text that leaves the process is passed through [`Redactor::redact`] (logs, errors) or
//! [`Redactor::scan`] (what is published; a hit blocks). It does not know other people's keys: that
//! is [`keys`].
//!
//! A secret is found by its *windows*: any [`WINDOW`] consecutive bytes of it, as they are, reversed
//! or rot13. The text is read in several ways (as it is, without separators, every second byte, with
//! escapes, hex and base64 decoded), each time by one sliding window looked up in one table, so the
//! time is linear in the text and does not depend on the number of secrets. A text of any size can be
//! given in pieces ([`Redactor::first_in`]).

mod decoding;
pub mod keys;
mod learned;
mod public;
mod reading;
mod unescaped;
mod windows;

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

pub use self::learned::learn;

use self::public::{public_prefix, without_armour};
use self::reading::{Scan, Span};
use self::windows::Windows;

/// How many consecutive bytes of a secret are enough to be found.
pub const WINDOW: usize = 12;
/// Shorter secrets are ignored: they would match ordinary words.
const SHORTEST: usize = 6;
/// Windows with fewer different bytes than this say nothing (`------------`).
const DISTINCT: usize = 5;
/// How much of a publicly known prefix a window may contain before it counts as ordinary text.
const PRIVATE: usize = 8;

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
        // The PEM header and footer of a key are the same in every key, and would match other
        // people's.
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
        // Removing a part can join its surroundings to another one, so the search is repeated.
        for _ in 0..8 {
            let spans = self.spans(text.as_bytes());
            if spans.is_empty() {
                return text;
            }
            text = without(&text, spans);
        }
        // Eight rounds were not enough: a text made to defeat this is dropped as a whole.
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
                // Several encodings can match the same place; it is reported once.
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
        Scan::new(&self.plain, &self.compact).whole(bytes)
    }

    /// The first place with a secret in a text that is given piece by piece and never as a whole.
    /// `pieces` gives all pieces in order, each time that it is called.
    ///
    /// # Errors
    /// What `pieces` returns: then the text was not searched to its end.
    pub fn first_in<E>(&self, pieces: Pieces<'_, E>) -> Result<Option<Hit>, E> {
        match self.first_own(pieces)? {
            Some(hit) => Ok(Some(hit)),
            None => learned::ask(|learned| learned.first_own(pieces)).unwrap_or(Ok(None)),
        }
    }

    /// As [`Redactor::first_in`], for a text that was another one `before`: what that has of a secret is no news.
    ///
    /// # Errors
    /// What the two return: then they were not searched to their ends.
    pub fn first_new<E>(
        &self,
        pieces: Pieces<'_, E>,
        before: Pieces<'_, E>,
    ) -> Result<Option<Hit>, E> {
        match self.first_new_own(pieces, before)? {
            Some(hit) => Ok(Some(hit)),
            None => {
                learned::ask(|learned| learned.first_new_own(pieces, before)).unwrap_or(Ok(None))
            }
        }
    }

    fn first_new_own<E>(
        &self,
        pieces: Pieces<'_, E>,
        before: Pieces<'_, E>,
    ) -> Result<Option<Hit>, E> {
        let hit = self.first_own(pieces)?;
        if hit.is_none() {
            return Ok(None);
        }
        let mut scan = Scan::new(&self.plain, &self.compact);
        before(&mut |piece| scan.push(piece))?;
        let known = scan.end().windows;
        if known.is_empty() {
            return Ok(hit);
        }
        self.first_of(&self.plain.without(&known), &self.compact.without(&known), pieces)
    }

    fn first_own<E>(&self, pieces: Pieces<'_, E>) -> Result<Option<Hit>, E> {
        if self.names.is_empty() {
            return Ok(None);
        }
        self.first_of(&self.plain, &self.compact, pieces)
    }

    fn first_of<E>(
        &self,
        plain: &Windows,
        compact: &Windows,
        pieces: Pieces<'_, E>,
    ) -> Result<Option<Hit>, E> {
        let mut scan = Scan::new(plain, compact);
        pieces(&mut |piece| {
            if !scan.has_found() {
                scan.push(piece);
            }
        })?;
        let Some(first) = scan.end().spans.into_iter().min_by_key(|span| span.start) else {
            return Ok(None);
        };
        // A second pass counts lines, because most texts have no hit and need no count.
        let (mut line, mut left) = (1, first.start);
        pieces(&mut |piece| {
            let before = &piece[..left.min(piece.len())];
            line += memchr::memchr_iter(b'\n', before).count();
            left -= before.len();
        })?;
        let secret = self.names[first.secret].clone();
        Ok(Some(Hit { secret, encoding: first.encoding, offset: first.start, line }))
    }
}

/// Something that gives a text piece by piece, from its beginning each time that it is called.
pub type Pieces<'p, E> = &'p dyn Fn(&mut dyn FnMut(&[u8])) -> Result<(), E>;

/// The text with the spans replaced by `***`.
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
