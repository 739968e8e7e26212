//! A diff, prepared so that quoted lines are found in it quickly: an index from the hash of a line to
//! its places, and the lines of each side in a row.

use std::ops::Range;
use std::sync::OnceLock;

use super::code::{self, MatchQuality};
use super::quote::{QuoteVariant, is_blank};
use patchwright_forge::Side;
use patchwright_git::hunks::{Diff, Line};
use patchwright_guest::block::occurrences;

/// Lines that are compared to tell how well places fit, for one reading.
const MAX_FITTED: usize = 200_000;
/// Places of text within lines that are considered.
const MAX_HITS: usize = 1000;
/// Text within lines is at least this long, bytes of its key.
const MIN_TEXT: usize = 3;
/// Not in this row.
const NOWHERE: u32 = u32::MAX;

/// Which lines of a hunk are read in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// Context and added lines.
    Right = 0,
    /// Context and deleted lines.
    Left = 1,
    /// All, in the order of the diff.
    Mixed = 2,
}

pub(super) const ROWS: [Row; 3] = [Row::Right, Row::Left, Row::Mixed];

/// A line of the diff.
struct Entry<'a> {
    line: &'a Line,
    /// Counted over all files.
    hunk: u32,
    hash: u64,
    /// Where it stands in each row; [`NOWHERE`] for blank lines too.
    slots: [u32; 3],
}

/// See the module.
pub(super) struct Lines<'a> {
    entries: Vec<Entry<'a>>,
    /// Hash and entry, ordered.
    sorted: Vec<(u64, u32)>,
    /// Entries in a row.
    rows: [Vec<u32>; 3],
    /// How many changed lines are in front of each slot.
    changed: [Vec<u32>; 3],
    /// The entries of each file.
    files: Vec<Range<u32>>,
    texts: Vec<[OnceLock<Text>; 2]>,
}

/// The keys of one side of a file, one after another, hunks apart.
struct Text {
    text: String,
    /// Where each slot begins, from the first of the file.
    starts: Vec<usize>,
}

/// Where a quote may stand: slots of one row, inclusive, in one hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) row: Row,
    pub(super) first: usize,
    pub(super) last: usize,
}

/// What decides between places.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlacePreference {
    pub(super) line: Option<u32>,
    pub(super) side: Option<Side>,
}

/// Lines of one side, as a forge numbers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineSpan<'a> {
    pub(super) side: Side,
    pub(super) start: u32,
    pub(super) end: u32,
    /// The text of all of them.
    pub(super) code: Vec<&'a str>,
}

impl LineSpan<'_> {
    fn hashes(&self) -> Vec<u64> {
        let keys = self.code.iter().map(|line| code::key(line));
        keys.filter(|key| !key.is_empty()).map(|key| code::hash(&key)).collect()
    }
}

