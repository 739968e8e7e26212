//! Whether somebody has taken what a finding suggests. Its code may be part of the suggestion (a guard in front of the same
//! line), or may differ from it in white space alone, so that its code is gone says nothing then.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::anchor::{Anchor, Anchored};
use super::fingerprint;
use patchwright_forge::Side;

/// Lines that are compared at most: those of the file times those that are looked for.
const MAX_COMPARED: usize = 4_000_000;

/// The suggestion of a finding, and how often its lines and the finding's stood in the file when it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnownSuggestion {
    /// What it consists of.
    pub lines: LinesDigest,
    /// The lines that it is for, with those around them.
    pub original: LinesDigest,
    /// How often its lines stood in the file.
    pub times: usize,
    /// How often the finding's code stood there beside them.
    pub elsewhere: usize,
    /// Somebody has taken it, and the finding is fixed.
    #[serde(default)]
    pub is_taken: bool,
}

/// Some lines, white space included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinesDigest {
    pub count: usize,
    /// 16 hexadecimal digits.
    pub digest: String,
}

/// What of a suggestion stands in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SuggestionCounts {
    /// How often its lines do.
    pub times: usize,
    /// How often the finding's code does where they do not.
    pub elsewhere: usize,
    /// How often the lines that it was for do, with those around them.
    pub originals: usize,
}

impl KnownSuggestion {
    /// The suggestion of a finding that stands on these lines of the head's file, whose code has this sketch.
    pub fn new(anchored: &Anchored, file: &[&str]) -> Option<KnownSuggestion> {
        let suggestion: Vec<&str> = anchored.suggestion.as_deref()?.lines().collect();
        let Anchor::Lines { side: Side::Right, line, start_line, .. } = &anchored.anchor else {
            return None;
        };
        let at = |number: u32| usize::try_from(number).ok()?.checked_sub(1);
        let (first, last) = (at(start_line.unwrap_or(*line))?, at(*line)?);
        let code = file.get(first..=last)?;
        // The file may be another one than the comment is placed on.
        if fingerprint::sketch(code.iter().copied()) != anchored.sketch {
            return None;
        }
        let around = first.saturating_sub(1)..last.saturating_add(2).min(file.len());
        let known = KnownSuggestion {
            lines: LinesDigest::new(&suggestion),
            original: LinesDigest::new(file.get(around)?),
            times: 0,
            elsewhere: 0,
            is_taken: false,
        };
        let SuggestionCounts { times, elsewhere, .. } = known.counts(file, &anchored.sketch)?;
        Some(KnownSuggestion { times, elsewhere, ..known })
    }

    /// What of it stands in these lines; `None` when they are too many. `sketch` is that of the finding's code.
    pub fn counts(&self, file: &[&str], sketch: &str) -> Option<SuggestionCounts> {
        let length = self.lines.count.max(self.original.count);
        if file.len().saturating_mul(length) > MAX_COMPARED {
            return None;
        }
        let starts = self.lines.starts(file);
        let is_inside = |(first, last): &(usize, usize)| {
            starts.iter().any(|start| start <= first && *last < start + self.lines.count)
        };
        let places = fingerprint::places(file, sketch);
        Some(SuggestionCounts {
            times: starts.len(),
            elsewhere: places.iter().filter(|place| !is_inside(place)).count(),
            originals: self.original.starts(file).len(),
        })
    }

    /// It stands once more than when it was made, and the finding's code once less beside it.
    pub(super) fn is_taken_by(&self, now: &SuggestionCounts) -> bool {
        now.times > self.times && now.elsewhere < self.elsewhere
    }
}

impl LinesDigest {
    fn new(lines: &[&str]) -> LinesDigest {
        LinesDigest { count: lines.len(), digest: digest(lines) }
    }

    /// Where these lines stand among others: the first line of each place, counted from 0.
    fn starts(&self, file: &[&str]) -> Vec<usize> {
        if self.count == 0 {
            return Vec::new();
        }
        let windows = file.windows(self.count).enumerate();
        windows.filter(|(_, window)| digest(window) == self.digest).map(|(at, _)| at).collect()
    }
}

fn digest(lines: &[&str]) -> String {
    let mut hash = Sha256::new();
    for line in lines {
        hash.update(line.as_bytes());
        hash.update(b"\n");
    }
    hex::encode(&hash.finalize()[..8])
}
