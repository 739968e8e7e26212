//! The ways in which a text is read, each a sliding window over what it makes of the bytes: as they
//! are, without separators, every second byte, with escapes, hex and base64 decoded.
//!
//! A [`Scan`] takes a text at once or in pieces of any length and finds the same in both cases: the
//! windows stay as they are from one piece to the next, and a few bytes around the border are kept.

use std::collections::HashSet;

use super::WINDOW;
use super::decoding::{Base64, Escapes, Hex, is_line_escape, is_mark};
use super::windows::{Window, Windows};

/// No report needs more places than this.
const MAX_HITS: usize = 200;
/// No escape is longer: the bytes of a text that must be there before one can be read.
const AHEAD: usize = 16;
/// Bytes before the one that is read that say what it is: a line end may be written as two.
pub(super) const BEHIND: usize = 2;
/// The places of the last bytes are remembered; a power of two, not less than a window.
const RING: usize = WINDOW.next_power_of_two();

/// A piece of the text that has part of a secret in it.
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) secret: usize,
    pub(super) encoding: &'static str,
}

/// What a text was found to have of secrets.
#[derive(Default)]
pub(super) struct SecretSpans {
    pub(super) spans: Vec<Span>,
    /// The windows that were seen, each once, whatever [`MAX_HITS`] is.
    pub(super) windows: HashSet<Window>,
}

impl SecretSpans {
    fn add(&mut self, span: Span) {
        let near = self.spans.iter().rposition(|last| {
            last.secret == span.secret
                && last.encoding == span.encoding
                && span.start <= last.end
                && last.start <= span.start
        });
        match near {
            Some(at) => self.spans[at].end = self.spans[at].end.max(span.end),
            None if self.spans.len() < MAX_HITS => self.spans.push(span),
            None => {
                // Too many places to list: the last one grows instead, so that nothing stays
                // visible.
                if let Some(last) = self.spans.last_mut() {
                    last.start = last.start.min(span.start);
                    last.end = last.end.max(span.end);
                }
            }
        }
    }
}

/// One pass over a text.
pub(super) struct Scan<'a> {
    plain: Reader<'a>,
    compact: Reader<'a>,
    /// Over the bytes at even and at odd offsets.
    halves: [Reader<'a>; 2],
    escapes: Escapes<'a>,
    hex: Hex<'a>,
    base64: Base64<'a>,
    /// Base64 without the marks of a diff, from the first line on that begins with one.
    unmarked: Option<Base64<'a>>,
    found: SecretSpans,
    /// The end of what was given: a few bytes that were read, and those that were not.
    kept: Vec<u8>,
    /// How many of the kept bytes were read.
    read: usize,
    /// Offset of the first kept byte in the text.
    base: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(plain: &'a Windows, compact: &'a Windows) -> Scan<'a> {
        let reader = |encoding| Reader::new(plain, encoding);
        Scan {
            plain: reader("plain"),
            compact: Reader::new(compact, "separated"),
            halves: [reader("separated"), reader("separated")],
            escapes: Escapes::new(reader("escaped")),
            hex: Hex::new(&reader("hex")),
            base64: Base64::new(&reader("base64")),
            unmarked: None,
            found: SecretSpans::default(),
            kept: Vec::new(),
            read: 0,
            base: 0,
        }
    }

    /// What is found in a whole text.
    pub(super) fn whole(mut self, text: &[u8]) -> Vec<Span> {
        self.read(TextPart { bytes: text, base: 0, from: 0, until: text.len() });
        self.found.spans
    }

    /// Takes the next piece of a text.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let mut kept = std::mem::take(&mut self.kept);
        kept.extend_from_slice(piece);
        // The last bytes may be half of an escape, so they wait for the next piece.
        let until = kept.len().saturating_sub(AHEAD).max(self.read);
        self.read(TextPart { bytes: &kept, base: self.base, from: self.read, until });
        let gone = until.saturating_sub(BEHIND);
        kept.drain(..gone);
        self.base += gone;
        self.read = until - gone;
        self.kept = kept;
    }

    /// Something was found already; more of the text may follow.
    pub(super) fn has_found(&self) -> bool {
        !self.found.spans.is_empty()
    }

    /// What was found, once every piece was given.
    pub(super) fn end(mut self) -> SecretSpans {
        let kept = std::mem::take(&mut self.kept);
        self.read(TextPart { bytes: &kept, base: self.base, from: self.read, until: kept.len() });
        self.found
    }

    fn read(&mut self, part: TextPart<'_>) {
        let found = &mut self.found;
        for (at, byte) in part.bytes() {
            self.plain.feed(byte, part.base + at, part.base + at + 1, found);
        }
        for (at, byte) in part.bytes().filter(|(_, byte)| byte.is_ascii_alphanumeric()) {
            if !is_line_escape(part.bytes, at) {
                self.compact.feed(byte, part.base + at, part.base + at + 1, found);
            }
        }
        for (at, byte) in part.bytes() {
            let at = part.base + at;
            self.halves[at % 2].feed(byte, at, at + 1, found);
        }
        self.escapes.read(part, found);
        self.hex.read(part, found);
        if self.unmarked.is_none() && part.bytes().any(|(at, _)| is_mark(part.bytes, at)) {
            self.unmarked = Some(self.base64.without_marks());
        }
        self.base64.read(part, found);
        if let Some(unmarked) = &mut self.unmarked {
            unmarked.read(part, found);
        }
    }
}

