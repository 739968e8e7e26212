//! Trees that are small as objects and endless as files: counted, not walked.

use std::path::Path;

use patchwright_git::Oid;
use patchwright_git::diff::{DiffSpec, unified};
use patchwright_git::hunks::hunks;
use patchwright_git::repo::Repo;
use patchwright_git::tree::{ArchiveOptions, archive, paths_at};

use crate::support::github::GitHub;
use crate::support::world::TestWorld;

/// Each folder has ten names for the one below; 10 to the power of `depth` files of one blob, or, without
/// one, as many empty folders.
fn bomb(git: &git2::Repository, depth: u32, leaf: Option<&[u8]>) -> git2::Oid {
    let (mut id, mut mode) = match leaf {
        Some(content) => (git.blob(content).unwrap(), 0o100_644),
        None => (git.treebuilder(None).unwrap().write().unwrap(), 0o040_000),
    };
    for _ in 0..depth {
        let mut tree = git.treebuilder(None).unwrap();
        for name in 0..10 {
            tree.insert(format!("{name}"), id, mode).unwrap();
        }
        id = tree.write().unwrap();
        mode = 0o040_000;
    }
    id
}

fn commit(git: &git2::Repository, tree: git2::Oid, parents: &[git2::Oid]) -> git2::Oid {
    let who = git2::Signature::new("A", "a@example.com", &git2::Time::new(0, 0)).unwrap();
    let tree = git.find_tree(tree).unwrap();
    let parents: Vec<_> = parents.iter().map(|id| git.find_commit(*id).unwrap()).collect();
    let parents: Vec<_> = parents.iter().collect();
    git.commit(None, &who, &who, "Bomb", &tree, &parents).unwrap()
}

fn memory_mb() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn a_tree_without_end_is_counted_and_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::create(&folder.path().join("r.git")).unwrap();
    let git = git2::Repository::open_bare(repo.path()).unwrap();
    let empty = Oid(git.treebuilder(None).unwrap().write().unwrap());
    let before = memory_mb();
    for depth in [5, 6, 7, 30, 200] {
        let one = bomb(&git, depth, Some(b"x\n"));
        let other = bomb(&git, depth, Some(b"y\n"));
        let error = hunks(&repo, empty, Oid(one)).unwrap_err().to_string();
        assert_eq!(error, "there are more than 20000 files", "{depth}");
        assert!(hunks(&repo, Oid(one), empty).is_err(), "{depth}: deleted");
        assert!(hunks(&repo, Oid(one), Oid(other)).is_err(), "{depth}: changed");
        assert_eq!(hunks(&repo, Oid(one), Oid(one)).unwrap().files, [], "{depth}: the same");
        if depth > 6 {
            let at = Oid(commit(&git, one, &[]));
            let options = ArchiveOptions::new("main", 1);
            let error = archive(&repo, at, &options, std::io::sink()).unwrap_err().to_string();
            assert_eq!(error, "the repository has more than 1000000 files and folders");
            assert!(unified(&repo, empty, Oid(one), DiffSpec::all()).is_err());
            assert_eq!(paths_at(&repo, at, 100).unwrap().len(), 100);
        }
    }
    // Folders only: no files, so nothing differs; and nobody goes through them.
    for depth in [6, 40] {
        let hollow = bomb(&git, depth, None);
        assert_eq!(hunks(&repo, empty, Oid(hollow)).unwrap().files, []);
        let at = Oid(commit(&git, hollow, &[]));
        assert!(archive(&repo, at, &ArchiveOptions::new("main", 1), std::io::sink()).is_err());
    }
    let cost = memory_mb() - before;
    assert!(cost < 200, "{cost} MB");
}

#[test]
fn folders_that_differ_without_files_are_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::create(&folder.path().join("r.git")).unwrap();
    let git = git2::Repository::open_bare(repo.path()).unwrap();
    let one = bomb(&git, 30, None);
    let mut tree = git.treebuilder(None).unwrap();
    tree.insert("empty", git.treebuilder(None).unwrap().write().unwrap(), 0o040_000).unwrap();
    let mut other = tree.write().unwrap();
    for _ in 0..30 {
        let mut tree = git.treebuilder(None).unwrap();
        for name in 0..10 {
            tree.insert(format!("{name}"), other, 0o040_000).unwrap();
        }
        other = tree.write().unwrap();
    }
    assert_eq!(hunks(&repo, Oid(one), Oid(other)).unwrap().files, []);
}

/// Puts a bomb on the head of the pull request's branch in the server's repository.
fn plant(path: &Path, branch: &str, depth: u32) {
    let git = git2::Repository::open_bare(path).unwrap();
    let name = format!("refs/heads/{branch}");
    let tip = git.refname_to_id(&name).unwrap();
    let bomb = bomb(&git, depth, Some(b"x\n"));
    let tree = git.find_commit(tip).unwrap().tree().unwrap();
    let mut with = git.treebuilder(Some(&tree)).unwrap();
    with.insert("many", bomb, 0o040_000).unwrap();
    let planted = commit(&git, with.write().unwrap(), &[tip]);
    git.reference(&name, planted, true, "bomb").unwrap();
}

#[test]
fn a_pull_request_of_a_hundred_thousand_files_is_refused_before_anything_is_started() {
    let base = [("calc.sh", "add() {\n  echo $(($1 + $2))\n}\n"), ("README.md", "# calc\n")];
    let github = GitHub::new()
        .repository("acme/app", &base)
        .pull(8, "Add divide", "divide", &[("calc.sh", "divide() {\n  echo $(($1 / $2))\n}\n")])
        .by("rita");
    let world = TestWorld::new(github, []);
    plant(&world.github.of("acme/app").path(), "divide", 5);
    world.github.push_to_pull(8, &[]);
    let output = world.run(&["review", "acme/app#8"]).expect(30);
    assert!(output.stderr.contains("there are too many files to review"), "{}", output.text());
    assert!(output.stderr.contains("more than 20000 files"), "{}", output.text());
    assert!(world.model.requests().is_empty());
}