impl<'a> Lines<'a> {
    pub(super) fn new(diff: &'a Diff) -> Lines<'a> {
        let mut lines = Lines {
            entries: Vec::new(),
            sorted: Vec::new(),
            rows: Default::default(),
            changed: Default::default(),
            files: Vec::with_capacity(diff.files.len()),
            texts: diff.files.iter().map(|_| Default::default()).collect(),
        };
        let (mut hunk, mut key) = (0, String::new());
        for file in &diff.files {
            let start = to_u32(lines.entries.len());
            for one in file.hunks.iter().filter(|_| !file.opaque) {
                for line in &one.lines {
                    key.clear();
                    code::push_key(&line.text, &mut key);
                    lines.push(line, hunk, &key);
                }
                hunk += 1;
            }
            lines.files.push(start..to_u32(lines.entries.len()));
        }
        // Sorted by hash and then by position, so that the lines of one file are found by binary
        // search.
        lines.sorted.sort_unstable();
        lines
    }

    fn push(&mut self, line: &'a Line, hunk: u32, key: &str) {
        let hash = code::hash(key);
        let at = to_u32(self.entries.len());
        let mut slots = [NOWHERE; 3];
        // Blank lines get no slot: models drop and add them when they quote.
        if !key.is_empty() {
            self.sorted.push((hash, at));
            let is_in = [line.new.is_some(), line.old.is_some(), true];
            let is_changed = line.new.is_none() || line.old.is_none();
            for row in ROWS.map(|row| row as usize).into_iter().filter(|row| is_in[*row]) {
                slots[row] = to_u32(self.rows[row].len());
                let before = self.changed[row].last().copied().unwrap_or(0);
                self.changed[row].push(before + u32::from(is_changed));
                self.rows[row].push(at);
            }
        }
        self.entries.push(Entry { line, hunk, hash, slots });
    }

    /// The entries of a file.
    pub(super) fn of_file(&self, file: usize) -> Range<u32> {
        self.files.get(file).cloned().unwrap_or_default()
    }

    /// The entries of all files.
    pub(super) fn all(&self) -> Range<u32> {
        0..to_u32(self.entries.len())
    }

    /// The file that an entry belongs to.
    pub(super) fn file_of(&self, place: &SlotRange) -> usize {
        let entry = self.rows[place.row as usize][place.first];
        self.files.partition_point(|range| range.end <= entry)
    }

    /// Entries with this hash.
    pub(super) fn places_of(&self, hash: u64, within: &Range<u32>) -> &[(u64, u32)] {
        let start = self.sorted.partition_point(|entry| *entry < (hash, within.start));
        let rest = &self.sorted[start..];
        &rest[..rest.partition_point(|entry| *entry < (hash, within.end))]
    }

    /// The slot of an entry in a row.
    pub(super) fn slot(&self, entry: u32, row: Row) -> Option<usize> {
        let slot = self.entries[entry as usize].slots[row as usize];
        (slot != NOWHERE).then_some(slot as usize)
    }

    /// The slots of a row in some entries.
    fn slots(&self, row: Row, within: &Range<u32>) -> Range<usize> {
        let row = &self.rows[row as usize];
        row.partition_point(|entry| *entry < within.start)
            ..row.partition_point(|entry| *entry < within.end)
    }

    fn entry(&self, row: Row, slot: usize) -> &Entry<'a> {
        &self.entries[self.rows[row as usize][slot] as usize]
    }

    /// Both slots are in the same hunk.
    pub(super) fn is_one_hunk(&self, row: Row, first: usize, last: usize) -> bool {
        self.entry(row, first).hunk == self.entry(row, last).hunk
    }

    /// No slot of the same hunk is in front of this one.
    pub(super) fn opens_hunk(&self, row: Row, slot: usize) -> bool {
        slot == 0 || !self.is_one_hunk(row, slot - 1, slot)
    }

    /// No slot of the same hunk is behind this one.
    pub(super) fn closes_hunk(&self, row: Row, slot: usize) -> bool {
        slot + 1 >= self.rows[row as usize].len() || !self.is_one_hunk(row, slot, slot + 1)
    }

    fn has_changes(&self, row: Row, first: usize, last: usize) -> bool {
        let changed = &self.changed[row as usize];
        let before = first.checked_sub(1).map_or(0, |slot| changed[slot]);
        changed[last] > before
    }

    /// Context alone is always taken from the right, unless something was added in between.
    pub(super) fn counts(&self, row: Row, first: usize, last: usize) -> bool {
        let right = |slot: usize| self.entry(row, slot).slots[Row::Right as usize] as usize;
        row != Row::Left
            || self.has_changes(row, first, last)
            || right(last).wrapping_sub(right(first)) != last - first
    }

    /// Where the lines stand, each a whole line, nothing but blank lines between them. Linear in the
    /// lines of the range and of the quote.
    pub(super) fn whole(&self, row: Row, hashes: &[u64], within: &Range<u32>) -> Vec<SlotRange> {
        let mut places = self.whole_in_context(row, hashes, within);
        places.retain(|place| self.counts(row, place.first, place.last));
        places
    }

