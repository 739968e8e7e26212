//! Which deleted and added files are one file that moved. Decided exactly as git decides it by
//! default, because it also decides where a forge has hunks: first files with the same content, then
//! files with the same name that is the only one of its kind and three quarters of the content, then
//! the most similar ones with at least half of it. Called by [`super::hunks`].
//!
//! libgit2 estimates similarity from samples, which is another result for files near the limit; so
//! this counts, as git does, how many bytes of each line (or 64 bytes) both files have.

use std::cmp::Ordering;
use std::collections::HashMap;

use git2::Odb;

use super::GitError;
use super::hunks::{FilePair, FileSide, is_binary};
use super::stop::Stop;

/// Similarity that is identity, in git's scale.
const SAME: f64 = 60_000.0;
/// Half.
const LEAST: f64 = 30_000.0;
/// For files with the same name: half of the way from half to identity.
const LEAST_FOR_NAMESAKES: f64 = 45_000.0;
/// With more pairs than the square of this, only identical files and namesakes are found.
const LIMIT: usize = 1000;
/// Candidates that are remembered for each added file.
const CANDIDATES: usize = 4;
/// Equal deleted files that are considered for one added file.
const EQUALS: usize = 100;
/// Content is counted in pieces that end with a line or after this many bytes.
const PIECE: u32 = 64;
/// Pieces are counted by their hash modulo this prime.
const HASHES: u32 = 107_927;
/// Larger files are renamed only when they are identical, bytes.
const MAX_FILE: usize = 16 << 20;
/// Bytes that are read, and pieces that are compared, for one difference; the rest counts as different.
const MAX_READ: usize = 256 << 20;
const MAX_COMPARED: usize = 2_000_000_000;

/// Joins the two halves of renamed files.
pub(super) fn pair_up(
    odb: &Odb<'_>,
    pairs: Vec<FilePair>,
    stop: &Stop,
) -> Result<Vec<FilePair>, GitError> {
    let (mut sources, mut targets) = (Vec::new(), Vec::new());
    for pair in &pairs {
        match (&pair.old, &pair.new) {
            (Some(old), None) => sources.push(Source::new(odb, old)?),
            (None, Some(new)) => targets.push(Target { file: Source::new(odb, new)?, from: None }),
            _ => {}
        }
    }
    if sources.is_empty() || targets.is_empty() {
        return Ok(pairs);
    }
    let (read, compared) = (MAX_READ, MAX_COMPARED);
    let mut search = Search { odb, sources, targets, read, compared, stop };
    search.identical();
    search.namesakes()?;
    search.similar()?;
    Ok(search.joined(pairs))
}

/// A file that is only on one side.
struct Source {
    version: FileSide,
    size: usize,
    used: bool,
    pieces: Option<Vec<(u32, u32)>>,
}

impl Source {
    fn new(odb: &Odb<'_>, version: &FileSide) -> Result<Source, GitError> {
        let size = if version.is_regular() { odb.read_header(version.id)?.0 } else { 0 };
        Ok(Source { version: version.clone(), size, used: false, pieces: None })
    }

    /// The last part of the path.
    fn name(&self) -> &[u8] {
        let path = &self.version.path;
        memchr::memrchr(b'/', path).map_or(path, |slash| &path[slash + 1..])
    }
}

struct Target {
    file: Source,
    /// The source that it was.
    from: Option<usize>,
}

struct Search<'a> {
    odb: &'a Odb<'a>,
    sources: Vec<Source>,
    targets: Vec<Target>,
    read: usize,
    compared: usize,
    stop: &'a Stop,
}

/// A pair that may be a rename.
#[derive(Clone, Copy)]
struct Candidate {
    score: u32,
    same_name: bool,
    source: usize,
    target: usize,
}

impl Candidate {
    /// The better one first.
    fn compare(&self, other: &Candidate) -> Ordering {
        let rank = |candidate: &Candidate| (candidate.score, candidate.same_name);
        rank(other).cmp(&rank(self))
    }
}

