//! `patchwright_git` against a real git server and checked with the real git.

mod apply;
mod by_id;
mod change;
mod clone;
mod confined;
mod hostile;
mod merge;
mod push;
mod upload;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use patchwright_ecosystems::files::{Kind, Tree};
use patchwright_git::clone::{Asker, Repo, fetch, mirror, module_mirror, remote_ref};
use patchwright_git::commit::{CommitSpec, Identity, create};
use patchwright_git::diff::{DiffSpec, tree_of, unified};
use patchwright_git::push::push;
use patchwright_git::transport::{Credentials, Limits, Remote};
use patchwright_git::tree::{
    ArchiveOptions, Change, FileChange, archive, build, file_at, list_at, restrict,
};
use patchwright_git::{GitError, Oid, PushOutcome, blocking};
use patchwright_guest::protocol::Collected;
use patchwright_sandbox::ContainerLimits;
use patchwright_sandbox::client::{CollectedFile, CollectedKind, CollectedTree};
use patchwright_task::workspace::{Additions, Workspace};
use tempfile::TempDir;

use crate::support::git_http::{Access, Fault, GitState, Step, serve};
use crate::support::git_repo::{
    Entry, command, deleted, executable, file, git, git_with_input, submodule, symlink,
};
use crate::support::guest::Guest;

pub(crate) const TOKEN: &str = "ghs_0123456789abcdefghijklmnopqrstuvwxyz";
pub(crate) const REPOSITORY: &str = "acme/app";

/// A git server with one repository, and a state folder of ours.
pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) server: Arc<GitState>,
    pub(crate) url: String,
}

