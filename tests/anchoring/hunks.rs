//! Files, renames, hunks and lines against the real git.

use std::path::Path;

use patchwright_git::Oid;
use patchwright_git::diff::tree_of;
use patchwright_git::hunks::{Diff, FileStatus, hunks, merge_base};
use patchwright_git::repo::Repo;

use super::trees::{self, Tree};
use crate::support::git_repo::git;
use crate::support::history;
use crate::support::quoted::Random;
use crate::support::real_diff::RealDiff;

pub(super) fn ours(repository: &Path, base: &str, head: &str) -> Diff {
    let repo = Repo::open(repository).unwrap();
    let tree = |commit: &str| tree_of(&repo, commit.parse::<Oid>().unwrap()).unwrap();
    hunks(&repo, tree(base), tree(head)).unwrap()
}

#[track_caller]
pub(super) fn compare(repository: &Path, base: &str, head: &str, name: &str) -> (RealDiff, Diff) {
    let real = RealDiff::between(repository, base, head);
    let ours = ours(repository, base, head);
    if let Some(difference) = real.differs_from(&ours) {
        panic!("{name}: git diff -M {base} {head}\n{difference}");
    }
    (real, ours)
}

fn pair(old: Tree, new: Tree) -> (RealDiff, Diff) {
    let folder = tempfile::tempdir().unwrap();
    let (path, commits) = trees::repository(folder.path(), &[old, new]);
    compare(&path, &commits[0], &commits[1], "pair")
}

fn tree(files: &[(&str, &'static str, &[u8])]) -> Tree {
    let entry = |(path, mode, content): &(&str, &'static str, &[u8])| {
        ((*path).to_owned(), (*mode, content.to_vec()))
    };
    files.iter().map(entry).collect()
}

#[test]
fn random_trees_differ_as_git_says() {
    let folder = tempfile::tempdir().unwrap();
    let random = &mut Random(11);
    let mut all = vec![trees::first(random)];
    for _ in 0..150 {
        let next = trees::next(all.last().unwrap(), random);
        all.push(next);
    }
    let (path, commits) = trees::repository(folder.path(), &all);
    let mut renamed = 0;
    for (at, pair) in commits.windows(2).enumerate() {
        let (real, _) = compare(&path, &pair[0], &pair[1], &format!("tree {at}"));
        renamed += real.files.iter().filter(|file| file.old_path.is_some()).count();
    }
    // Far apart, so that much is renamed, added and deleted at once.
    for (at, pair) in commits.windows(12).enumerate().step_by(4) {
        compare(&path, &pair[0], &pair[11], &format!("trees from {at}"));
    }
    assert!(renamed > 30, "only {renamed} renames were tested");
}

#[test]
fn real_history_differs_as_git_says() {
    let folder = tempfile::tempdir().unwrap();
    let own = history::own(folder.path(), 60);
    for pull in history::releases().into_iter().chain(own) {
        compare(&pull.repository, &pull.base, &pull.head, &pull.name);
    }
}

#[test]
fn unusual_files_are_named_and_not_read() {
    let text = b"one\ntwo\nthree\n".as_slice();
    let commit = b"1111111111111111111111111111111111111111".as_slice();
    let (_, diff) = pair(
        tree(&[
            ("binary", "100644", b"a\0b"),
            ("link", "120000", b"here"),
            ("mode", "100644", text),
            ("to-link", "100644", text),
            ("module", "160000", commit),
            ("empty", "100644", b""),
            ("gone", "100644", text),
        ]),
        tree(&[
            ("binary", "100644", b"a\0c"),
            ("link", "120000", b"there"),
            ("mode", "100755", text),
            ("to-link", "120000", b"there"),
            ("module", "160000", b"2222222222222222222222222222222222222222"),
            ("empty-too", "100644", b""),
            ("new", "100644", b"no newline"),
        ]),
    );
    let seen: Vec<_> = diff
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.status, file.opaque, file.hunks.len()))
        .collect();
    assert_eq!(
        seen,
        [
            ("binary", FileStatus::Modified, true, 0),
            ("empty-too", FileStatus::Renamed, false, 0),
            ("gone", FileStatus::Deleted, false, 1),
            ("link", FileStatus::Modified, false, 1),
            ("mode", FileStatus::ModeChanged, false, 0),
            ("module", FileStatus::Modified, true, 0),
            ("new", FileStatus::Added, false, 1),
            ("to-link", FileStatus::ModeChanged, false, 2),
        ]
    );
    let links: Vec<&str> =
        diff.files.iter().filter(|file| file.is_link).map(|file| file.path.as_str()).collect();
    assert_eq!(links, ["link", "to-link"]);
    let became = diff.files.last().unwrap();
    assert_eq!((became.added, became.deleted), (1, 3));
    assert_eq!(became.hunks[1].lines[0].text, "there", "where it leads");
}