impl Search<'_> {
    fn join(&mut self, source: usize, target: usize) {
        self.sources[source].used = true;
        self.targets[target].from = Some(source);
    }

    /// Same content; of several the first with the same name, else the first.
    fn identical(&mut self) {
        let mut by_content: HashMap<git2::Oid, Vec<usize>> = HashMap::new();
        for (at, source) in self.sources.iter().enumerate() {
            by_content.entry(source.version.id).or_default().push(at);
        }
        for target in 0..self.targets.len() {
            let file = &self.targets[target].file;
            let Some(equal) = by_content.get_mut(&file.version.id) else { continue };
            equal.retain(|source| !self.sources[*source].used);
            let fits = |source: &&usize| {
                let (old, new) = (&self.sources[**source].version, &file.version);
                (old.is_regular() && new.is_regular()) || old.mode == new.mode
            };
            let mut equal = equal.iter().filter(fits).take(EQUALS).copied();
            let first = equal.next();
            let has_name = |source: &usize| self.sources[*source].name() == file.name();
            let best = first.filter(has_name).or_else(|| equal.find(has_name)).or(first);
            if let Some(source) = best {
                self.join(source, target);
            }
        }
    }

    /// Files whose name is unique among the deleted and among the added ones.
    fn namesakes(&mut self) -> Result<(), GitError> {
        let mut names: HashMap<Vec<u8>, [Vec<usize>; 2]> = HashMap::new();
        for (at, source) in self.sources.iter().enumerate().filter(|(_, source)| !source.used) {
            names.entry(source.name().to_vec()).or_default()[0].push(at);
        }
        for (at, target) in self.targets.iter().enumerate().filter(|(_, t)| t.from.is_none()) {
            names.entry(target.file.name().to_vec()).or_default()[1].push(at);
        }
        let mut unique: Vec<(usize, usize)> = names
            .into_values()
            .filter_map(|[sources, targets]| match (sources.as_slice(), targets.as_slice()) {
                ([source], [target]) => Some((*source, *target)),
                _ => None,
            })
            .collect();
        unique.sort_unstable();
        for (source, target) in unique {
            self.stop.check()?;
            if f64::from(self.similarity(source, target, LEAST_FOR_NAMESAKES)?)
                >= LEAST_FOR_NAMESAKES
            {
                self.join(source, target);
            }
        }
        Ok(())
    }

    /// The most similar pairs of what is left, best first.
    fn similar(&mut self) -> Result<(), GitError> {
        let sources: Vec<usize> =
            (0..self.sources.len()).filter(|at| !self.sources[*at].used).collect();
        let targets: Vec<usize> =
            (0..self.targets.len()).filter(|at| self.targets[*at].from.is_none()).collect();
        // git gives up at the same number (`diff.renameLimit`), and hunks must agree with git's.
        if sources.len().saturating_mul(targets.len()) > LIMIT * LIMIT {
            return Ok(());
        }
        let mut candidates = Vec::new();
        for target in targets {
            self.stop.check()?;
            let mut best: Vec<Candidate> = Vec::with_capacity(CANDIDATES);
            for &source in &sources {
                let score = self.similarity(source, target, LEAST)?;
                let same_name = self.sources[source].name() == self.targets[target].file.name();
                keep_if_better(&mut best, Candidate { score, same_name, source, target });
            }
            // Pieces of each target are needed once; those of sources stay, because every target
            // compares with them.
            self.targets[target].file.pieces = None;
            candidates.append(&mut best);
        }
        candidates.sort_by(Candidate::compare);
        for candidate in candidates {
            // Sorted by score, so none after this one is similar enough.
            if f64::from(candidate.score) < LEAST {
                break;
            }
            if self.targets[candidate.target].from.is_none() && !self.sources[candidate.source].used
            {
                self.join(candidate.source, candidate.target);
            }
        }
        Ok(())
    }

    /// How much of the larger file the two have in common; 0 when it is surely less than `least`.
    fn similarity(&mut self, source: usize, target: usize, least: f64) -> Result<u32, GitError> {
        let (old, new) = (&self.sources[source], &self.targets[target].file);
        if !old.version.is_regular() || !new.version.is_regular() {
            return Ok(0);
        }
        // The sizes alone can rule a pair out, without reading either file.
        let (larger, smaller) = (old.size.max(new.size), old.size.min(new.size));
        if as_f64(larger) * (SAME - least) < as_f64(larger - smaller) * SAME
            || smaller == 0
            || larger > MAX_FILE
            || self.compared == 0
        {
            return Ok(0);
        }
        for file in [&mut self.sources[source], &mut self.targets[target].file] {
            if file.pieces.is_none() {
                if file.size > self.read {
                    return Ok(0);
                }
                self.read -= file.size;
                file.pieces = Some(pieces(self.odb.read(file.version.id)?.data()));
            }
        }
        let (old, new) = (&self.sources[source].pieces, &self.targets[target].file.pieces);
        let (old, new) = (old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default());
        self.compared = self.compared.saturating_sub(old.len() + new.len());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 60,000")]
        let score = (f64::from(common(old, new)) * SAME / as_f64(larger)) as u32;
        Ok(score)
    }

    /// Each renamed file once, at its new path.
    fn joined(self, pairs: Vec<FilePair>) -> Vec<FilePair> {
        let (mut sources, mut targets) = (self.sources.iter(), self.targets.iter());
        pairs
            .into_iter()
            .filter_map(|pair| match (&pair.old, &pair.new) {
                (Some(_), None) if sources.next().is_some_and(|source| source.used) => None,
                (None, Some(_)) => {
                    let from = targets.next().and_then(|target| target.from);
                    let old = from.map(|source| self.sources[source].version.clone());
                    Some(FilePair { old, new: pair.new })
                }
                _ => Some(pair),
            })
            .collect()
    }
}

