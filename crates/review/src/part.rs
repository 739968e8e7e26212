//! Quotes of which not every line is in a hunk: lines left out with `...`, and the longest part that
//! is there.

use std::collections::HashMap;
use std::ops::Range;

use super::code;
use super::lines::{Lines, ROWS, Row, SlotRange};
use super::quote::QuoteVariant;

/// Places of a first segment that are tried.
const MAX_TRIED: usize = 200;
/// Segments that are searched.
const MAX_SEGMENTS: usize = 30;
/// Candidate places for one reading.
const MAX_STEPS: usize = 400_000;
/// A single line at the edge of a hunk is at least this long, bytes of its key.
const MIN_EDGE: usize = 6;
/// Lines without any word are at least this long, bytes of their keys.
const MIN_SIGNS: usize = 16;
/// How far from the expected line the part may be when it is shorter.
const NEAR: u32 = 3;

/// Where all segments of a quote follow each other in one hunk.
pub(super) fn elided(
    lines: &Lines<'_>,
    reading: &QuoteVariant<'_>,
    within: &Range<u32>,
) -> Vec<SlotRange> {
    let segments = reading.segments();
    if segments.len() > MAX_SEGMENTS {
        return Vec::new();
    }
    let mut found = Vec::new();
    for row in [Row::Right, Row::Left] {
        let places: Vec<Vec<SlotRange>> =
            segments.iter().map(|segment| anywhere(lines, row, segment, within)).collect();
        let Some((firsts, rest)) = places.split_first() else { continue };
        for first in firsts.iter().take(MAX_TRIED) {
            let mut last = first.last;
            let follows = rest.iter().all(|places| {
                let next = places.partition_point(|place| place.first <= last);
                let Some(place) = places.get(next) else { return false };
                last = place.last;
                true
            });
            if follows
                && lines.is_one_hunk(row, first.first, last)
                && lines.counts(row, first.first, last)
            {
                found.push(SlotRange { row, first: first.first, last });
            }
        }
    }
    found
}

/// Where a segment stands, in order; on the left also in context.
fn anywhere(lines: &Lines<'_>, row: Row, hashes: &[u64], within: &Range<u32>) -> Vec<SlotRange> {
    let mut places = lines.whole_in_context(row, hashes, within);
    places.sort_by_key(|place| place.first);
    places
}

/// The longest run of quoted lines that stands in a hunk, when it is a large part of the quote or ends
/// where the hunk ends. All places of it.
pub(super) fn longest(
    lines: &Lines<'_>,
    reading: &QuoteVariant<'_>,
    within: &Range<u32>,
    line: Option<u32>,
) -> Vec<SlotRange> {
    let mut search =
        Search { lines, line, quote: PrefixSums::new(reading), best: 0, found: Vec::new() };
    let mut steps = 0;
    for row in ROWS {
        let mut runs: HashMap<usize, usize> = HashMap::new();
        for (at, hash) in reading.hashes.iter().enumerate() {
            let mut next = HashMap::new();
            let places = lines.places_of(*hash, within);
            steps += places.len() + 1;
            if steps > MAX_STEPS {
                return search.found;
            }
            for slot in places.iter().filter_map(|(_, entry)| lines.slot(*entry, row)) {
                let before = if lines.opens_hunk(row, slot) { None } else { runs.get(&(slot - 1)) };
                let length = before.map_or(1, |length| length + 1);
                next.insert(slot, length);
                search.consider(row, slot, at, length);
            }
            runs = next;
        }
    }
    search.found
}

/// What of a quote is how much.
struct PrefixSums {
    /// Bytes of keys in front of each line, and at the end.
    bytes: Vec<usize>,
    /// Lines with words in front of each line, and at the end.
    words: Vec<usize>,
}

impl PrefixSums {
    fn new(reading: &QuoteVariant<'_>) -> PrefixSums {
        let mut sums = PrefixSums { bytes: vec![0], words: vec![0] };
        let (mut bytes, mut words) = (0, 0);
        for key in &reading.keys {
            bytes += key.len();
            words += usize::from(code::has_word(key));
            sums.bytes.push(bytes);
            sums.words.push(words);
        }
        sums
    }

    fn lines(&self) -> usize {
        self.bytes.len() - 1
    }
}

struct Search<'a> {
    lines: &'a Lines<'a>,
    line: Option<u32>,
    quote: PrefixSums,
    best: usize,
    found: Vec<SlotRange>,
}

impl Search<'_> {
    /// A run of `length` quoted lines that ends with line `at` of the quote, in `slot`.
    fn consider(&mut self, row: Row, slot: usize, at: usize, length: usize) {
        let (from, to) = (at + 1 - length, at + 1);
        let bytes = self.quote.bytes[to] - self.quote.bytes[from];
        let says_nothing = self.quote.words[to] == self.quote.words[from] && bytes < MIN_SIGNS;
        if bytes < self.best || says_nothing {
            return;
        }
        let place = SlotRange { row, first: slot + 1 - length, last: slot };
        if !self.lines.counts(row, place.first, place.last) || !self.is_enough(&place, from, to) {
            return;
        }
        if bytes > self.best {
            self.best = bytes;
            self.found.clear();
        }
        self.found.push(place);
    }

    fn is_enough(&self, place: &SlotRange, from: usize, to: usize) -> bool {
        let all = self.quote.bytes[self.quote.lines()];
        let bytes = self.quote.bytes[to] - self.quote.bytes[from];
        if bytes * 2 >= all {
            return true;
        }
        let starts = from == 0 || self.lines.opens_hunk(place.row, place.first);
        let ends = to == self.quote.lines() || self.lines.closes_hunk(place.row, place.last);
        let is_near = self.line.is_some_and(|line| {
            let expected = line.saturating_add(u32::try_from(from).unwrap_or(u32::MAX));
            self.lines.start(place).abs_diff(expected) <= NEAR
        });
        starts && ends && (bytes >= MIN_EDGE || is_near)
    }
}
