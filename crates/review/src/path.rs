//! Which file of the diff a model means.

use std::collections::HashMap;

use super::anchor::IsFile;
use patchwright_git::hunks::Diff;

/// Longer paths are ignored, bytes.
const MAX_PATH: usize = 4096;

/// The paths of a diff.
pub(super) struct Paths<'a> {
    diff: &'a Diff,
    new: HashMap<&'a str, usize>,
    old: HashMap<&'a str, usize>,
    /// By the last part.
    names: HashMap<&'a str, Vec<usize>>,
}

/// What a path may mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PathMatches {
    /// Files of the diff, the likeliest first.
    pub(super) files: Vec<usize>,
    /// The first one is meant, whether the code is found there or not.
    pub(super) is_sure: bool,
    /// The line that was written behind the path.
    pub(super) line: Option<u32>,
}

impl<'a> Paths<'a> {
    pub(super) fn new(diff: &'a Diff) -> Paths<'a> {
        let mut paths =
            Paths { diff, new: HashMap::new(), old: HashMap::new(), names: HashMap::new() };
        for (at, file) in diff.files.iter().enumerate() {
            paths.new.insert(&file.path, at);
            if let Some(old) = &file.old_path {
                paths.old.insert(old, at);
            }
            paths.names.entry(name_of(&file.path)).or_default().push(at);
        }
        paths
    }

    /// The files that `given` may mean; none when there is no such file, or there are several.
    pub(super) fn meant(&self, given: &str) -> PathMatches {
        if given.len() > MAX_PATH {
            return PathMatches::default();
        }
        let (spellings, line) = spellings(given);
        let mut files = Vec::new();
        for spelling in &spellings {
            let known = [self.new.get(spelling.as_str()), self.old.get(spelling.as_str())];
            for file in known.into_iter().flatten() {
                if !files.contains(file) {
                    files.push(*file);
                }
            }
        }
        if !files.is_empty() {
            return PathMatches { files, is_sure: true, line };
        }
        let is_absolute = given.trim().starts_with(['/', '\\']);
        // Without diff signs only when it is nothing with them.
        for plain in spellings.iter().rev().take(2).rev() {
            if let (Some(file), is_sure) = self.by_end(plain, is_absolute) {
                return PathMatches { files: vec![file], is_sure, line };
            }
        }
        PathMatches { line, ..PathMatches::default() }
    }

    /// The file of the head that `given` names, when the pull request does not change it. `/workspace/x/y`
    /// names the longest end of it that is a file.
    pub(super) fn unchanged(&self, given: &str, is_file: &IsFile<'_>) -> Option<String> {
        if given.len() > MAX_PATH {
            return None;
        }
        let (spellings, _) = spellings(given);
        let is_changed = |path: &str| self.new.contains_key(path) || self.old.contains_key(path);
        if spellings.iter().any(|spelling| is_changed(spelling)) {
            return None;
        }
        let is_absolute = given.trim().starts_with(['/', '\\']);
        for spelling in &spellings {
            let mut path = spelling.as_str();
            loop {
                if is_changed(path) {
                    return None;
                }
                if is_file(path) {
                    return Some(path.to_owned());
                }
                match path.split_once('/') {
                    Some((_, rest)) if is_absolute && !rest.is_empty() => path = rest,
                    _ => break,
                }
            }
        }
        None
    }

    /// The only file whose path ends like this one, or the longest one that this one ends with.
    fn by_end(&self, given: &str, is_absolute: bool) -> (Option<usize>, bool) {
        let namesakes = self.names.get(name_of(given)).map_or(&[][..], Vec::as_slice);
        let path = |file: &usize| self.diff.files[*file].path.as_str();
        let mut inside = namesakes.iter().filter(|file| ends_with(path(file), given));
        match (inside.next(), inside.next()) {
            (Some(file), None) => return (Some(*file), true),
            (Some(_), Some(_)) => return (None, false),
            (None, _) => {}
        }
        let outside = namesakes
            .iter()
            .filter(|file| ends_with(given, path(file)))
            .max_by_key(|file| path(file).len());
        let is_sure = outside.is_some_and(|file| is_absolute || path(file).contains('/'));
        (outside.copied(), is_sure)
    }
}

/// Whole parts of a path.
fn ends_with(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|rest| rest.ends_with('/'))
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The path as it is and as it may be meant, the plainest last, and a line number behind it.
fn spellings(given: &str) -> (Vec<String>, Option<u32>) {
    let mut spellings = vec![given.to_owned()];
    let mut add = |spelling: &str| {
        if !spellings.iter().any(|known| known == spelling) && !spelling.is_empty() {
            spellings.push(spelling.to_owned());
        }
    };
    let trimmed = given.trim().trim_matches(['`', '"', '\'']).trim();
    add(trimmed);
    let (unnumbered, line) = without_line(trimmed);
    add(unnumbered);
    let slashes = unnumbered.replace('\\', "/");
    let mut plain = slashes.as_str();
    while let Some(rest) = plain.strip_prefix("./").or_else(|| plain.strip_prefix('/')) {
        plain = rest;
    }
    add(plain);
    if let Some(rest) = plain.strip_prefix("a/").or_else(|| plain.strip_prefix("b/")) {
        add(rest);
    }
    (spellings, line)
}

/// `path:12`, `path:12-15`, `path:12:3`, `path#L12`.
fn without_line(path: &str) -> (&str, Option<u32>) {
    let Some((before, behind)) = path.split_once("#L").or_else(|| path.split_once(':')) else {
        return (path, None);
    };
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    let is_position = behind.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | ':' | 'L'));
    match behind[..end].parse() {
        Ok(line) if is_position => (before, Some(line)),
        _ => (path, None),
    }
}

