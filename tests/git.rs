//! `patchwright::git` against a real git server and checked with the real git.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use patchwright::git::clone::{Repo, fetch, mirror, remote_ref};
use patchwright::git::commit::{CommitSpec, Identity, create};
use patchwright::git::diff::{DiffSpec, tree_of, unified};
use patchwright::git::push::push;
use patchwright::git::transport::{Credentials, Limits, Remote};
use patchwright::git::tree::{
    ArchiveOptions, Change, FileChange, Mode, archive, build, file_at, list_at, restrict,
};
use patchwright::git::{GitError, Oid, PushOutcome, blocking};
use patchwright::guest::client::{CollectedFile, CollectedKind, CollectedTree};
use patchwright::guest::protocol::Collected;
use tempfile::TempDir;

use crate::support::git_http::{
    Access, Entry, Fault, GitState, Step, command, executable, file, git, git_with_input, serve,
    submodule, symlink,
};

const TOKEN: &str = "ghs_0123456789abcdefghijklmnopqrstuvwxyz";
const REPOSITORY: &str = "acme/app";

/// A git server with one repository, and a state folder of ours.
struct World {
    dir: TempDir,
    server: Arc<GitState>,
    url: String,
}

impl World {
    /// The repository is private and has these files on `main`.
    async fn with(files: &[Entry]) -> World {
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

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn clone_url(&self) -> String {
        format!("{}/{REPOSITORY}.git", self.url)
    }

    fn remote(&self) -> Remote {
        self.remote_with(Some(TOKEN))
    }

    fn remote_with(&self, token: Option<&str>) -> Remote {
        let credentials = token.map(|token| Credentials::token(token.to_owned().into()));
        let limits = Limits { idle: Duration::from_secs(20), ..Limits::default() };
        Remote::http(&client(), &self.clone_url(), credentials).unwrap().limited(limits)
    }

    /// The mirror with `main` in it.
    async fn fetched(&self) -> Repo {
        self.fetch(self.remote(), &["main"], 50).await.unwrap()
    }

    async fn fetch(&self, remote: Remote, refs: &[&str], depth: u32) -> Result<Repo, GitError> {
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
    fn our_commit(repo: &Repo, path: &str) -> Oid {
        let base = repo.resolve("main").unwrap();
        let change = build(repo, base, &collected(&[added(path, "new\n")], &[])).unwrap();
        create(repo, base, change.tree, &spec("Add a file")).unwrap()
    }

    async fn push(
        &self,
        repo: &Repo,
        commit: Oid,
        branch: &str,
        expected: Option<Oid>,
    ) -> Result<PushOutcome, GitError> {
        let (repo, remote, branch) = (repo.clone(), self.remote(), branch.to_owned());
        blocking(move || push(&repo, &remote, commit, &branch, expected)).await
    }
}

fn client() -> reqwest::Client {
    let builder = reqwest::Client::builder().no_proxy();
    builder.redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

fn spec(message: &str) -> CommitSpec {
    let bot = Identity { name: "Patchwright".to_owned(), email: "bot@example.com".to_owned() };
    CommitSpec {
        author: bot.clone(),
        committer: bot,
        message: message.to_owned(),
        trailers: Vec::new(),
        time: DateTime::<Utc>::from_timestamp(1_800_000_000, 0).unwrap(),
    }
}

fn added(path: &str, content: &str) -> CollectedFile {
    let content = Bytes::copy_from_slice(content.as_bytes());
    CollectedFile {
        path: path.to_owned(),
        kind: CollectedKind::File { executable: false, content },
    }
}

fn linked(path: &str, target: &str) -> CollectedFile {
    CollectedFile { path: path.to_owned(), kind: CollectedKind::Symlink { target: target.into() } }
}

fn collected(files: &[CollectedFile], deleted: &[&str]) -> CollectedTree {
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
    CollectedTree { files: files.collect(), listing: Collected { deleted, refused: Vec::new() } }
}

/// One line per file: what happened, mode, path, lines.
fn summary(change: &Change) -> String {
    let line = |file: &FileChange| {
        let mode = |entry: &Option<patchwright::git::tree::Entry>| {
            entry.map_or("-".to_owned(), |entry| format!("{:o}", entry.mode.bits()))
        };
        let lines = match file.binary {
            true => "binary".to_owned(),
            false => format!("+{} -{}", file.added_lines, file.removed_lines),
        };
        format!("{} {} {} {lines}\n", mode(&file.old), mode(&file.new), file.path)
    };
    let refused = change.refused.iter().map(|(path, reason)| format!("refused {path}: {reason}\n"));
    change.files.iter().map(line).chain(refused).collect()
}

/// The upload tar of a commit, unpacked the way a guest would do it.
fn unpacked(repo: &Repo, commit: Oid, depth: u32) -> TempDir {
    let tar = archive(repo, commit, &ArchiveOptions::new("main", depth), Vec::new()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut tar = tar::Archive::new(tar.as_slice());
    tar.set_preserve_permissions(true);
    tar.set_preserve_ownerships(false);
    tar.unpack(dir.path()).unwrap();
    dir
}

/// Every byte of every file below a folder contains no trace of the secret.
fn assert_without(folder: &Path, secret: &str) {
    for entry in walk(folder) {
        let content = fs_err::read(&entry).unwrap();
        let found = content.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "{} contains the token", entry.display());
    }
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() && !path.is_symlink() {
            true => found.extend(walk(&path)),
            false => found.push(path),
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_shallow_with_a_token_in_the_header_only() {
    let world = World::with(&[file("a", "1\n")]).await;
    for number in 2..=9 {
        world.server.commit(REPOSITORY, "main", "More", &[file("a", format!("{number}\n"))]);
    }
    let repo = world.fetch(world.remote(), &["main"], 3).await.unwrap();

    let tip = world.server.tip(REPOSITORY, "main").unwrap();
    assert_eq!(repo.resolve("main").unwrap().to_string(), tip);
    assert_eq!(git(repo.path(), &["rev-list", "--count", &tip]).trim(), "3");
    let refs = git(repo.path(), &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/patchwright/heads/main\n");
    git(repo.path(), &["fsck", "--strict"]);

    let requests = world.server.requests();
    assert!(requests.iter().all(|request| request.authorization.is_some()), "{requests:?}");
    assert!(requests.iter().all(|request| !request.target.contains(TOKEN)), "{requests:?}");
    assert_without(&world.state(), TOKEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_nothing_when_it_is_all_here() {
    let world = World::with(&[file("a", "1\n")]).await;
    world.server.commit(REPOSITORY, "main", "Second", &[file("a", "2\n")]);
    let fetches = || {
        let requests = world.server.requests();
        requests
            .iter()
            .filter(|request| {
                request.target.contains("git-upload-pack") && request.method == "POST"
            })
            .count()
    };
    world.fetch(world.remote(), &["main"], 1).await.unwrap();
    let cold = fetches();
    world.fetch(world.remote(), &["main"], 1).await.unwrap();
    assert_eq!(fetches(), cold, "the same depth again");
    let repo = world.fetch(world.remote(), &["main"], 50).await.unwrap();
    assert!(fetches() > cold, "a deeper history");
    assert_eq!(git(repo.path(), &["rev-list", "--count", "refs/patchwright/heads/main"]), "2\n");

    let third = world.server.commit(REPOSITORY, "main", "Third", &[file("b", "3\n")]);
    let repo = world.fetch(world.remote(), &["main"], 50).await.unwrap();
    assert_eq!(repo.resolve("main").unwrap().to_string(), third);
    git(repo.path(), &["fsck", "--strict"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fetches_commits_pulls_and_head_by_name() {
    let world = World::with(&[file("a", "1\n")]).await;
    let first = world.server.tip(REPOSITORY, "main").unwrap();
    let second = world.server.commit(REPOSITORY, "main", "Second", &[file("a", "2\n")]);
    let path = world.server.path(REPOSITORY);
    git(&path, &["update-ref", "refs/pull/7/head", &first]);
    let repo = world
        .fetch(world.remote(), &[&first, "refs/pull/7/head", "HEAD", "refs/heads/main"], 50)
        .await
        .unwrap();
    for (name, expected) in [
        (first.as_str(), &first),
        ("refs/pull/7/head", &first),
        ("HEAD", &second),
        ("main", &second),
    ] {
        assert_eq!(&repo.resolve(name).unwrap().to_string(), expected, "{name}");
    }
    let remote = world.remote();
    let tip = blocking(move || remote_ref(&remote, "main")).await.unwrap();
    assert_eq!(tip.unwrap().to_string(), second);
    let remote = world.remote();
    assert_eq!(blocking(move || remote_ref(&remote, "gone")).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn says_why_there_is_no_clone() {
    let world = World::with(&[file("a", "1\n")]).await;
    world.server.create("acme/empty");
    let zero = "0123456789012345678901234567890123456789";
    let cases: [(&str, Option<&str>, &str, &str); 7] = [
        ("acme/app", None, "main", "authentication failed"),
        ("acme/app", Some("wrong"), "main", "authentication failed"),
        ("acme/none", Some(TOKEN), "main", "was not found"),
        ("acme/app", Some(TOKEN), "none", "`none` was not found"),
        ("acme/app", Some(TOKEN), zero, "was not found"),
        ("acme/app", Some(TOKEN), "a..b", "`a..b` was not found"),
        ("acme/empty", Some(TOKEN), "main", "the repository is empty"),
    ];
    for (repository, token, reference, expected) in cases {
        let url = format!("{}/{repository}.git", world.url);
        let credentials = token.map(|token| Credentials::token(token.to_owned().into()));
        let remote = Remote::http(&client(), &url, credentials).unwrap();
        let (state, refs) = (world.state(), vec![reference.to_owned()]);
        let result = blocking(move || fetch(&mirror(&state, &url)?, &remote, &refs, 1)).await;
        let message = result.unwrap_err().to_string();
        assert!(message.contains(expected), "{repository} {token:?} {reference}: {message}");
        assert!(!message.contains(TOKEN));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_public_repositories_without_credentials() {
    let world = World::with(&[]).await;
    world.server.create("acme/public");
    world.server.commit("acme/public", "main", "First", &[file("a", "1\n")]);
    let url = format!("{}/acme/public", world.url);
    let remote = Remote::http(&client(), &url, None).unwrap();
    let state = world.state();
    let repo = blocking(move || {
        let repo = mirror(&state, &url)?;
        fetch(&repo, &remote, &["main".to_owned()], 1)?;
        Ok(repo)
    });
    assert_eq!(
        file_at(&repo.await.unwrap(), Oid(git2_oid(&world, "acme/public")), "a").unwrap(),
        Some(b"1\n".to_vec())
    );
}

fn git2_oid(world: &World, repository: &str) -> git2::Oid {
    git2::Oid::from_str(&world.server.tip(repository, "main").unwrap()).unwrap()
}

#[test]
fn refuses_clone_urls_with_credentials_or_other_schemes() {
    for url in [
        "https://token@github.com/a/b.git",
        "https://x:y@github.com/a/b.git",
        "ssh://git@github.com/a/b.git",
        "ext::sh -c touch% /tmp/x",
        "file:///etc",
        "https://github.com/a/b?token=x",
        "--upload-pack=x",
    ] {
        let error = Remote::http(&client(), url, None).unwrap_err();
        assert!(matches!(error, GitError::Unacceptable(_)), "{url}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_a_rename_and_takes_the_token_nowhere_else() {
    let world = World::with(&[file("a", "1\n")]).await;
    world.server.rename(REPOSITORY, "acme/renamed");
    world.server.make_private("acme/renamed");
    let repo = world.fetched().await;
    assert_eq!(list_at(&repo, repo.resolve("main").unwrap(), "").unwrap().len(), 1);

    let elsewhere = World::with(&[file("a", "1\n")]).await;
    let target = format!("{}/info/refs?service=git-upload-pack", elsewhere.clone_url());
    world.server.fault(Step::Advertise, Fault::RedirectTo(target));
    let error = world.fetch(world.remote(), &["main"], 1).await.unwrap_err();
    assert!(error.to_string().contains("redirects to another place"), "{error}");
    assert_eq!(elsewhere.server.requests(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_what_a_connection_breaks() {
    for (step, fault) in [
        (Step::Advertise, Fault::Status(503)),
        (Step::Advertise, Fault::CutAfter(20)),
        (Step::Fetch, Fault::Status(502)),
        (Step::Fetch, Fault::CutAfter(0)),
        (Step::Fetch, Fault::CutAfter(150)),
    ] {
        let world = World::with(&[file("a", "1\n".repeat(1000)), file("b", "2\n")]).await;
        world.server.fault(step, fault.clone());
        let repo = world.fetch(world.remote(), &["main"], 50).await;
        let repo = repo.unwrap_or_else(|error| panic!("{step:?} {fault:?}: {error}"));
        git(repo.path(), &["fsck", "--strict"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gives_up_after_three_attempts() {
    let world = World::with(&[file("a", "1\n")]).await;
    for _ in 0..3 {
        world.server.fault(Step::Advertise, Fault::Status(500));
    }
    let error = world.fetch(world.remote(), &["main"], 1).await.unwrap_err();
    assert!(matches!(&error, GitError::Transport(text) if text.contains("500")), "{error}");
    assert_eq!(world.server.requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn stops_at_its_limits() {
    let world = World::with(&[file("a", "1\n"), file("b", noise(200_000))]).await;
    let slow = Limits { idle: Duration::from_millis(100), ..Limits::default() };
    for (limits, expected) in [
        (Limits { bytes: 50_000, ..Limits::default() }, "50000 bytes"),
        (Limits { objects: 2, ..Limits::default() }, "more than 2 objects"),
        (slow, "did not answer within"),
    ] {
        if limits.idle == slow.idle {
            for _ in 0..3 {
                world.server.fault(Step::Advertise, Fault::Slow(Duration::from_secs(2)));
            }
        }
        let remote = world.remote().limited(limits);
        let error = world.fetch(remote, &["main"], 1).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..length).map(next).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn replaces_a_damaged_mirror() {
    let damages: [fn(&Path); 4] = [
        |mirror| {
            for path in walk(&mirror.join("objects/pack")) {
                if path.extension().is_some_and(|extension| extension == "pack") {
                    let content = fs_err::read(&path).unwrap();
                    fs_err::remove_file(&path).unwrap();
                    fs_err::write(&path, &content[..content.len() / 2]).unwrap();
                }
            }
        },
        |mirror| fs_err::remove_file(mirror.join("HEAD")).unwrap(),
        |mirror| fs_err::remove_dir_all(mirror.join("objects/pack")).unwrap(),
        |mirror| fs_err::write(mirror.join("config"), "[core\nbroken").unwrap(),
    ];
    for (number, damage) in damages.iter().enumerate() {
        let world = World::with(&[file("a", "1\n"), file("b", noise(5000))]).await;
        let repo = world.fetched().await;
        damage(repo.path());
        let repo = world.fetch(world.remote(), &["main"], 50).await;
        let repo = repo.unwrap_or_else(|error| panic!("damage {number}: {error}"));
        git(repo.path(), &["fsck", "--strict"]);
        assert!(repo.resolve("main").is_ok(), "damage {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_share_one_mirror() {
    let world = World::with(&[file("a", "1\n")]).await;
    let tip = world.server.tip(REPOSITORY, "main").unwrap();
    let runs = (0..6).map(|depth| world.fetch(world.remote(), &["main"], depth + 1));
    for repo in futures_util::future::join_all(runs).await {
        assert_eq!(repo.unwrap().resolve("main").unwrap().to_string(), tip);
    }
    let left: Vec<_> = fs_err::read_dir(world.state().join("mirrors")).unwrap().collect();
    assert_eq!(left.len(), 1);
    let names =
        walk(&world.state()).into_iter().filter(|path| path.to_string_lossy().contains(".new-"));
    assert_eq!(names.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_a_local_repository_without_copying_it() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    fs_err::create_dir_all(&work).unwrap();
    git(&work, &["init", "--quiet", "--initial-branch=main"]);
    fs_err::write(work.join("a"), "1\n").unwrap();
    git(&work, &["add", "a"]);
    git(&work, &["commit", "--quiet", "-m", "First"]);
    let url = work.to_str().unwrap().to_owned();
    let state = dir.path().join("state");
    let repo = blocking(move || {
        let repo = mirror(&state, &url)?;
        let refs = ["main".to_owned(), "HEAD".to_owned()];
        fetch(&repo, &Remote::local(Path::new(&url)), &refs, 50)?;
        Ok(repo)
    });
    let repo = repo.await.unwrap();
    let base = repo.resolve("HEAD").unwrap();
    assert_eq!(file_at(&repo, base, "a").unwrap(), Some(b"1\n".to_vec()));
    assert_eq!(walk(&repo.path().join("objects")), [repo.path().join("objects/info/alternates")]);
    let copy = unpacked(&repo, base, 50);
    assert_eq!(git(copy.path(), &["log", "--format=%s"]), "First\n");
    assert_eq!(git(copy.path(), &["status", "--porcelain"]), "");
}

/// A tree with everything that trees may contain.
fn all_kinds() -> Vec<Entry> {
    let long = format!("{}/deep.txt", vec!["a-rather-long-folder-name"; 8].join("/"));
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

#[tokio::test(flavor = "multi_thread")]
async fn the_upload_is_a_repository_to_work_in() {
    let world = World::with(&all_kinds()).await;
    for number in 1..=6 {
        let text = format!("# App\nline {number}\n");
        world.server.commit(
            REPOSITORY,
            "main",
            &format!("Change {number}"),
            &[file("README.md", text)],
        );
    }
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let copy = unpacked(&repo, base, 4);
    let git = |args: &[&str]| git(copy.path(), args);

    assert_eq!(git(&["status", "--porcelain", "--ignore-submodules=none"]), "");
    assert_eq!(git(&["branch", "--show-current"]), "main\n");
    assert_eq!(git(&["log", "--format=%s"]), "Change 6\nChange 5\nChange 4\nChange 3\n");
    assert_eq!(git(&["diff", "HEAD~1", "--stat", "--format="]).lines().count(), 2);
    assert_eq!(git(&["blame", "-s", "README.md"]).lines().count(), 2);
    assert_eq!(git(&["remote"]), "");
    git(&["fsck", "--strict", "--no-dangling"]);
    assert_eq!(
        git(&["ls-files", "--stage"]),
        git(&["ls-tree", "-r", "--format=%(objectmode) %(objectname) 0%x09%(path)", "HEAD"])
    );

    fs_err::write(copy.path().join("README.md"), "edited\n").unwrap();
    assert_eq!(git(&["status", "--porcelain"]), " M README.md\n");
    git(&["stash", "--quiet"]);
    assert_eq!(git(&["status", "--porcelain"]), "");
    git(&["stash", "pop", "--quiet"]);
    git(&["commit", "--quiet", "-am", "Edited"]);
    assert_eq!(git(&["log", "-1", "--format=%s"]), "Edited\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upload_has_the_bytes_modes_and_owner_of_the_tree() {
    let world = World::with(&all_kinds()).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let tar = archive(&repo, base, &ArchiveOptions::new("main", 1), Vec::new()).unwrap();
    let mut tar = tar::Archive::new(tar.as_slice());
    let mut listing = String::new();
    for entry in tar.entries().unwrap() {
        let entry = entry.unwrap();
        let header = entry.header();
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (10_000, 10_000));
        let path = String::from_utf8(entry.path_bytes().to_vec()).unwrap();
        if path.starts_with(".git/") || path.starts_with("a-rather") {
            continue;
        }
        assert_eq!(header.mtime().unwrap(), 1_700_000_000);
        let target = entry.link_name_bytes().map_or(String::new(), |target| {
            format!(
                " -> {}",
                String::from_utf8_lossy(&target).replace("a-rather-long-folder-name/", "~")
            )
        });
        listing +=
            &format!("{:o} {} {path}{target}\n", header.mode().unwrap(), header.size().unwrap());
    }
    expect_test::expect![[r#"
        644 5 $Id$.txt
        644 58 .gitattributes
        644 6 README.md
        755 0 bin/
        755 10 bin/run
        644 6 crlf.txt
        644 43 data.bin
        644 0 empty
        644 8 héllo wörld
        777 0 link -> README.md
        777 0 long-link -> ~~~~~~~~deep.txt
        777 0 outside -> /etc/passwd
        644 70000 raw.dat
        755 0 vendor/
        755 0 vendor/lib/
    "#]]
    .assert_eq(&listing);
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_trees_that_are_traps() {
    let world = World::with(&[file("a", "1\n")]).await;
    let server = world.server.path(REPOSITORY);
    let blob = git(&server, &["rev-parse", "main:a"]).trim().to_owned();
    let empty = git_with_input(&server, &["mktree"], b"");
    let tree = |lines: &[(&str, &str, &str)]| {
        // `mktree` refuses some of these names, `hash-object --literally` does not.
        let mut raw = Vec::new();
        for (mode, name, oid) in lines {
            raw.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            raw.extend(
                (0..40).step_by(2).map(|at| u8::from_str_radix(&oid[at..at + 2], 16).unwrap()),
            );
        }
        let args = ["hash-object", "-t", "tree", "-w", "--stdin", "--literally"];
        git_with_input(&server, &args, &raw).trim().to_owned()
    };
    let mut deep = tree(&[("100644", "a", &blob)]);
    for _ in 0..300 {
        deep = tree(&[("40000", "d", &deep)]);
    }
    let mut bomb = tree(&[("100644", "a", &blob), ("100644", "b", &blob)]);
    for _ in 0..25 {
        bomb = tree(&[("40000", "a", &bomb), ("40000", "b", &bomb)]);
    }
    let git_folder = tree(&[("40000", ".git", empty.trim())]);
    for (tree, expected) in [
        (tree(&[("100644", "..", &blob)]), ".."),
        (tree(&[("100644", ".GIT", &blob)]), ".GIT"),
        (tree(&[("100644", "git~1", &blob)]), "git~1"),
        (tree(&[("40000", "x", &git_folder)]), "x/.git"),
        (deep, "nested too deeply"),
        (bomb, "more than 1000 files and folders"),
        (tree(&[("100644", "a", &blob), ("100644", "a", &blob)]), "twice"),
    ] {
        let commit = git(&server, &["commit-tree", "-m", "Trap", &tree]).trim().to_owned();
        let repo = Repo::open(&server).unwrap();
        let options = ArchiveOptions { max_entries: 1000, ..ArchiveOptions::new("main", 1) };
        let error = archive(&repo, commit.parse().unwrap(), &options, std::io::sink()).unwrap_err();
        assert!(matches!(error, GitError::Unacceptable(_)), "{expected}: {error:?}");
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_a_change_from_what_came_out() {
    let mut files = all_kinds();
    files.push(file("sub/one", "1\n"));
    files.push(file("sub/two", "2\n"));
    let world = World::with(&files).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let executable = CollectedFile {
        path: "empty".to_owned(),
        kind: CollectedKind::File { executable: true, content: Bytes::new() },
    };
    let binary = CollectedFile {
        path: "new/image.png".to_owned(),
        kind: CollectedKind::File { executable: false, content: noise(3000).into() },
    };
    let collected = collected(
        &[
            added("README.md", "# App\n\nMore.\n"),
            added("crlf.txt", "a\r\nb\r\n"),
            added("sub", "now a file\n"),
            added("link", "now a file\n"),
            executable,
            binary,
            linked("new/link", "../README.md"),
            added("vendor/lib/x", "in a submodule"),
            added("data.bin", "not a pointer"),
            added(".git/hooks/pre-push", "#!/bin/sh"),
            added("sub/.GIT/config", "x"),
            added("../escape", "x"),
            added("a\nb", "x"),
            added("outside/x", "through a link"),
            added("readme.md", "case twin"),
            added("he\u{301}llo wörld", "unicode twin"),
            linked("evil", "/etc/passwd"),
            linked("new/evil", "../../x"),
            linked(".gitmodules", "README.md"),
        ],
        &["bin/run", "sub/one", "sub/two", "vendor/lib", "not-there", "../x"],
    );
    let change = build(&repo, base, &collected).unwrap();
    expect_test::expect![[r#"
        100644 100644 README.md +2 -0
        100755 - bin/run +0 -1
        100644 100755 empty +0 -0
        120000 100644 link +1 -1
        - 100644 new/image.png binary
        - 120000 new/link +1 -0
        - 100644 sub +1 -0
        100644 - sub/one +0 -1
        100644 - sub/two +0 -1
        refused ../escape: a name that means another folder
        refused .git/hooks/pre-push: a name that some systems take for `.git`
        refused .gitmodules: a file of git's own as a symlink
        refused a\nb: a path with control or invisible characters
        refused data.bin: git LFS keeps this file, and LFS objects cannot be uploaded
        refused evil: a symlink with an absolute target
        refused héllo wörld: its name differs from another one only in case or Unicode form
        refused new/evil: a symlink that leaves the repository
        refused outside/x: a path through a file or symlink of the base
        refused readme.md: its name differs from another one only in case or Unicode form
        refused sub/.GIT/config: a name that some systems take for `.git`
        refused vendor/lib: a submodule, which cannot be changed
        refused vendor/lib/x: part of a submodule, which cannot be changed
    "#]]
    .assert_eq(&summary(&change));

    let kept = restrict(&repo, &change, |file| file.path.starts_with("new/")).unwrap();
    expect_test::expect![[r#"
        - 100644 new/image.png binary
        - 120000 new/link +1 -0
        refused ../escape: a name that means another folder
        refused .git/hooks/pre-push: a name that some systems take for `.git`
        refused .gitmodules: a file of git's own as a symlink
        refused a\nb: a path with control or invisible characters
        refused data.bin: git LFS keeps this file, and LFS objects cannot be uploaded
        refused evil: a symlink with an absolute target
        refused héllo wörld: its name differs from another one only in case or Unicode form
        refused new/evil: a symlink that leaves the repository
        refused outside/x: a path through a file or symlink of the base
        refused readme.md: its name differs from another one only in case or Unicode form
        refused sub/.GIT/config: a name that some systems take for `.git`
        refused vendor/lib: a submodule, which cannot be changed
        refused vendor/lib/x: part of a submodule, which cannot be changed
    "#]]
    .assert_eq(&summary(&kept));
    let nothing = restrict(&repo, &change, |_| false).unwrap();
    assert_eq!(nothing.tree, tree_of(&repo, base).unwrap());
    let error = restrict(&repo, &change, |file| file.path == "sub").unwrap_err();
    assert!(error.to_string().contains("`sub/one` cannot be held back"), "{error}");
    let everything = restrict(&repo, &change, |_| true).unwrap();
    assert_eq!(everything, change);
    assert_eq!(
        change
            .files
            .iter()
            .filter(|file| file.new.is_some_and(|new| new.mode == Mode::Gitlink))
            .count(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_everything_leaves_the_empty_tree() {
    let world = World::with(&[file("a/b/c", "1\n"), file("d", "2\n")]).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let change = build(&repo, base, &collected(&[], &["a/b/c", "d"])).unwrap();
    assert_eq!(change.tree.to_string(), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    assert_eq!(summary(&change), "100644 - a/b/c +0 -1\n100644 - d +0 -1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_apply_with_the_real_git() {
    let world = World::with(&all_kinds()).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let executable = CollectedFile {
        path: "README.md".to_owned(),
        kind: CollectedKind::File { executable: true, content: "no newline".into() },
    };
    let changed = |path: &str| CollectedFile {
        path: path.to_owned(),
        kind: CollectedKind::File { executable: false, content: noise(4000).into() },
    };
    let collected = collected(
        &[
            executable,
            changed("raw.dat"),
            changed("new.png"),
            added("crlf.txt", "a\r\nc\r\n"),
            added("é \"quoted\"", "x\n"),
            added("with space/and\u{fc}", "x\n"),
            linked("link", "crlf.txt"),
        ],
        &["bin/run", "empty"],
    );
    let change = build(&repo, base, &collected).unwrap();
    assert_eq!(change.refused, []);
    let old = tree_of(&repo, base).unwrap();
    let patch = unified(&repo, old, change.tree, DiffSpec::all()).unwrap();
    let copy = unpacked(&repo, base, 1);
    git_with_input(copy.path(), &["apply", "--index", "--whitespace=nowarn"], &patch);
    assert_eq!(git(copy.path(), &["write-tree"]).trim(), change.tree.to_string());

    let one = DiffSpec { paths: &["crlf.txt"], max_bytes: 1000 };
    let patch = unified(&repo, old, change.tree, one).unwrap();
    let text = String::from_utf8(patch).unwrap();
    assert_eq!(text.matches("diff --git").count(), 1, "{text}");
    let small = DiffSpec { paths: &[], max_bytes: 100 };
    let error = unified(&repo, old, change.tree, small).unwrap_err();
    assert!(matches!(error, GitError::Unacceptable(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_one_commit_to_one_branch() {
    let world = World::with(&[file("a", "1\n")]).await;
    let repo = world.fetched().await;
    let main = world.server.tip(REPOSITORY, "main").unwrap();
    let one = World::our_commit(&repo, "one");
    let two = World::our_commit(&repo, "two");
    let branch = "patchwright/issue-7";

    assert_eq!(world.push(&repo, one, branch, None).await.unwrap(), PushOutcome::Pushed);
    assert_eq!(world.push(&repo, one, branch, None).await.unwrap(), PushOutcome::UpToDate);
    let error = world.push(&repo, two, branch, None).await.unwrap_err();
    assert!(matches!(error, GitError::Moved { .. }), "{error}");
    assert_eq!(world.push(&repo, two, branch, Some(one)).await.unwrap(), PushOutcome::Pushed);
    let error = world.push(&repo, one, branch, Some(one)).await.unwrap_err();
    assert!(matches!(error, GitError::Moved { .. }), "{error}");
    let error = world.push(&repo, one, "gone", Some(one)).await.unwrap_err();
    assert!(matches!(error, GitError::Moved { .. }), "{error}");

    let path = world.server.path(REPOSITORY);
    let refs = git(&path, &["for-each-ref", "--format=%(refname) %(objectname)"]);
    assert_eq!(refs, format!("refs/heads/main {main}\nrefs/heads/{branch} {two}\n"));
    assert_eq!(
        git(&path, &["log", "--format=%an|%s", &two.to_string()]),
        "Patchwright|Add a file\nTest|First\n"
    );
    git(&path, &["fsck", "--strict"]);
    assert_without(&world.state(), TOKEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_from_a_shallow_mirror_when_the_base_has_moved() {
    let world = World::with(&[file("a", "1\n"), file("big", noise(50_000))]).await;
    for number in 2..=5 {
        world.server.commit(REPOSITORY, "main", "More", &[file("a", format!("{number}\n"))]);
    }
    let repo = world.fetch(world.remote(), &["main"], 2).await.unwrap();
    let commit = World::our_commit(&repo, "one");
    world.server.commit(REPOSITORY, "main", "Meanwhile", &[file("a", "6\n")]);
    assert_eq!(world.push(&repo, commit, "b", None).await.unwrap(), PushOutcome::Pushed);
    let path = world.server.path(REPOSITORY);
    git(&path, &["fsck", "--strict"]);
    assert_eq!(git(&path, &["rev-list", "--count", "b"]), "6\n");
    let sent = world.server.requests().into_iter().map(|request| request.body_bytes).max();
    assert!(sent < Some(2_000), "only what is new travels: {sent:?} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_into_a_local_folder_under_the_same_lease() {
    let world = World::with(&[file("a", "1\n"), file("sub/b", "2\n")]).await;
    let path = world.server.path(REPOSITORY);
    let work = world.dir.path().join("work");
    git(world.dir.path(), &["clone", "--quiet", path.to_str().unwrap(), "work"]);
    let url = path.to_str().unwrap();
    let repo = mirror(&world.state(), url).unwrap();
    fetch(&repo, &Remote::local(&path), &["main".to_owned()], 0).unwrap();
    let one = World::our_commit(&repo, "sub/one");
    let two = World::our_commit(&repo, "two");
    for target in [&path, &work] {
        let push = |commit, branch, expected| {
            push(&repo, &Remote::local(target), commit, branch, expected)
        };
        assert_eq!(push(one, "b", None).unwrap(), PushOutcome::Pushed);
        assert_eq!(push(one, "b", None).unwrap(), PushOutcome::UpToDate);
        assert!(matches!(push(two, "b", None).unwrap_err(), GitError::Moved { .. }));
        assert_eq!(push(two, "b", Some(one)).unwrap(), PushOutcome::Pushed);
        assert_eq!(git(target, &["show", "--format=", "--name-only", "b"]), "two\n");
        git(target, &["fsck", "--strict"]);
    }
    let base = repo.resolve("main").unwrap();
    let error = push(&repo, &Remote::local(&work), one, "main", Some(base)).unwrap_err();
    assert!(error.to_string().contains("checked out"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tells_why_a_push_was_rejected() {
    let world = World::with(&[file("a", "1\n")]).await;
    let repo = world.fetched().await;
    let commit = World::our_commit(&repo, ".github/workflows/ci.yml");
    world.server.allow("reader", Access::Read);

    world.server.protect(REPOSITORY, "guarded");
    let error = world.push(&repo, commit, "guarded", None).await.unwrap_err();
    let GitError::Rejected { reference, reason } = &error else { panic!("{error:?}") };
    assert_eq!(reference, "refs/heads/guarded");
    assert!(reason.contains("hook declined") && reason.contains("GH006"), "{reason}");

    world.server.refuse_workflow_changes(REPOSITORY);
    let error = world.push(&repo, commit, "b", None).await.unwrap_err();
    assert!(error.to_string().contains("without `workflows` permission"), "{error}");

    world.server.refuse(REPOSITORY, "*", "GH013: \u{1b}[31msecrets\u{7}");
    let error = world.push(&repo, commit, "b", None).await.unwrap_err();
    assert!(error.to_string().contains("GH013:  [31msecrets"), "{error:?}");
    assert!(!error.to_string().chars().any(|c| c.is_control() && c != '\n'), "{error:?}");
    assert_eq!(world.server.tip(REPOSITORY, "b"), None);

    for (token, expected) in [
        (None, "authentication failed"),
        (Some("wrong"), "authentication failed"),
        (Some("reader"), "denied to test"),
    ] {
        let (repo, remote) = (repo.clone(), world.remote_with(token));
        let error = blocking(move || push(&repo, &remote, commit, "b", None)).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{token:?}: {error}");
    }
    for branch in ["--upload-pack=x", "a..b", "x.lock", "@{1}", "a b", "", "a\nb", "-x"] {
        let error = world.push(&repo, commit, branch, None).await.unwrap_err();
        assert!(matches!(error, GitError::Unacceptable(_)), "{branch}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_up_a_push_whose_answer_was_lost() {
    let world = World::with(&[file("a", "1\n")]).await;
    let repo = world.fetched().await;
    let commit = World::our_commit(&repo, "one");
    world.server.fault(Step::Push, Fault::CutAfter(0));
    assert_eq!(world.push(&repo, commit, "b", None).await.unwrap(), PushOutcome::Pushed);
    assert_eq!(world.server.tip(REPOSITORY, "b"), Some(commit.to_string()));

    world.server.fault(Step::Push, Fault::Status(502));
    let error = world.push(&repo, commit, "c", None).await.unwrap_err();
    assert!(matches!(error, GitError::Transport(_)), "{error}");
    assert_eq!(world.server.tip(REPOSITORY, "c"), None);
    assert_eq!(world.push(&repo, commit, "c", None).await.unwrap(), PushOutcome::Pushed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_itself_guards_the_lease() {
    let world = World::with(&[file("a", "1\n")]).await;
    let repo = world.fetched().await;
    let ours = World::our_commit(&repo, "one");
    let theirs = world.server.commit(REPOSITORY, "theirs", "By a person", &[file("b", "x\n")]);
    // The branch appears after it was advertised as absent, before the push arrives.
    let fault = Fault::MoveFirst(REPOSITORY.to_owned(), "b".to_owned(), theirs.clone());
    world.server.fault(Step::Push, fault);
    let error = world.push(&repo, ours, "b", None).await.unwrap_err();
    assert!(matches!(&error, GitError::Moved { actual, .. } if *actual == theirs), "{error}");
    assert_eq!(world.server.tip(REPOSITORY, "b"), Some(theirs));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_in_a_repository_runs_on_the_host() {
    let mark = tempfile::tempdir().unwrap();
    let oracle = format!("touch {}/fired", mark.path().display());
    let config = format!(
        "[core]\n\tfsmonitor = {oracle}\n\tsshCommand = {oracle}\n\thooksPath = hooks\n\
         \tgitProxy = {oracle}\n\taskPass = {oracle}\n[diff]\n\texternal = {oracle}\n\
         [diff \"x\"]\n\ttextconv = {oracle}\n[filter \"x\"]\n\tclean = {oracle}\n\tsmudge = {oracle}\n\
         \tprocess = {oracle}\n[credential]\n\thelper = !{oracle}\n\
         [url \"http://127.0.0.1:1/\"]\n\tinsteadOf = http://127.0.0.1\n\tpushInsteadOf = http://127.0.0.1\n\
         [http]\n\tproxy = http://127.0.0.1:1\n\textraHeader = X-Evil: 1\n"
    );
    let hook = format!("#!/bin/sh\n{oracle}\n");
    let world = World::with(&[
        file(".gitattributes", "* filter=x diff=x\n"),
        file(".gitconfig", config.clone()),
        executable("hooks/pre-push", &hook),
        executable("hooks/post-checkout", &hook),
        file(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c touch% /tmp/x\n"),
        file("HEAD", "ref: refs/heads/main\n"),
        file("config", config),
        file("a", "1\n"),
    ])
    .await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    unpacked(&repo, base, 50);
    let change = build(&repo, base, &collected(&[added("a", "2\n")], &["HEAD"])).unwrap();
    unified(&repo, tree_of(&repo, base).unwrap(), change.tree, DiffSpec::all()).unwrap();
    let commit = create(&repo, base, change.tree, &spec("Change")).unwrap();
    assert_eq!(world.push(&repo, commit, "b", None).await.unwrap(), PushOutcome::Pushed);
    assert!(!mark.path().join("fired").exists());

    // The same configuration does fire with the git program: the oracle works.
    let copy = unpacked(&repo, base, 1);
    fs_err::copy(copy.path().join("config"), copy.path().join(".git/config")).unwrap();
    fs_err::write(copy.path().join("a"), "changed\n").unwrap();
    let _ = command(copy.path(), &["status"]).output().unwrap();
    assert!(mark.path().join("fired").exists());
}

#[test]
fn an_error_text_never_contains_the_token() {
    let credentials = Credentials::token(TOKEN.to_owned().into());
    let url = "https://127.0.0.1:1/a/b.git";
    let remote = Remote::http(&client(), url, Some(credentials)).unwrap();
    assert!(!format!("{remote:?}").contains(TOKEN));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = runtime.block_on(blocking(move || remote_ref(&remote, "main")));
    let error = result.unwrap_err();
    assert!(error.is_worth_retrying() && !format!("{error:?}").contains(TOKEN), "{error:?}");
}
