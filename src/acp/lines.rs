//! Lines of standard input, of a bounded length: what goes beyond it is read and dropped.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Bytes of one message.
pub(super) const MAX_LINE: usize = 4 << 20;

/// One line, or what came in its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    TooLong,
    /// Not UTF-8.
    NotText,
    End,
}

/// What has been read of the next line is kept here, so that a wait for it may be given up and begun again.
pub(super) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    is_too_long: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R) -> Lines<R> {
        Lines { reader, line: Vec::new(), is_too_long: false }
    }

    /// The next line that is not empty. A last one without a line end counts.
    pub(super) async fn next(&mut self) -> io::Result<Line> {
        loop {
            let available = self.reader.fill_buf().await?;
            let is_end = available.is_empty();
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            if self.line.len() + part.len() > MAX_LINE {
                self.is_too_long = true;
                self.line.clear();
            } else if !self.is_too_long {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if !is_end && end.is_none() {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.is_too_long) {
                return Ok(Line::TooLong);
            }
            match String::from_utf8(line) {
                Err(_) => return Ok(Line::NotText),
                Ok(text) if text.trim().is_empty() && is_end => return Ok(Line::End),
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => return Ok(Line::Text(text)),
            }
        }
    }
}