impl World {
    /// The repository is private and has these files on `main`.
    pub(crate) async fn with(files: &[Entry]) -> World {
        let dir = tempfile::tempdir().unwrap();
        let server = GitState::new(&dir.path().join("server"));
        server.create(REPOSITORY);
        server.make_private(REPOSITORY);
        server.allow(TOKEN, Access::Write);
        if !files.is_empty() {
            server.commit(REPOSITORY, "main", "First", files);
        }
        let url = serve(server.clone()).await;
        World { dir, server, url }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn clone_url(&self) -> String {
        format!("{}/{REPOSITORY}.git", self.url)
    }

    pub(crate) fn remote(&self) -> Remote {
        self.remote_with(Some(TOKEN))
    }

    pub(crate) fn remote_with(&self, token: Option<&str>) -> Remote {
        let credentials = token.map(|token| Credentials::token(token.to_owned().into()));
        let limits = Limits { idle: Duration::from_secs(20), ..Limits::default() };
        Remote::http(&client(), &self.clone_url(), credentials).unwrap().limited(limits)
    }

    /// The mirror with `main` in it.
    pub(crate) async fn fetched(&self) -> Repo {
        self.fetch(self.remote(), &["main"], 50).await.unwrap()
    }

    pub(crate) async fn fetch(
        &self,
        remote: Remote,
        refs: &[&str],
        depth: u32,
    ) -> Result<Repo, GitError> {
        let (state, url) = (self.state(), self.clone_url());
        let refs: Vec<String> = refs.iter().map(|name| (*name).to_owned()).collect();
        blocking(move || {
            let repo = mirror(&state, &url)?;
            fetch(&repo, &remote, &refs, depth)?;
            Ok(repo)
        })
        .await
    }

    /// A commit of ours on `main` that adds one file.
    pub(crate) fn our_commit(repo: &Repo, path: &str) -> Oid {
        let base = repo.resolve("main").unwrap();
        let change = build(repo, base, &collected(&[added(path, "new\n")], &[])).unwrap();
        create(repo, base, change.tree, &spec("Add a file")).unwrap()
    }

    pub(crate) async fn push(
        &self,
        repo: &Repo,
        commit: Oid,
        branch: &str,
        expected: Option<Oid>,
    ) -> Result<PushOutcome, GitError> {
        let (repo, remote, branch) = (repo.clone(), self.remote(), branch.to_owned());
        blocking(move || push(&repo, &remote, commit.into(), &branch, expected)).await
    }
}

pub(crate) fn client() -> reqwest::Client {
    let builder = reqwest::Client::builder().no_proxy();
    builder.redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

pub(crate) fn spec(message: &str) -> CommitSpec {
    let bot = Identity { name: "Patchwright".to_owned(), email: "bot@example.com".to_owned() };
    CommitSpec {
        author: bot.clone(),
        committer: bot,
        message: message.to_owned(),
        trailers: Vec::new(),
        time: DateTime::<Utc>::from_timestamp(1_800_000_000, 0).unwrap(),
    }
}

pub(crate) fn added(path: &str, content: &str) -> CollectedFile {
    let content = Bytes::copy_from_slice(content.as_bytes());
    CollectedFile {
        path: path.to_owned(),
        kind: CollectedKind::File { executable: false, content },
    }
}

pub(crate) fn linked(path: &str, target: &str) -> CollectedFile {
    CollectedFile { path: path.to_owned(), kind: CollectedKind::Symlink { target: target.into() } }
}

pub(crate) fn collected(files: &[CollectedFile], deleted: &[&str]) -> CollectedTree {
    let files = files.iter().map(|file| CollectedFile {
        path: file.path.clone(),
        kind: match &file.kind {
            CollectedKind::File { executable, content } => {
                CollectedKind::File { executable: *executable, content: content.clone() }
            }
            CollectedKind::Symlink { target } => CollectedKind::Symlink { target: target.clone() },
        },
    });
    let deleted = deleted.iter().map(|path| (*path).to_owned()).collect();
    CollectedTree { files: files.collect(), listing: Collected { deleted, ..Collected::default() } }
}

/// One line per file: what happened, mode, path, lines.
pub(crate) fn summary(change: &Change) -> String {
    let line = |file: &FileChange| {
        let mode = |entry: &Option<patchwright_git::tree::Entry>| {
            entry.map_or("-".to_owned(), |entry| format!("{:o}", entry.mode.bits()))
        };
        let counts = format!("+{} -{}", file.added_lines, file.removed_lines);
        let lines = if file.binary { "binary".to_owned() } else { counts };
        format!("{} {} {} {lines}\n", mode(&file.old), mode(&file.new), file.path)
    };
    let refused = change.refused.iter().map(|(path, reason)| format!("refused {path}: {reason}\n"));
    change.files.iter().map(line).chain(refused).collect()
}

/// The upload tar of a commit, unpacked the way a guest would do it.
pub(crate) fn unpacked(repo: &Repo, commit: Oid, depth: u32) -> TempDir {
    let tar = archive(repo, commit, &ArchiveOptions::new("main", depth), Vec::new()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut tar = tar::Archive::new(tar.as_slice());
    tar.set_preserve_permissions(true);
    tar.set_preserve_ownerships(false);
    tar.unpack(dir.path()).unwrap();
    dir
}

/// Every byte of every file below a folder contains no trace of the secret.
pub(crate) fn assert_without(folder: &Path, secret: &str) {
    for entry in walk(folder) {
        let content = fs_err::read(&entry).unwrap();
        let found = content.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "{} contains the token", entry.display());
    }
}

pub(crate) fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(walk(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Bytes that do not compress.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..length).map(next).collect()
}

/// A tree with everything that trees may contain.
pub(crate) fn all_kinds() -> Vec<Entry> {
    let long = format!("{}/deep.txt", ["a-rather-long-folder-name"; 8].join("/"));
    vec![
        file("README.md", "# App\n"),
        executable("bin/run", "#!/bin/sh\n"),
        symlink("link", "README.md"),
        symlink("long-link", &long),
        symlink("outside", "/etc/passwd"),
        file(&long, "deep\n"),
        file("empty", ""),
        file("crlf.txt", "a\r\nb\r\n"),
        file("héllo wörld", "unicode\n"),
        file(".gitattributes", "*.txt text eol=crlf ident\n*.bin filter=lfs diff=lfs -text\n"),
        file("$Id$.txt", "$Id$\n"),
        file("data.bin", "version https://git-lfs.github.com/spec/v1\n"),
        file("raw.dat", noise(70_000)),
        submodule("vendor/lib", "0123456789012345678901234567890123456789"),
    ]
}
