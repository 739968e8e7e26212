//! The bytes of an upload.

use std::io::{self, Read};
use std::sync::mpsc::Receiver;

/// A reader of what the host sends, until an empty piece ends it.
pub(super) struct Incoming<'a> {
    data: &'a Receiver<Vec<u8>>,
    current: io::Cursor<Vec<u8>>,
    ended: bool,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(data: &'a Receiver<Vec<u8>>) -> Incoming<'a> {
        Incoming { data, current: io::Cursor::default(), ended: false }
    }
}

impl Read for Incoming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.current.read(buffer)?;
            if count > 0 || self.ended || buffer.is_empty() {
                return Ok(count);
            }
            let next = self.data.recv().map_err(|_| io::Error::other("the upload was cut off"))?;
            self.ended = next.is_empty();
            self.current = io::Cursor::new(next);
        }
    }
}
