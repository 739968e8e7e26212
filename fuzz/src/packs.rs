//! The pack of a finished change, as a database of somebody else's holds it. What is taken in is the one
//! commit on the base that is here; of anything else nothing is kept.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use patchwright_git::Oid;
use patchwright_git::bundle::unpack_here;
use patchwright_git::repo::Repo;

/// The base that is here; the commit that the seed holds comes after it.
const BASE: &str = "commit refs/heads/main\ncommitter A <a@example.com> 1700000000 +0000\ndata 5\nFirst\n\
     M 100644 inline a.txt\ndata 4\none\n\n";
const NEXT: &str = "commit refs/heads/next\ncommitter A <a@example.com> 1700000000 +0000\ndata 6\nChange\n\
     from refs/heads/main\nM 100644 inline a.txt\ndata 4\ntwo\n\n";

/// A bare repository with this history, and the ids of its branches.
fn repository(history: &str, branch: &str) -> (PathBuf, Oid) {
    let path = tempfile::tempdir().expect("a folder").keep().join("repository.git");
    Repo::create(&path).expect("a repository");
    let run = |args: &[&str], input: &str| {
        #[expect(clippy::disallowed_methods, reason = "git itself makes what is checked")]
        let mut child = Command::new("git")
            .arg("-C")
            .arg(&path)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("git is there");
        child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        String::from_utf8(output.stdout).expect("a name")
    };
    run(&["fast-import", "--quiet"], history);
    let id = run(&["rev-parse", branch], "");
    (path, id.trim().parse().expect("an id"))
}

fn packs(repository: &Path) -> usize {
    let folder = repository.join("objects/pack");
    std::fs::read_dir(folder).map_or(0, |entries| {
        entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|it| it == "pack"))
            .count()
    })
}

/// Checks all of it for one input.
pub fn check(data: &[u8]) {
    is_taken(data);
}

/// Checks one input; true when it holds the change.
pub fn is_taken(data: &[u8]) -> bool {
    static HERE: LazyLock<(PathBuf, Oid, Oid)> = LazyLock::new(|| {
        let (path, base) = repository(BASE, "main");
        let (_, next) = repository(&[BASE, NEXT].concat(), "next");
        (path, base, next)
    });
    let (path, base, next) = &*HERE;
    let here = Repo::open(path).expect("a repository");
    let before = packs(path);
    if let Ok(parent) = unpack_here(&here, data, *next) {
        assert_eq!(parent, *base, "a change on another base");
        true
    } else {
        assert_eq!(packs(path), before, "something was kept of what was refused");
        false
    }
}
