//! Which of the changed files are read, in which order, and why the others are not. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::submodules::MovedSubmodule;
use patchwright_config::review::Review;
use patchwright_ecosystems::locks::is_lock_file;
use patchwright_ecosystems::packages::is_vendored;
use patchwright_git::hunks::{Diff, FileDiff};
use patchwright_policy::Globs;
use patchwright_types::reviewed::{Skipped, SkippedBecause};

/// What is reviewed of a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Positions of files, what matters most first.
    pub order: Vec<usize>,
    pub skipped: Vec<Skipped>,
}

/// What came after the commit that was reviewed before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesSince {
    /// Files that have to be read.
    pub paths: BTreeSet<String>,
    /// Numbers of the lines that were added since, by path.
    pub lines: BTreeMap<String, BTreeSet<u32>>,
}

impl ChangesSince {
    /// From what changed since then, and what was reviewed then: a file that was not part of the pull
    /// request at that time is new, though it has not changed.
    pub fn new(changed: &Diff, now: &Diff, then: Option<&Diff>) -> ChangesSince {
        let mut since = ChangesSince::default();
        for file in &changed.files {
            since.paths.insert(file.path.clone());
            let added = file.hunks.iter().flat_map(|hunk| &hunk.lines);
            let added = added.filter(|line| line.old.is_none()).filter_map(|line| line.new);
            since.lines.insert(file.path.clone(), added.collect());
        }
        if let Some(then) = then {
            let known: BTreeSet<&str> = then.files.iter().map(|file| file.path.as_str()).collect();
            let new = now.files.iter().filter(|file| !known.contains(file.path.as_str()));
            since.paths.extend(new.map(|file| file.path.clone()));
        }
        since
    }

    /// With files that were there at that time and that nobody has read: all of their lines are new.
    #[must_use]
    pub fn and_unread(mut self, unread: &[String], now: &Diff) -> ChangesSince {
        let unread: BTreeSet<&str> = unread.iter().map(String::as_str).collect();
        for file in now.files.iter().filter(|file| unread.contains(file.path.as_str())) {
            let added = file.hunks.iter().flat_map(|hunk| &hunk.lines);
            let added = added.filter(|line| line.old.is_none()).filter_map(|line| line.new);
            self.lines.insert(file.path.clone(), added.collect());
            self.paths.insert(file.path.clone());
        }
        self
    }
}

impl Scope {
    pub fn new(rules: &Review, diff: &Diff, since: Option<&ChangesSince>) -> Scope {
        let (wanted, ignored) = (Globs::new(&rules.paths), Globs::new(&rules.ignore_paths));
        let mut scope = Scope::default();
        let mut order = Vec::new();
        for (at, file) in diff.files.iter().enumerate() {
            let is_filtered = (!rules.paths.is_empty() && !wanted.matches(&file.path))
                || ignored.matches(&file.path);
            let is_known = since.is_some_and(|since| !since.paths.contains(&file.path));
            let why = match (is_filtered, file.opaque, is_known) {
                (true, _, _) => SkippedBecause::Filtered,
                // Nobody has read it, and nobody may think so.
                (false, true, _) if file.too_large => SkippedBecause::TooLarge,
                (false, true, _) => SkippedBecause::NotText,
                (false, false, true) => SkippedBecause::Earlier,
                (false, false, false) => {
                    order.push((rank(file), at));
                    continue;
                }
            };
            let lines = u64::from(file.added) + u64::from(file.deleted);
            scope.skipped.push(Skipped { path: file.path.clone(), lines, why });
        }
        order.sort_unstable();
        scope.order = order.into_iter().map(|(_, at)| at).collect();
        scope
    }

    /// The same, where no model is asked: what was to be read stays unread.
    #[must_use]
    pub fn without_reading(mut self, diff: &Diff) -> Scope {
        let order = std::mem::take(&mut self.order);
        for file in order.into_iter().filter_map(|at| diff.files.get(at)) {
            let lines = u64::from(file.added) + u64::from(file.deleted);
            let (path, why) = (file.path.clone(), SkippedBecause::NotRead);
            self.skipped.push(Skipped { path, lines, why });
        }
        self
    }

    /// Takes in lock files that are too large to be shown, where they can be told in other words.
    pub fn take_in(&mut self, told: &[usize], diff: &Diff) {
        for at in told {
            let Some(file) = diff.files.get(*at) else { continue };
            let is_it = |skipped: &Skipped| {
                skipped.why == SkippedBecause::TooLarge && skipped.path == file.path
            };
            if let Some(position) = self.skipped.iter().position(is_it) {
                self.skipped.remove(position);
                self.order.push(*at);
            }
        }
    }

    /// Says of which files without text the code is in other repositories.
    pub fn name_submodules(&mut self, moved: &[MovedSubmodule]) {
        for skipped in &mut self.skipped {
            let is_module = moved.iter().any(|module| module.path == skipped.path);
            if is_module && skipped.why == SkippedBecause::NotText {
                skipped.why = SkippedBecause::Submodule;
            }
        }
    }

    /// There is nothing that a model could read, and nothing that it should have read. What is too large to be shown is
    /// said in a review, though nobody reads it.
    pub fn is_nothing(&self) -> bool {
        self.order.is_empty() && !self.skipped.iter().any(|file| file.why.is_shortfall())
    }

    /// Why nothing is read of the pull request `number`, after a review at the commit `since` or before any.
    pub fn why_nothing(number: u64, since: Option<&str>) -> String {
        let name = format!("pull request #{number}");
        match since {
            Some(_) => {
                format!("nothing that is reviewed in {name} has changed since the last review")
            }
            None => format!("{name} has no file to review: all are filtered out or not text"),
        }
    }
}

