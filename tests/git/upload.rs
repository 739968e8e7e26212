//! The tar that goes into a sandbox, opened with the real git.

use std::fmt::Write as _;

use super::*;

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
async fn our_own_commits_can_be_uploaded_and_other_runs_objects_are_not() {
    let world = World::with(&all_kinds()).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let other = World::our_commit(&repo, "of-another-run");
    let first = build(&repo, base, &collected(&[added("new/one", "1\n")], &["empty"])).unwrap();
    let first = create(&repo, base, first.tree, &spec("One")).unwrap();
    let second = build(&repo, first, &collected(&[added("new/two", "2\n")], &[])).unwrap();
    let second = create(&repo, first, second.tree, &spec("Two")).unwrap();
    let copy = unpacked(&repo, second, 50);
    assert_eq!(git(copy.path(), &["status", "--porcelain"]), "");
    assert_eq!(git(copy.path(), &["log", "--format=%s"]), "Two\nOne\nFirst\n");
    git(copy.path(), &["fsck", "--strict"]);
    let found = command(copy.path(), &["cat-file", "-e", &other.to_string()]).output().unwrap();
    assert!(!found.status.success());
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
        // Older than the commit: git would not see a change that is made in the second of the commit.
        assert_eq!(header.mtime().unwrap(), 1_699_999_998);
        let target = entry.link_name_bytes().map_or(String::new(), |target| {
            format!(
                " -> {}",
                String::from_utf8_lossy(&target).replace("a-rather-long-folder-name/", "~")
            )
        });
        let (mode, size) = (header.mode().unwrap(), header.size().unwrap());
        writeln!(listing, "{mode:o} {size} {path}{target}").unwrap();
    }
    expect_test::expect![[r"
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
    "]]
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

/// `count` files with the same content, which git keeps once.
async fn alike(count: usize, bytes: usize) -> (World, Workspace) {
    let files: Vec<Entry> =
        (0..count).map(|number| file(&format!("copy-{number}"), vec![0; bytes])).collect();
    let world = World::with(&files).await;
    let workspace = Workspace::pin(world.fetched().await, "main", 1).await.unwrap();
    (world, workspace)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_packed_tree_can_be_uploaded_more_than_once_and_leaves_no_file() {
    let (_world, workspace) = alike(3, 200_000).await;
    let folder = || {
        let entries = fs_err::read_dir(workspace.repo.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = folder();
    let packed = workspace.pack(&ContainerLimits::default(), Additions::default()).await.unwrap();
    assert_eq!(folder(), before, "it has no name, so nobody has to remove it");
    for _ in 0..2 {
        let guest = Guest::start().await;
        packed.upload(&guest.client).await.unwrap();
        let seen = guest.sh("cat copy-* | wc -c; git status --porcelain").await.output;
        assert_eq!(seen.trim(), "600000");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_its_workspace_cannot_hold_is_refused_before_it_is_packed() {
    let (_world, workspace) = alike(5, 1 << 20).await;
    let limits = |workspace_bytes| ContainerLimits { workspace_bytes, ..Default::default() };
    assert!(workspace.pack(&limits(5 << 20), Additions::default()).await.is_ok());
    let refused =
        workspace.pack(&limits(4 << 20), Additions::default()).await.unwrap_err().to_string();
    assert!(refused.contains("cannot pack the repository for the sandbox"), "{refused}");
    assert!(refused.contains("the files of the repository are larger than 4 MiB"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_folders_that_make_many_long_paths_are_refused() {
    let world = World::with(&[file("a", "1\n")]).await;
    let server = world.server.path(REPOSITORY);
    let mut tree = git(&server, &["rev-parse", "main^{tree}"]).trim().to_owned();
    for _ in 0..9 {
        let folders: Vec<String> =
            (0..4).map(|n| format!("040000 tree {tree}\t{n}{}", "x".repeat(240))).collect();
        let lines = folders.join("\n") + "\n";
        tree = git_with_input(&server, &["mktree"], lines.as_bytes()).trim().to_owned();
    }
    let commit = git(&server, &["commit-tree", "-m", "Wide", &tree]).trim().to_owned();
    let repo = Repo::open(&server).unwrap();
    let options = ArchiveOptions::new("main", 1);
    let error = archive(&repo, commit.parse().unwrap(), &options, std::io::sink()).unwrap_err();
    assert!(error.to_string().contains("paths of the repository are longer"), "{error}");
}
