//! The line by which the shell says that a command has ended, and how.

use std::hash::{BuildHasher, RandomState};

use memchr::memmem;

use crate::process::Sink;

/// Digits of an exit code or a process id, with some room.
const MAX_NUMBER: usize = 12;

/// Output up to a line `MARK NUMBER`, which is not part of it.
pub(super) struct Marked {
    released: Vec<u8>,
    mark: Vec<u8>,
    /// What may be the beginning of the mark.
    held: Vec<u8>,
    pub(super) number: Option<i32>,
}

impl Marked {
    pub(super) fn new(token: &str) -> Marked {
        let mark = format!("\n{token} ").into_bytes();
        Marked { released: Vec::new(), mark, held: Vec::new(), number: None }
    }

    /// What came before a mark, or cannot be one.
    pub(super) fn take_released(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.released)
    }

    /// Passes on the first bytes of what is held.
    pub(super) fn release(&mut self, count: usize) {
        let released: Vec<u8> = self.held.drain(..count.min(self.held.len())).collect();
        self.released.extend(released);
    }
}

impl Sink for Marked {
    fn push(&mut self, bytes: &[u8]) {
        if self.number.is_some() {
            return;
        }
        self.held.extend_from_slice(bytes);
        while let Some(at) = memmem::find(&self.held, &self.mark) {
            let rest = self.held.get(at + self.mark.len()..).unwrap_or_default();
            let number = match memchr::memchr(b'\n', rest) {
                Some(end) => std::str::from_utf8(rest.get(..end).unwrap_or_default()).ok(),
                None if rest.len() <= MAX_NUMBER => return,
                None => None,
            };
            if let Some(number) = number.and_then(|number| number.parse().ok()) {
                self.release(at);
                self.held.clear();
                self.number = Some(number);
                return;
            }
            self.release(at + self.mark.len());
        }
        self.release((self.held.len() + 1).saturating_sub(self.mark.len()));
    }
}

/// Something that no command writes by chance.
pub(super) fn token() -> String {
    let random = || RandomState::new().hash_one(0);
    format!("patchwright{:016x}{:016x}", random(), random())
}