/// A part of the text: the bytes from `from` to `until` are read, with those around them as context.
#[derive(Clone, Copy)]
pub(super) struct TextPart<'t> {
    pub(super) bytes: &'t [u8],
    /// Offset of the first byte in the text.
    pub(super) base: usize,
    from: usize,
    pub(super) until: usize,
}

impl<'t> TextPart<'t> {
    /// The bytes that are to be read, with their places in `bytes`.
    pub(super) fn bytes(self) -> impl Iterator<Item = (usize, u8)> + 't {
        let bytes = self.bytes.iter().copied().enumerate();
        bytes.take(self.until).skip(self.from)
    }

    /// The index in `bytes` of the offset at which reading continues.
    pub(super) fn place(self, offset: usize) -> usize {
        offset.saturating_sub(self.base).max(self.from)
    }
}

/// A sliding window over one way of reading the text.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    windows: &'a Windows,
    encoding: &'static str,
    key: u128,
    fed: usize,
    starts: [usize; RING],
}

impl<'a> Reader<'a> {
    fn new(windows: &'a Windows, encoding: &'static str) -> Reader<'a> {
        Reader { windows, encoding, key: 0, fed: 0, starts: [0; RING] }
    }

    /// Takes the next byte; `start..end` is where it stands in the text.
    #[inline]
    pub(super) fn feed(&mut self, byte: u8, start: usize, end: usize, found: &mut SecretSpans) {
        self.key = (self.key << 8) | u128::from(byte);
        self.starts[self.fed % RING] = start;
        self.fed += 1;
        if self.windows.may_end(self.key) {
            self.look_up(end, found);
        }
    }

    #[cold]
    fn look_up(&self, end: usize, found: &mut SecretSpans) {
        for length in self.windows.lengths.iter().filter(|length| **length <= self.fed) {
            if let Some((secret, form)) = self.windows.find(*length, self.key) {
                let start = self.starts[(self.fed - length) % RING];
                let encoding = match (self.encoding, form) {
                    ("plain", form) if !form.is_empty() => form,
                    (encoding, _) => encoding,
                };
                found.windows.insert(Windows::window(*length, self.key));
                found.add(Span { start, end, secret, encoding });
            }
        }
    }

    /// The next text does not continue the one that was fed before.
    pub(super) fn restart(&mut self) {
        self.fed = 0;
    }
}
