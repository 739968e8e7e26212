//! Which new files go along when there are more than a collection may have: whole folders that the tree
//! has nothing in are dropped first, the largest ones before others, so that what was written by hand
//! stays. What is dropped is counted by folder. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::protocol::LeftOut;

/// Rows of the list of what was left out; the last one is then the sum of the rest.
const MAX_ROWS: usize = 100;

/// What one collection may have.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub files: usize,
    pub bytes: u64,
}

/// Files that belong together: a folder, or one file alone.
#[derive(Default)]
struct Group {
    paths: Vec<Vec<u8>>,
    bytes: u64,
}

/// New files, as far as they fit.
pub struct Selection {
    limits: Limits,
    groups: HashMap<Vec<u8>, Group>,
    /// The groups by their share, the one that takes most of what there is last.
    by_share: BTreeSet<(u64, Vec<u8>)>,
    /// Folders that were dropped.
    dropped: HashSet<Vec<u8>>,
    files: usize,
    bytes: u64,
}

/// What was left out, by place.
#[derive(Default)]
pub struct Rest(BTreeMap<Vec<u8>, (u64, u64)>);

impl Selection {
    pub fn new(limits: Limits) -> Selection {
        Selection {
            limits,
            groups: HashMap::new(),
            by_share: BTreeSet::new(),
            dropped: HashSet::new(),
            files: 0,
            bytes: 0,
        }
    }

    /// Adds a file; `folder` is the length of the path of the folder that it goes with.
    pub fn add(&mut self, path: &[u8], folder: Option<usize>, bytes: u64, rest: &mut Rest) {
        let key = folder.map_or(path, |length| &path[..length]);
        if folder.is_some() && self.dropped.contains(key) {
            rest.add(path, folder, 1, bytes);
            return;
        }
        let group = self.groups.entry(key.to_vec()).or_default();
        if !group.paths.is_empty() {
            self.by_share.remove(&(share(self.limits, group), key.to_vec()));
        }
        group.paths.push(path.to_vec());
        group.bytes = group.bytes.saturating_add(bytes);
        self.by_share.insert((share(self.limits, group), key.to_vec()));
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        while self.files > self.limits.files || self.bytes > self.limits.bytes {
            let Some((_, key)) = self.by_share.pop_last() else { break };
            self.drop_group(key, rest);
        }
    }

    fn drop_group(&mut self, key: Vec<u8>, rest: &mut Rest) {
        let Some(group) = self.groups.remove(&key) else { return };
        self.files -= group.paths.len();
        self.bytes = self.bytes.saturating_sub(group.bytes);
        let is_file = group.paths.first() == Some(&key);
        let folder = (!is_file).then_some(key.len());
        let files = group.paths.len() as u64;
        if let Some(path) = group.paths.first() {
            rest.add(path, folder, files, group.bytes);
        }
        if !is_file {
            self.dropped.insert(key);
        }
    }

    /// The files that fit, by path.
    pub fn paths(self) -> Vec<Vec<u8>> {
        let mut paths: Vec<_> = self.groups.into_values().flat_map(|group| group.paths).collect();
        paths.sort_unstable();
        paths
    }
}

/// How much of what there is a group takes, in millionths: of the files or the bytes, whichever is more.
fn share(limits: Limits, group: &Group) -> u64 {
    let of = |part: u64, whole: u64| part.saturating_mul(1_000_000) / whole.max(1);
    of(group.paths.len() as u64, limits.files as u64).max(of(group.bytes, limits.bytes))
}

impl Rest {
    /// Counts files that are left out: with the folder that they go with, else with the one they are in.
    pub fn add(&mut self, path: &[u8], folder: Option<usize>, files: u64, bytes: u64) {
        let place = match folder {
            Some(length) => [&path[..length], b"/"].concat(),
            None => match path.iter().rposition(|byte| *byte == b'/') {
                Some(slash) => [&path[..slash], b"/*"].concat(),
                None => b"*".to_vec(),
            },
        };
        let row = self.0.entry(place).or_default();
        row.0 = row.0.saturating_add(files);
        row.1 = row.1.saturating_add(bytes);
    }

    /// The places with most files first.
    pub fn rows(self, shown: impl Fn(&[u8]) -> String) -> Vec<LeftOut> {
        let mut rows: Vec<_> = self.0.into_iter().collect();
        rows.sort_by_key(|(_, (files, bytes))| std::cmp::Reverse((*files, *bytes)));
        let others = rows.split_off(rows.len().min(MAX_ROWS));
        let mut rows: Vec<LeftOut> = rows
            .into_iter()
            .map(|(place, (files, bytes))| LeftOut { path: shown(&place), files, bytes })
            .collect();
        if !others.is_empty() {
            let (files, bytes) = others.iter().fold((0_u64, 0_u64), |sum, (_, row)| {
                (sum.0.saturating_add(row.0), sum.1.saturating_add(row.1))
            });
            rows.push(LeftOut { path: "…".to_owned(), files, bytes });
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use crate::selection::*;

    fn chosen(files: &[(&str, Option<usize>, u64)]) -> (Vec<String>, Vec<(String, u64, u64)>) {
        let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let mut rest = Rest::default();
        let mut selection = Selection::new(Limits { files: 3, bytes: 100 });
        for (path, folder, bytes) in files {
            selection.add(path.as_bytes(), *folder, *bytes, &mut rest);
        }
        let kept = selection.paths().iter().map(|path| text(path)).collect();
        let rows = rest.rows(text).into_iter().map(|row| (row.path, row.files, row.bytes));
        (kept, rows.collect())
    }

    #[test]
    fn the_largest_folder_goes_first_and_takes_all_of_itself_along() {
        let files = [
            ("fix.py", None, 1),
            ("v/a", Some(1), 1),
            ("v/b", Some(1), 1),
            ("v/in/c", Some(1), 1),
            ("v/in/d", Some(1), 1),
            ("w/e", Some(1), 1),
        ];
        let (kept, rest) = chosen(&files);
        assert_eq!(kept, ["fix.py", "w/e"]);
        assert_eq!(rest, [("v/".to_owned(), 4, 4)]);
    }

    #[test]
    fn single_files_go_by_their_size_and_are_counted_where_they_are() {
        let files = [("big", None, 90), ("s/huge", None, 99), ("small", None, 2)];
        let (kept, rest) = chosen(&files);
        assert_eq!(kept, ["big", "small"]);
        assert_eq!(rest, [("s/*".to_owned(), 1, 99)]);
        let (kept, rest) = chosen(&[("a", None, 200)]);
        assert!(kept.is_empty());
        assert_eq!(rest, [("*".to_owned(), 1, 200)]);
    }
}