    /// [`Lines::whole`], on the left also where nothing was deleted.
    pub(super) fn whole_in_context(
        &self,
        row: Row,
        hashes: &[u64],
        within: &Range<u32>,
    ) -> Vec<SlotRange> {
        // Candidates come from the rarest line of the quote: a brace occurs everywhere.
        let rarest = hashes
            .iter()
            .map(|hash| self.places_of(*hash, within))
            .enumerate()
            .min_by_key(|(_, places)| places.len());
        let Some((offset, places)) = rarest else { return Vec::new() };
        let slots = self.slots(row, within);
        let row_hash = |slot: usize| self.entry(row, slot).hash;
        // Comparing at each candidate is quadratic for repeated lines, so from some size on a
        // linear search is used.
        let starts: Vec<usize> = if places.len().saturating_mul(hashes.len())
            > 4096 + 8 * (slots.len() + hashes.len())
        {
            let found = occurrences(slots.clone().map(row_hash), hashes, usize::MAX);
            found.into_iter().map(|at| slots.start + at).collect()
        } else {
            let is_here = |start: &usize| {
                start + hashes.len() <= slots.end
                    && hashes.iter().enumerate().all(|(at, hash)| row_hash(start + at) == *hash)
            };
            places
                .iter()
                .filter_map(|(_, entry)| self.slot(*entry, row)?.checked_sub(offset))
                .filter(|start| *start >= slots.start)
                .filter(is_here)
                .collect()
        };
        starts
            .into_iter()
            .map(|first| SlotRange { row, first, last: first + hashes.len() - 1 })
            .filter(|place| self.is_one_hunk(row, place.first, place.last))
            .collect()
    }

    /// Matches of the text within lines or across their ends.
    pub(super) fn text(&self, row: Row, needle: &str, file: usize) -> Vec<SlotRange> {
        if needle.len() < MIN_TEXT || !code::has_word(needle) || row == Row::Mixed {
            return Vec::new();
        }
        let Some(texts) = self.texts.get(file) else { return Vec::new() };
        let slots = self.slots(row, &self.of_file(file));
        let Text { text, starts } =
            texts[row as usize].get_or_init(|| self.write_text(row, slots.clone()));
        let slot_at = |at: usize| slots.start + starts.partition_point(|start| *start <= at) - 1;
        memchr::memmem::find_iter(text.as_bytes(), needle.as_bytes())
            .map(|at| SlotRange { row, first: slot_at(at), last: slot_at(at + needle.len() - 1) })
            .filter(|place| self.counts(row, place.first, place.last))
            .take(MAX_HITS)
            .collect()
    }

    fn write_text(&self, row: Row, slots: Range<usize>) -> Text {
        let (mut text, mut starts) = (String::new(), Vec::with_capacity(slots.len()));
        for slot in slots {
            // A newline occurs in no key, so no match can span two hunks.
            if !starts.is_empty() && self.opens_hunk(row, slot) {
                text.push('\n');
            }
            starts.push(text.len());
            code::push_key(&self.entry(row, slot).line.text, &mut text);
        }
        Text { text, starts }
    }