#[cfg(test)]
mod tests {
    use crate::path::*;
    use patchwright_git::hunks::{FileDiff, FileStatus};

    fn diff(paths: &[(&str, Option<&str>)]) -> Diff {
        let file = |(path, old): &(&str, Option<&str>)| FileDiff {
            path: (*path).to_owned(),
            old_path: old.map(str::to_owned),
            status: FileStatus::Modified,
            opaque: false,
            too_large: false,
            is_link: false,
            modes: None,
            hunks: Vec::new(),
            added: 0,
            deleted: 0,
        };
        Diff { files: paths.iter().map(file).collect() }
    }

    #[test]
    fn a_file_of_the_head_that_has_not_changed_is_nothing_else() {
        let diff = diff(&[("src/a.rs", None), ("other.py", None), ("new.rs", Some("old.rs"))]);
        let paths = Paths::new(&diff);
        let files = ["lib/src/a.rs", "lib/other.py", "b/src/a.rs", "README.md"];
        let is_file = |path: &str| files.contains(&path);
        let unchanged = |given: &str| paths.unchanged(given, &is_file);
        for (given, found) in [
            ("lib/src/a.rs", "lib/src/a.rs"),
            ("./lib/other.py:3", "lib/other.py"),
            ("/workspace/lib/other.py", "lib/other.py"),
            ("`README.md`", "README.md"),
        ] {
            assert_eq!(unchanged(given).as_deref(), Some(found), "{given}");
        }
        for given in ["src/a.rs", "/workspace/src/a.rs", "a/src/a.rs", "old.rs", "gone.rs", "", "/"]
        {
            assert_eq!(unchanged(given), None, "{given}");
        }
    }

    #[test]
    fn paths_are_understood_when_only_one_is_meant() {
        let diff = diff(&[
            ("src/a.rs", None),
            ("src/b/mod.rs", None),
            ("src/c/mod.rs", None),
            ("new/name.rs", Some("old/name.rs")),
            ("top.rs", None),
            ("a/x.rs", None),
        ]);
        let paths = Paths::new(&diff);
        let check = |given: &str, files: &[usize], is_sure: bool, line: Option<u32>| {
            let files = files.to_vec();
            assert_eq!(paths.meant(given), PathMatches { files, is_sure, line }, "{given}");
        };
        for given in
            ["src/a.rs", "./src/a.rs", "/src/a.rs", "a/src/a.rs", "b/src/a.rs", "`src/a.rs`"]
        {
            check(given, &[0], true, None);
        }
        check("src/a.rs:12", &[0], true, Some(12));
        check("src/a.rs#L12-L15", &[0], true, Some(12));
        check("src\\a.rs", &[0], true, None);
        check("/workspace/src/a.rs", &[0], true, None);
        check("repo/src/a.rs", &[0], true, None);
        check("a.rs", &[0], true, None);
        check("mod.rs", &[], false, None);
        check("b/mod.rs", &[1], true, None);
        check("old/name.rs", &[3], true, None);
        check("a/x.rs", &[5], true, None);
        check("lib/top.rs", &[4], false, None);
        check("/repo/top.rs", &[4], true, None);
        check("src/d.rs", &[], false, None);
        check("", &[], false, None);
        check(&"x/".repeat(5000), &[], false, None);
    }
}
