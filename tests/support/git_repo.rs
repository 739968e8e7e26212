//! The real git, sealed from the machine's configuration, and repositories made with it.
#![expect(clippy::disallowed_methods, reason = "tests check against the real git")]
#![allow(dead_code, reason = "each test uses a part")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A file of a commit.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    path: String,
    mode: &'static str,
    content: Vec<u8>,
}

pub(crate) fn file(path: &str, content: impl Into<Vec<u8>>) -> Entry {
    Entry { path: path.to_owned(), mode: "100644", content: content.into() }
}

pub(crate) fn executable(path: &str, content: &str) -> Entry {
    Entry { path: path.to_owned(), mode: "100755", content: content.into() }
}

pub(crate) fn symlink(path: &str, target: &str) -> Entry {
    Entry { path: path.to_owned(), mode: "120000", content: target.into() }
}

/// A submodule at a commit that is somewhere else.
pub(crate) fn submodule(path: &str, commit: &str) -> Entry {
    Entry { path: path.to_owned(), mode: "160000", content: commit.into() }
}

/// A file that the commit takes away.
pub(crate) fn deleted(path: &str) -> Entry {
    Entry { path: path.to_owned(), mode: DELETED, content: Vec::new() }
}

/// A file that the commit moves. Another entry after this one may change what is in it.
pub(crate) fn renamed(from: &str, to: &str) -> Entry {
    Entry { path: from.to_owned(), mode: RENAMED, content: to.into() }
}

const DELETED: &str = "deleted";
const RENAMED: &str = "renamed";

/// The real git with nothing of the machine's configuration; returns its standard output.
pub(crate) fn git(folder: &Path, args: &[&str]) -> String {
    let output = command(folder, args).output().unwrap();
    assert!(
        output.status.success(),
        "git {args:?} in {}: {}{}",
        folder.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Like [`git`], for output that is no text.
pub(crate) fn git_bytes(folder: &Path, args: &[&str]) -> Vec<u8> {
    let output = command(folder, args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?} in {}: {said}", folder.display());
    output.stdout
}

/// Like [`git`], with standard input.
pub(crate) fn git_with_input(folder: &Path, args: &[&str], input: &[u8]) -> String {
    let mut child = command(folder, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The real git, sealed, to be run by the caller.
pub(crate) fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args(args).current_dir(folder).env_clear().envs(sealed(folder)).stdin(Stdio::null());
    command
}

pub(crate) fn sealed(home: &Path) -> [(&'static str, String); 10] {
    let person = "Test".to_owned();
    let address = "test@example.com".to_owned();
    [
        ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("HOME", home.display().to_string()),
        ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ("GIT_CONFIG_GLOBAL", "/dev/null".to_owned()),
        ("GIT_TERMINAL_PROMPT", "0".to_owned()),
        ("LC_ALL", "C".to_owned()),
        ("GIT_AUTHOR_NAME", person.clone()),
        ("GIT_AUTHOR_EMAIL", address.clone()),
        ("GIT_COMMITTER_NAME", person),
        ("GIT_COMMITTER_EMAIL", address),
    ]
}

/// Adds a commit to a branch of a bare repository through `git fast-import`; returns its id.
pub(crate) fn commit(
    path: &Path,
    branch: &str,
    message: &str,
    time: u64,
    files: &[Entry],
) -> String {
    let reference = format!("refs/heads/{branch}");
    let exists = !git(path, &["for-each-ref", &reference]).is_empty();
    let mut stream = format!(
        "commit {reference}\ncommitter Test <test@example.com> {time} +0000\ndata {}\n{message}\n",
        message.len()
    )
    .into_bytes();
    if exists {
        stream.extend_from_slice(format!("from {reference}^0\n").as_bytes());
    }
    for entry in files {
        let Entry { path, mode, content } = entry;
        let quoted = quote(path);
        if *mode == DELETED {
            stream.extend_from_slice(format!("D \"{quoted}\"\n").as_bytes());
        } else if *mode == RENAMED {
            let to = quote(&String::from_utf8_lossy(content));
            stream.extend_from_slice(format!("R \"{quoted}\" \"{to}\"\n").as_bytes());
        } else if *mode == "160000" {
            let commit = String::from_utf8_lossy(content);
            stream.extend_from_slice(format!("M {mode} {commit} \"{quoted}\"\n").as_bytes());
        } else {
            let head = format!("M {mode} inline \"{quoted}\"\ndata {}\n", content.len());
            stream.extend_from_slice(head.as_bytes());
            stream.extend_from_slice(content);
            stream.push(b'\n');
        }
    }
    git_with_input(path, &["fast-import", "--quiet", "--force"], &stream);
    git(path, &["rev-parse", &reference]).trim().to_owned()
}

fn quote(path: &str) -> String {
    path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
