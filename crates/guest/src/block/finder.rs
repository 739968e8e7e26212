//! The first place of a block behind another place, first exactly, then ever more loosely.
//!
//! Each pass turns lines into keys and looks through the whole rest of the file before the next pass
//! begins. A plain scan does that best for a few blocks; a patch with many blocks that only match
//! loosely would scan the file once per block and pass, so a scan has an allowance, and when that
//! is used up the pass gets an index: key → places. From then on a block costs as much as its rarest
//! line has places left, and nothing at all when one of its lines does not occur.

use std::borrow::Cow;
use std::collections::HashMap;

/// Turns a line into what is compared in one pass.
pub type Key = for<'x> fn(&'x str) -> Cow<'x, str>;

/// The passes of the `apply_patch` format.
pub const PASSES: &[Key] = &[
    |line| Cow::Borrowed(line),
    |line| Cow::Borrowed(line.trim_end()),
    |line| Cow::Borrowed(line.trim()),
    fold,
];

/// Trims, and turns typographic dashes, quotes and blanks into their ASCII relatives.
fn fold(line: &str) -> Cow<'_, str> {
    let line = line.trim();
    if line.is_ascii() || line.chars().all(|c| folded(c) == c) {
        return Cow::Borrowed(line);
    }
    Cow::Owned(line.chars().map(folded).collect())
}

fn folded(c: char) -> char {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

/// Looks for blocks in the lines of one file.
pub struct Finder<'a> {
    lines: &'a [&'a str],
    passes: &'static [Key],
    indexes: Vec<Option<Index<'a>>>,
    /// Line comparisons that plain scans may still make.
    allowance: usize,
}

impl<'a> Finder<'a> {
    pub fn new(lines: &'a [&'a str], passes: &'static [Key]) -> Finder<'a> {
        let indexes = passes.iter().map(|_| None).collect();
        Finder { lines, passes, indexes, allowance: 8 * lines.len() + 1024 }
    }

    /// The first place at or behind `from` where the block begins, in the strictest pass that finds
    /// one. An empty block is found at `from`.
    pub fn find(&mut self, block: &[&str], from: usize) -> Option<usize> {
        (0..self.passes.len()).find_map(|pass| self.find_in_pass(pass, block, from))
    }

    /// Finds the block in one pass only.
    pub fn find_in_pass(&mut self, pass: usize, block: &[&str], from: usize) -> Option<usize> {
        if block.is_empty() {
            return Some(from);
        }
        let last_start = self.lines.len().checked_sub(block.len())?;
        let key = self.passes[pass];
        let block: Vec<Cow<'_, str>> = block.iter().map(|line| key(line)).collect();
        let mut start = from;
        while self.indexes[pass].is_none() {
            if start > last_start {
                return None;
            }
            let same = self.matching_lines(key, &block, start);
            if same == block.len() {
                return Some(start);
            }
            start += 1;
            self.allowance = self.allowance.saturating_sub(same + 1);
            if self.allowance == 0 {
                self.indexes[pass] = Some(Index::new(self.lines, key));
            }
        }
        self.indexes[pass].as_mut()?.find(&block, start)
    }

    /// Whether the block stands at `start`, in any pass; all its lines match in the same pass.
    pub fn is_at(&self, block: &[&str], start: usize) -> bool {
        start + block.len() <= self.lines.len()
            && self.passes.iter().any(|key| {
                block.iter().zip(&self.lines[start..]).all(|(want, line)| key(want) == key(line))
            })
    }

    /// How many lines of the block match at `start` before the first one that does not.
    fn matching_lines(&self, key: Key, block: &[Cow<'_, str>], start: usize) -> usize {
        let lines = &self.lines[start..];
        block.iter().zip(lines).take_while(|(want, line)| **want == key(line)).count()
    }
}

/// Where each key stands, and hashes to compare whole blocks at once.
struct Index<'a> {
    numbers: HashMap<Cow<'a, str>, u32>,
    /// The number of the key of each line.
    lines: Vec<u32>,
    /// The places of key `n`, ascending, are `places[starts[n]..starts[n + 1]]`.
    places: Vec<u32>,
    starts: Vec<u32>,
    /// `hashes[i]` is the polynomial hash of the first `i` lines.
    hashes: Vec<u64>,
    /// Powers of [`BASE`].
    powers: Vec<u64>,
    /// Blocks that do not occur at or behind a place.
    missing: HashMap<Vec<u32>, usize>,
}

const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

impl<'a> Index<'a> {
    fn new(texts: &[&'a str], key: Key) -> Index<'a> {
        let mut numbers = HashMap::with_capacity(texts.len());
        let mut lines = Vec::with_capacity(texts.len());
        let mut counts: Vec<u32> = Vec::new();
        for text in texts {
            let fresh = u32::try_from(counts.len()).unwrap_or(u32::MAX);
            let number = *numbers.entry(key(text)).or_insert(fresh);
            if number == fresh {
                counts.push(0);
            }
            counts[number as usize] += 1;
            lines.push(number);
        }
        let mut starts = Vec::with_capacity(counts.len() + 1);
        let mut total = 0;
        for count in &counts {
            starts.push(total);
            total += count;
        }
        starts.push(total);
        let mut next = starts.clone();
        let mut places = vec![0; lines.len()];
        for (place, number) in (0_u32..).zip(&lines) {
            let slot = &mut next[*number as usize];
            places[*slot as usize] = place;
            *slot += 1;
        }
        let (hashes, powers) = prefix_hashes(&lines);
        Index { numbers, lines, places, starts, hashes, powers, missing: HashMap::new() }
    }

    fn find(&mut self, block: &[Cow<'_, str>], from: usize) -> Option<usize> {
        let block: Vec<u32> = block
            .iter()
            .map(|key| self.numbers.get(key.as_ref()).copied())
            .collect::<Option<_>>()?;
        if self.missing.get(&block).is_some_and(|place| from >= *place) {
            return None;
        }
        let found = self.search(&block, from);
        if found.is_none() {
            self.missing.insert(block, from);
        }
        found
    }

    fn search(&self, block: &[u32], from: usize) -> Option<usize> {
        let (offset, candidates) = block
            .iter()
            .enumerate()
            .map(|(offset, number)| (offset, self.places_from(*number, from + offset)))
            .min_by_key(|(_, places)| places.len())?;
        let hash = prefix_hashes(block).0[block.len()];
        candidates.iter().map(|place| *place as usize - offset).find(|start| {
            let end = start + block.len();
            end <= self.lines.len()
                && self.window(*start, end) == hash
                && self.lines[*start..end] == *block
        })
    }

    fn places_from(&self, number: u32, from: usize) -> &[u32] {
        let number = number as usize;
        let places = &self.places[self.starts[number] as usize..self.starts[number + 1] as usize];
        &places[places.partition_point(|place| (*place as usize) < from)..]
    }

    fn window(&self, start: usize, end: usize) -> u64 {
        self.hashes[end].wrapping_sub(self.hashes[start].wrapping_mul(self.powers[end - start]))
    }
}

fn prefix_hashes(numbers: &[u32]) -> (Vec<u64>, Vec<u64>) {
    let mut hashes = Vec::with_capacity(numbers.len() + 1);
    let mut powers = Vec::with_capacity(numbers.len() + 1);
    let (mut hash, mut power) = (0_u64, 1_u64);
    hashes.push(hash);
    powers.push(power);
    for number in numbers {
        hash = hash.wrapping_mul(BASE).wrapping_add(u64::from(*number) + 1);
        power = power.wrapping_mul(BASE);
        hashes.push(hash);
        powers.push(power);
    }
    (hashes, powers)
}