/// Files that programs write: read last.
const GENERATED: &[&str] = &[
    "*.lock",
    "*-lock.json",
    "*-lock.yaml",
    "go.sum",
    "npm-shrinkwrap.json",
    "bun.lockb",
    "*.min.js",
    "*.min.css",
    "*.map",
    "*.snap",
    "*.pb.go",
    "*_pb2.py",
    "*_pb2.pyi",
    "*.pb.cc",
    "*.pb.h",
    "*.g.dart",
    "*.g.cs",
    "*.g.i.cs",
    "*.generated.*",
    "*.designer.cs",
    "*.svg",
    "*.ipynb",
    "*.csv",
    "__snapshots__/",
    "dist/",
    "generated/",
];
/// Read before them, and after the sources.
const WORDS: &[&str] = &["*.md", "*.rst", "*.txt", "*.adoc", "docs/", "LICENSE*", "*.po", "*.json"];
const TESTS: &[&str] = &["testdata/", "fixtures/", "test_*"];

/// What generators write at the top of their files, and the first lines in which they do.
const MARKS: &[&str] = &["<auto-generated", "@generated", "DO NOT EDIT"];
const MARKED_WITHIN: u32 = 20;

/// Sources first, then their tests, then texts, then what is generated.
fn rank(file: &FileDiff) -> u8 {
    static KINDS: std::sync::LazyLock<[Globs; 3]> = std::sync::LazyLock::new(|| {
        [GENERATED, WORDS, TESTS].map(|globs| {
            Globs::new(&globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>())
        })
    });
    let [generated, words, tests] = &*KINDS;
    let is_test = |path: &str| {
        tests.matches(path) || patchwright_policy::content::is_test(&path.to_lowercase())
    };
    match &file.path {
        path if generated.matches(path) || is_lock_file(path) || is_marked(file) => 3,
        path if path.split('/').any(is_vendored) => 3,
        path if words.matches(path) => 2,
        path if is_test(path) => 1,
        _ => 0,
    }
}

/// A program says that it has written the file.
fn is_marked(file: &FileDiff) -> bool {
    let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
    let is_top = |number: &u32| *number <= MARKED_WITHIN;
    let mut top = lines.take_while(|line| line.new.or(line.old).as_ref().is_some_and(is_top));
    top.any(|line| MARKS.iter().any(|mark| line.text.contains(mark)))
}

#[cfg(test)]
mod tests {
    use crate::review::scope::*;
    use patchwright_git::hunks::{FileStatus, Hunk, Line};

    fn file(path: &str) -> FileDiff {
        let line = Line { old: None, new: Some(1), text: "x".to_owned() };
        FileDiff {
            path: path.to_owned(),
            old_path: None,
            status: FileStatus::Added,
            opaque: false,
            too_large: false,
            is_link: false,
            modes: None,
            hunks: vec![Hunk { lines: vec![line] }],
            added: 1,
            deleted: 0,
        }
    }

    fn diff(paths: &[&str]) -> Diff {
        Diff { files: paths.iter().map(|path| file(path)).collect() }
    }

    fn names(scope: &Scope, diff: &Diff) -> Vec<String> {
        scope.order.iter().map(|at| diff.files[*at].path.clone()).collect()
    }

    #[test]
    fn sources_come_first_and_what_programs_write_last() {
        let all = diff(&["Cargo.lock", "README.md", "src/a_test.go", "src/a.go", "web/dist/x.js"]);
        let scope = Scope::new(&Review::default(), &all, None);
        let order = ["src/a.go", "src/a_test.go", "README.md", "Cargo.lock", "web/dist/x.js"];
        assert_eq!(names(&scope, &all), order);
    }

    #[test]
    fn each_file_that_is_left_out_has_its_reason() {
        let mut all = diff(&["src/a.rs", "src/b.rs", "gen/c.rs", "logo.png", "log.txt"]);
        all.files[3].opaque = true;
        (all.files[4].opaque, all.files[4].too_large) = (true, true);
        let rules = Review { ignore_paths: vec!["GEN/".to_owned()], ..Review::default() };
        let since = ChangesSince::new(&diff(&["src/b.rs"]), &all, None);
        let scope = Scope::new(&rules, &all, Some(&since));
        assert_eq!(names(&scope, &all), ["src/b.rs"]);
        let why: Vec<_> = scope.skipped.iter().map(|it| (it.path.as_str(), it.why)).collect();
        assert_eq!(
            why,
            [
                ("src/a.rs", SkippedBecause::Earlier),
                ("gen/c.rs", SkippedBecause::Filtered),
                ("logo.png", SkippedBecause::NotText),
                ("log.txt", SkippedBecause::TooLarge),
            ]
        );
        let only = Review { paths: vec!["src/*.rs".to_owned()], ..Review::default() };
        assert_eq!(names(&Scope::new(&only, &all, None), &all), ["src/a.rs", "src/b.rs"]);
    }

    #[test]
    fn a_file_that_was_not_part_of_the_pull_request_before_is_read_though_it_has_not_changed() {
        let now = diff(&["a.rs", "b.rs", "c.rs"]);
        let since = ChangesSince::new(&diff(&["a.rs"]), &now, Some(&diff(&["a.rs", "b.rs"])));
        assert!(since.paths.contains("a.rs") && since.paths.contains("c.rs"));
        assert!(!since.paths.contains("b.rs"));
        assert_eq!(since.lines["a.rs"], BTreeSet::from([1]));
    }
}