/// Takes the place of the worst one, when it is better than that.
fn keep_if_better(best: &mut Vec<Candidate>, candidate: Candidate) {
    if best.len() < CANDIDATES {
        best.push(candidate);
        return;
    }
    let mut worst = 0;
    for at in 1..best.len() {
        if best[at].compare(&best[worst]) == Ordering::Greater {
            worst = at;
        }
    }
    if best[worst].compare(&candidate) == Ordering::Greater {
        best[worst] = candidate;
    }
}

/// The content as bytes by hash of their piece, ordered by hash.
fn pieces(content: &[u8]) -> Vec<(u32, u32)> {
    let is_text = !is_binary(content);
    let mut found: Vec<(u32, u32)> = Vec::new();
    let (mut low, mut high, mut length) = (0_u32, 0_u32, 0_u32);
    for (at, &byte) in content.iter().enumerate() {
        // git ignores the CR of a CRLF in text, so a converted file is still the same file.
        if is_text && byte == b'\r' && content.get(at + 1) == Some(&b'\n') {
            continue;
        }
        // The rolling hash of git's `diffcore-delta.c`: other hashes collide elsewhere and would
        // give other scores.
        let before = low;
        low = ((low << 7) ^ (high >> 25)).wrapping_add(u32::from(byte));
        high = (high << 7) ^ (before >> 25);
        length += 1;
        if length < PIECE && byte != b'\n' {
            continue;
        }
        found.push((hash(low, high), length));
        (low, high, length) = (0, 0, 0);
    }
    if length > 0 {
        found.push((hash(low, high), length));
    }
    found.sort_unstable();
    // Equal pieces are counted together: only the number of common bytes matters.
    found.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    found
}

fn hash(low: u32, high: u32) -> u32 {
    low.wrapping_add(high.wrapping_mul(0x61)) % HASHES
}

/// Bytes that both have.
fn common(old: &[(u32, u32)], new: &[(u32, u32)]) -> u32 {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    let mut bytes = 0_u32;
    while let (Some(&&(a, in_old)), Some(&&(b, in_new))) = (old.peek(), new.peek()) {
        match a.cmp(&b) {
            Ordering::Less => _ = old.next(),
            Ordering::Greater => _ = new.next(),
            Ordering::Equal => {
                bytes = bytes.saturating_add(in_old.min(in_new));
                old.next();
                new.next();
            }
        }
    }
    bytes
}

#[expect(clippy::cast_precision_loss, reason = "sizes of files, far below 2^52")]
fn as_f64(size: usize) -> f64 {
    size as f64
}
