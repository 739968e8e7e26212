//! Server-sent events, parsed as they arrive.
//!
//! Follows the event stream part of the WHATWG HTML standard: lines end in LF, CRLF or CR and in
//! nothing else, a leading byte order mark is dropped, `data` lines of one event are joined with LF,
//! comments and unknown fields are ignored. Two differences: an event that the end of the stream cut
//! off before its blank line is still handed out ([`Parser::finish`]), because real servers forget
//! the blank line, and sizes are bounded. `id` and `retry` have no meaning here: a model stream
//! cannot be continued. Called by [`super::wire::Stream`].

/// Bytes of one event at most.
pub const MAX_EVENT: usize = 16 << 20;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The `event` field; empty when the stream gave none.
    pub name: String,
    /// The `data` lines, joined with LF.
    pub data: String,
}

/// An event or a line is larger than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Turns bytes into events, however the bytes are cut.
#[derive(Debug)]
pub struct Parser {
    /// The start of a line whose end has not arrived.
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// The last byte was CR: an LF that follows belongs to it.
    after_cr: bool,
    /// The first line has been seen, so no byte order mark can follow.
    started: bool,
    max_event: usize,
}

impl Default for Parser {
    fn default() -> Parser {
        Parser::with_limit(MAX_EVENT)
    }
}

impl Parser {
    /// A parser that refuses events of more than `max_event` bytes.
    pub fn with_limit(max_event: usize) -> Parser {
        Parser {
            line: Vec::new(),
            event: Event::default(),
            has_data: false,
            after_cr: false,
            started: false,
            max_event,
        }
    }

    /// Takes the next bytes of the stream and appends the events that they complete.
    pub fn push(&mut self, mut bytes: &[u8], events: &mut Vec<Event>) -> Result<(), TooLarge> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            if self.line.is_empty() {
                self.take_line(&bytes[..end], events)?;
            } else {
                self.line.extend_from_slice(&bytes[..end]);
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, events)?;
            }
            let was_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if was_cr {
                self.after_cr = bytes.is_empty();
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
        }
        self.line.extend_from_slice(bytes);
        self.check(self.line.len())
    }

    /// The stream has ended: the event that was not closed by a blank line, if there is one.
    pub fn finish(mut self) -> Result<Option<Event>, TooLarge> {
        let mut events = Vec::new();
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, &mut events)?;
        self.take_line(b"", &mut events)?;
        Ok(events.pop())
    }

    fn check(&self, more: usize) -> Result<(), TooLarge> {
        if self.event.data.len() + more > self.max_event { Err(TooLarge) } else { Ok(()) }
    }

    fn take_line(&mut self, line: &[u8], events: &mut Vec<Event>) -> Result<(), TooLarge> {
        let line = if self.started { line } else { line.strip_prefix(BOM).unwrap_or(line) };
        self.started = true;
        self.check(line.len())?;
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) && !event.data.is_empty() {
                events.push(event);
            }
            return Ok(());
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                match std::str::from_utf8(value) {
                    Ok(text) => self.event.data.push_str(text),
                    Err(_) => self.event.data.push_str(&String::from_utf8_lossy(value)),
                }
            }
            b"event" => self.event.name = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
        Ok(())
    }
}

/// U+FEFF in UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";