    /// The best of several places, and how the quote fits there: the side that its signs speak of,
    /// the best fit, then the nearest to the wish; without one the right side before the left,
    /// changed lines before context, the first before the others.
    pub(super) fn best(
        &self,
        mut places: Vec<SlotRange>,
        wish: PlacePreference,
        fit: impl Fn(&SlotRange) -> MatchQuality,
    ) -> Option<(SlotRange, MatchQuality)> {
        let order = |place: &SlotRange| {
            let start = self.start(place);
            let side = if place.row == Row::Left { Side::Left } else { Side::Right };
            let distance = wish.line.map(|line| start.abs_diff(line));
            let is_context = !self.has_changes(place.row, place.first, place.last);
            let other_side = wish.side.is_some_and(|wished| wished != side);
            (other_side, distance, place.row == Row::Left, is_context, place.first)
        };
        // Nearly always the first one in order fits exactly, and the others need not be sorted.
        let first = places.iter().min_by_key(|place| order(place))?;
        if fit(first) == MatchQuality::Exact {
            return Some((first.clone(), MatchQuality::Exact));
        }
        places.sort_by_cached_key(order);
        let mut work = 0;
        let mut best: Option<((bool, MatchQuality), SlotRange)> = None;
        for place in places {
            let side = order(&place).0;
            // The places are sorted by side first; none after this can be better.
            if best.as_ref().is_some_and(|((best_side, _), _)| side && !best_side) {
                break;
            }
            let fit = fit(&place);
            let is_exact = fit == MatchQuality::Exact;
            work += place.last - place.first + 1;
            let rank = (side, fit.class());
            if best.as_ref().is_none_or(|((side, fit), _)| rank < (*side, fit.class())) {
                best = Some(((side, fit), place));
            }
            if is_exact || work > MAX_FITTED {
                break;
            }
        }
        best.map(|((_, fit), place)| (place, fit))
    }

    /// The number of the first line of a place on its side.
    pub(super) fn start(&self, place: &SlotRange) -> u32 {
        let line = self.entry(place.row, place.first).line;
        let numbers =
            if place.row == Row::Left { [line.old, line.new] } else { [line.new, line.old] };
        numbers.into_iter().flatten().next().unwrap_or(0)
    }

    /// How the lines of a reading fit the whole lines of a place.
    pub(super) fn fit(&self, place: &SlotRange, reading: &QuoteVariant<'_>) -> MatchQuality {
        MatchQuality::compare(&self.code(place), &reading.lines)
    }

    /// The lines of a place, blank ones included.
    fn code(&self, place: &SlotRange) -> Vec<&'a str> {
        let row = &self.rows[place.row as usize];
        let entries = &self.entries[row[place.first] as usize..=row[place.last] as usize];
        entries
            .iter()
            .filter(|entry| match place.row {
                Row::Right => entry.line.new.is_some(),
                Row::Left => entry.line.old.is_some(),
                Row::Mixed => true,
            })
            .map(|entry| entry.line.text.as_str())
            .collect()
    }

    /// A place as lines of one side; of a mixed one the side with more of them, the right one when
    /// both have as many.
    pub(super) fn span(&self, place: &SlotRange) -> Option<LineSpan<'a>> {
        let row = &self.rows[place.row as usize];
        let entries = &self.entries[row[place.first] as usize..=row[place.last] as usize];
        let numbers = |side: Side| {
            entries.iter().filter(|entry| !is_blank(&entry.line.text)).filter_map(move |entry| {
                match side {
                    Side::Right => entry.line.new,
                    Side::Left => entry.line.old,
                }
            })
        };
        let side = match place.row {
            Row::Left => Side::Left,
            Row::Mixed if numbers(Side::Left).count() > numbers(Side::Right).count() => Side::Left,
            Row::Right | Row::Mixed => Side::Right,
        };
        let (start, end) = (numbers(side).next()?, numbers(side).next_back()?);
        let code = entries
            .iter()
            .filter(|entry| {
                let number = if side == Side::Right { entry.line.new } else { entry.line.old };
                number.is_some_and(|number| (start..=end).contains(&number))
            })
            .map(|entry| entry.line.text.as_str())
            .collect();
        Some(LineSpan { side, start, end, code })
    }
}

impl Lines<'_> {
    /// How often the code of a span occurs on its side of a file: before the span, and after it.
    pub(super) fn repeats(&self, span: &LineSpan<'_>, file: usize) -> (usize, usize) {
        let row = if span.side == Side::Right { Row::Right } else { Row::Left };
        let places = self.whole_in_context(row, &span.hashes(), &self.of_file(file));
        let starts = places.iter().map(|place| self.start(place));
        let before = starts.clone().filter(|start| *start < span.start).count();
        (before, starts.filter(|start| *start > span.start).count())
    }
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
