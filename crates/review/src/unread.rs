//! The files that a review has left, in a form that stays small however many there are.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bytes of the paths of files that were left, where they are named.
const MAX_NAMED: usize = 8 << 10;
/// Bytes of the marks of files that were left, where they are marked: one bit for each changed file.
const MAX_MARKS: usize = 4 << 10;

/// What the last review has left, or rules have left out of it: all other files were read at its commit, or before and are
/// unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadFiles {
    /// The merge base that the commit was compared with.
    pub base: String,
    pub which: UnreadPaths,
}

/// Which files were left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnreadPaths {
    /// These.
    Named(Vec<String>),
    /// These of the files in which the commit differs from its base.
    Marked(FileMarks),
}

/// Some of the files of a difference, by their positions in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMarks {
    /// How many files the difference has.
    pub files: usize,
    /// 16 hexadecimal digits of all their paths, in their order.
    pub digest: String,
    /// A bit for each file, eight in a byte, the lowest first.
    pub bits: Vec<u8>,
}

impl UnreadPaths {
    /// `unread` by their paths where these are few, else by their positions among `all` files of the difference;
    /// `None` where both are too much.
    pub fn new<'a>(
        unread: Vec<String>,
        all: impl IntoIterator<Item = &'a str>,
    ) -> Option<UnreadPaths> {
        if is_short(&unread) {
            return Some(UnreadPaths::Named(unread));
        }
        let all: Vec<&str> = all.into_iter().collect();
        let unread: BTreeSet<&str> = unread.iter().map(String::as_str).collect();
        let mut bits = vec![0; all.len().div_ceil(8)];
        for (at, _) in all.iter().enumerate().filter(|(_, path)| unread.contains(*path)) {
            if let Some(byte) = bits.get_mut(at / 8) {
                *byte |= 1 << (at % 8);
            }
        }
        let marks = FileMarks { files: all.len(), digest: digest(&all), bits };
        marks.fits().then_some(UnreadPaths::Marked(marks))
    }

    /// Small enough to be kept.
    pub fn fits(&self) -> bool {
        match self {
            UnreadPaths::Named(paths) => is_short(paths),
            UnreadPaths::Marked(marks) => marks.fits(),
        }
    }
}

impl FileMarks {
    fn fits(&self) -> bool {
        self.bits.len() <= MAX_MARKS && self.bits.len() == self.files.div_ceil(8)
    }

    /// The marked ones among the files of the difference; `None` when that is not the one they were marked in.
    pub fn paths(&self, all: &[&str]) -> Option<Vec<String>> {
        if all.len() != self.files || digest(all) != self.digest {
            return None;
        }
        let is_marked =
            |at: usize| self.bits.get(at / 8).is_none_or(|byte| (byte >> (at % 8)) & 1 == 1);
        let marked = all.iter().enumerate().filter(|(at, _)| is_marked(*at));
        Some(marked.map(|(_, path)| (*path).to_owned()).collect())
    }
}

fn is_short(paths: &[String]) -> bool {
    paths.iter().map(|path| path.len() + 3).sum::<usize>() <= MAX_NAMED
}

fn digest(paths: &[&str]) -> String {
    let mut hash = Sha256::new();
    for path in paths {
        hash.update(path.as_bytes());
        hash.update([0]);
    }
    hex::encode(&hash.finalize()[..8])
}

#[cfg(test)]
mod tests {
    use crate::unread::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("a/rather/long/folder/name/file_{at:05}.rs")).collect()
    }

    #[test]
    fn few_are_named_and_many_are_marked() {
        let all = names(5000);
        let paths: Vec<&str> = all.iter().map(String::as_str).collect();
        let few = UnreadPaths::new(all[..20].to_vec(), paths.iter().copied());
        assert_eq!(few, Some(UnreadPaths::Named(all[..20].to_vec())));
        let Some(UnreadPaths::Marked(marks)) =
            UnreadPaths::new(all[301..].to_vec(), paths.iter().copied())
        else {
            panic!("they are marked");
        };
        assert_eq!(marks.bits.len(), 625);
        assert_eq!(marks.paths(&paths), Some(all[301..].to_vec()));
        // In another difference they say nothing.
        assert_eq!(marks.paths(&paths[1..]), None);
        let mut other = paths.clone();
        other.swap(7, 8);
        assert_eq!(marks.paths(&other), None);
        let most = names(40_000);
        assert_eq!(UnreadPaths::new(most.clone(), most.iter().map(String::as_str)), None);
    }
}
