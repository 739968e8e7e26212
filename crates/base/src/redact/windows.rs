//! The table of windows: every few consecutive bytes of every secret, as they are, reversed or rot13.

use std::collections::{HashMap, HashSet};

use super::{DISTINCT, PRIVATE, SHORTEST, WINDOW};

/// A window: its length, and its bytes as one number.
pub(super) type Window = (usize, u128);

/// The table of windows. Up to twelve bytes of a window are one `u128`.
#[derive(Clone, Default)]
pub(super) struct Windows {
    /// Window lengths in use: [`WINDOW`], and those of secrets that are shorter.
    pub(super) lengths: Vec<usize>,
    table: HashMap<Window, (usize, &'static str)>,
    /// One bit for each hash of how a window ends: most positions are dismissed here.
    bits: Vec<u64>,
}

const FILTER_BITS: u32 = 17;

impl Windows {
    /// Learns the windows of one secret, of which `public` bytes at the beginning are known to all.
    pub(super) fn learn(&mut self, secret: usize, bytes: &[u8], public: usize) {
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

    /// Those that are not among `known`.
    pub(super) fn without(&self, known: &HashSet<Window>) -> Windows {
        let mut rest = self.clone();
        rest.table.retain(|window, _| !known.contains(window));
        rest
    }

    /// Whether a window may end with the last bytes of `key`, in any length.
    #[inline]
    pub(super) fn may_end(&self, key: u128) -> bool {
        let hash = hash(key);
        self.bits.get(hash >> 6).is_some_and(|bits| bits & (1 << (hash & 63)) != 0)
    }

    /// The secret that has this window, and the form in which it has it.
    pub(super) fn find(&self, length: usize, key: u128) -> Option<(usize, &'static str)> {
        self.table.get(&Windows::window(length, key)).copied()
    }

    /// The last `length` bytes of `key`.
    pub(super) fn window(length: usize, key: u128) -> Window {
        (length, key & ((1u128 << (8 * length)) - 1))
    }
}

/// Hashes the last [`SHORTEST`] bytes of a window, which windows of every length have.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a hash keeps the bits that it wants")]
fn hash(key: u128) -> usize {
    let last = (key as u64) << (64 - 8 * SHORTEST);
    (last.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER_BITS)) as usize
}

fn rot13(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        other => other,
    }
}