#[test]
fn line_ends_and_bytes_that_are_no_text_are_no_obstacle() {
    let (_, diff) = pair(
        tree(&[("crlf", "100644", b"a\r\nb\r\nc"), ("latin", "100644", b"caf\xe9\nx\n")]),
        tree(&[("crlf", "100644", b"a\r\nB\r\nc\r\n"), ("latin", "100644", b"caf\xe9\ny\n")]),
    );
    let texts = |at: usize| -> Vec<&str> {
        diff.files[at].hunks[0].lines.iter().map(|line| line.text.as_str()).collect()
    };
    assert_eq!(texts(0), ["a", "b", "c", "B", "c"]);
    assert_eq!(texts(1), ["caf\u{fffd}", "x", "y"]);
}

#[test]
fn many_files_and_many_lines_are_compared() {
    let name = |at: usize| format!("dir{}/file{at}.txt", at % 50);
    let content = |at: usize, word: &str| format!("{word} {at}\nb\nc\nd\n").into_bytes();
    let all = |word: &str| -> Tree {
        (0..3000).map(|at| (name(at), ("100644", content(at, word)))).collect()
    };
    let (_, diff) = pair(all("old"), all("new"));
    assert_eq!(diff.files.len(), 3000);
    let lines = |count: usize| -> Vec<u8> {
        (0..count).flat_map(|at| format!("line number {at}\n").into_bytes()).collect()
    };
    let (_, diff) = pair(tree(&[]), tree(&[("f", "100644", &lines(20_000))]));
    assert_eq!((diff.files[0].opaque, diff.files[0].hunks[0].lines.len()), (false, 20_000));
    let (_, diff) = pair(tree(&[]), tree(&[("f", "100644", &lines(20_001))]));
    assert_eq!((diff.files[0].opaque, diff.files[0].added), (true, 20_001));
    assert!(diff.files[0].hunks.is_empty());
}

#[test]
fn similar_files_are_renames_exactly_when_git_says_so() {
    // Around the half, and with several candidates for each file.
    let folder = tempfile::tempdir().unwrap();
    let random = &mut Random(5);
    let mut all = Vec::new();
    for round in 0..40 {
        let mut old = Tree::new();
        let mut new = Tree::new();
        for at in 0..6 {
            let lines = 10 + random.below(300);
            let text = |random: &mut Random, keep: usize, round: usize| -> Vec<u8> {
                let line = |number: usize, random: &mut Random| match random.below(100) {
                    kept if kept < keep => format!("line {number} of {at} in {round}\n"),
                    _ => format!("other {}\n", random.below(1_000_000)),
                };
                (0..lines).flat_map(|number| line(number, random).into_bytes()).collect()
            };
            let (before, keep) = (text(random, 100, round), 40 + random.below(25));
            let mode = if random.one_in(5) { "100755" } else { "100644" };
            old.insert(format!("old/{at}/{}.txt", at % 4), ("100644", before));
            new.insert(format!("new/{}/{}.txt", at + 1, at % 3), (mode, text(random, keep, round)));
        }
        all.extend([old, new]);
    }
    let (path, commits) = trees::repository(folder.path(), &all);
    let mut renamed = 0;
    for (at, pair) in commits.chunks(2).enumerate() {
        let (real, _) = compare(&path, &pair[0], &pair[1], &format!("round {at}"));
        renamed += real.files.iter().filter(|file| file.old_path.is_some()).count();
    }
    assert!((40..220).contains(&renamed), "{renamed} renames");
}

#[test]
fn histories_part_at_their_merge_base() {
    let folder = tempfile::tempdir().unwrap();
    let one = |word: &str| tree(&[("f", "100644", word.as_bytes())]);
    let (path, commits) = trees::repository(folder.path(), &[one("a"), one("b"), one("c")]);
    let apart = git(&path, &["commit-tree", "-m", "x", &format!("{}^{{tree}}", commits[0])]);
    let beside = git(
        &path,
        &["commit-tree", "-m", "x", "-p", &commits[0], &format!("{}^{{tree}}", commits[1])],
    );
    let repo = Repo::open(&path).unwrap();
    let id = |text: &str| text.trim().parse::<Oid>().unwrap();
    let base = |a: &str, b: &str| merge_base(&repo, id(a), id(b)).unwrap();
    assert_eq!(base(&commits[2], &beside), Some(id(&commits[0])));
    assert_eq!(base(&commits[2], &commits[1]), Some(id(&commits[1])));
    assert_eq!(base(&commits[2], &apart), None);
    assert!(merge_base(&repo, id(&commits[0]), id(&"1".repeat(40))).is_err());
}
