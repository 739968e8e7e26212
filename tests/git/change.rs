//! From collected files to trees and patches.

use std::fmt::Write as _;

use super::*;

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
        ],
        &["bin/run", "sub/one", "sub/two", "not-there"],
    );
    let change = build(&repo, base, &collected).unwrap();
    expect_test::expect![[r"
        100644 100644 README.md +2 -0
        100755 - bin/run +0 -1
        100644 100755 empty +0 -0
        120000 100644 link +1 -1
        - 100644 new/image.png binary
        - 120000 new/link +1 -0
        - 100644 sub +1 -0
        100644 - sub/one +0 -1
        100644 - sub/two +0 -1
    "]]
    .assert_eq(&summary(&change));

    let kept = restrict(&repo, &change, |file| file.path.starts_with("new/")).unwrap();
    expect_test::expect![[r"
        - 100644 new/image.png binary
        - 120000 new/link +1 -0
    "]]
    .assert_eq(&summary(&kept));
    let nothing = restrict(&repo, &change, |_| false).unwrap();
    assert_eq!(nothing.tree, tree_of(&repo, base).unwrap());
    assert_eq!(restrict(&repo, &change, |_| true).unwrap(), change);
    let error = restrict(&repo, &change, |file| file.path == "sub").unwrap_err();
    assert!(error.to_string().contains("`sub/one` cannot be held back"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_what_cannot_be_part_of_a_change() {
    let mut files = all_kinds();
    files.push(file("kept/Makefile", "all:\n"));
    files.push(file("kept/lfs/.gitattributes", "*.psd filter=lfs\nsmall.psd -filter\n"));
    let world = World::with(&files).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let collected = collected(
        &[
            added("vendor/lib", "in the place of a submodule"),
            added("vendor/lib/x", "in a submodule"),
            added("data.bin", "not a pointer"),
            added("kept/lfs/a.psd", "not a pointer"),
            added("kept/lfs/small.psd", "allowed"),
            added(".git/hooks/pre-push", "#!/bin/sh"),
            added("sub/.GIT/config", "x"),
            added("../escape", "x"),
            added("a\nb", "x"),
            added("outside/x", "through a link"),
            added("readme.md", "case twin"),
            added("KEPT/new", "case twin of a folder"),
            added("he\u{301}llo wörld", "unicode twin"),
            added("twice", "1"),
            added("twice", "2"),
            added("file-and-folder", "1"),
            added("file-and-folder/x", "2"),
            linked("evil", "/etc/passwd"),
            linked("new/evil", "../../x"),
            linked(".gitmodules", "README.md"),
        ],
        &["vendor/lib", "../x", "kept"],
    );
    let change = build(&repo, base, &collected).unwrap();
    expect_test::expect![[r"
        - 100644 file-and-folder +1 -0
        - 100644 kept/lfs/small.psd +1 -0
        - 100644 twice +1 -0
        refused ../escape: a name that means another folder
        refused .git/hooks/pre-push: a name that some systems take for `.git`
        refused .gitmodules: a file of git's own as a symlink
        refused KEPT/new: its name differs from another one only in case or Unicode form
        refused a\nb: a path with control or invisible characters
        refused data.bin: git LFS keeps this file, and LFS objects cannot be uploaded
        refused evil: a symlink with an absolute target
        refused file-and-folder/x: a path that is also a folder or was sent twice
        refused he(acute)llo wörld: its name differs from another one only in case or Unicode form
        refused kept/lfs/a.psd: git LFS keeps this file, and LFS objects cannot be uploaded
        refused new/evil: a symlink that leaves the repository
        refused outside/x: a path through a file or symlink of the base
        refused readme.md: its name differs from another one only in case or Unicode form
        refused sub/.GIT/config: a name that some systems take for `.git`
        refused twice: a path that is also a folder or was sent twice
        refused vendor/lib: a submodule, which cannot be changed
        refused vendor/lib: part of a submodule, which cannot be changed
        refused vendor/lib/x: part of a submodule, which cannot be changed
    "]]
    .assert_eq(&summary(&change).replace('\u{301}', "(acute)"));
}

const MODULES: &str = "[submodule \"mod\"]\n\tpath = mod\n\turl = ../mod\n\
    [submodule \"kept\"]\n\tpath = kept\n\turl = ../kept\n";

/// The sandbox has no folder of a submodule that nobody fetched: only `.gitmodules` tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_submodule_stays_and_keeps_its_address() {
    let commit = "0123456789012345678901234567890123456789";
    let files = [
        file(".gitmodules", MODULES),
        submodule("mod", commit),
        submodule("kept", commit),
        file("a", "1\n"),
    ];
    let world = World::with(&files).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let without = &MODULES[MODULES.find("[submodule \"kept").unwrap()..];
    let a_is_changed = "100644 100644 a +1 -1\n";
    for (text, removed) in [(Some(without), "mod"), (Some(""), "kept mod"), (None, "kept mod")] {
        let (mut files, mut deleted) = (vec![added("a", "2\n")], Vec::new());
        match text {
            Some(text) => files.push(added(".gitmodules", text)),
            None => deleted.push(".gitmodules"),
        }
        let change = build(&repo, base, &collected(&files, &deleted)).unwrap();
        let found = summary(&change);
        assert!(found.starts_with(&format!("{a_is_changed}refused .gitmodules: ")), "{found}");
        let refused: Vec<_> =
            change.refused.iter().skip(1).map(|(path, _)| path.as_str()).collect();
        assert_eq!(refused.join(" "), removed, "{found}");
        assert!(found.contains("refused mod: a submodule, which cannot be changed\n"), "{found}");
    }
    // Another address removes nothing.
    let moved = MODULES.replace("../mod", "../elsewhere");
    let change = build(&repo, base, &collected(&[added(".gitmodules", &moved)], &[])).unwrap();
    assert_eq!(summary(&change), "100644 100644 .gitmodules +1 -1\n");
}

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:\
    5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03\nsize 6\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_pointer_of_the_base_moves_and_other_contents_do_not() {
    let files = [file(".gitattributes", "*.bin filter=lfs\n"), file("p.bin", POINTER)];
    let world = World::with(&files).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    // The pointer, and the content that the sandbox has when it was fetched.
    for content in [POINTER, "hello\n"] {
        let moved = collected(&[added("assets/p.bin", content)], &["p.bin"]);
        let change = build(&repo, base, &moved).unwrap();
        let expected = "- 100644 assets/p.bin +3 -0\n100644 - p.bin +0 -3\n";
        assert_eq!(summary(&change), expected, "{content}");
        let ids = change.files.iter().map(|file| file.new.or(file.old).unwrap().oid);
        let ids: Vec<_> = ids.collect();
        assert_eq!(ids[0], ids[1]);
    }
    let other = POINTER.replace("size 6", "size 7");
    let change = build(&repo, base, &collected(&[added("q.bin", &other)], &["p.bin"])).unwrap();
    expect_test::expect![[r"
        100644 - p.bin +0 -3
        refused q.bin: git LFS keeps this file, and LFS objects cannot be uploaded
    "]]
    .assert_eq(&summary(&change));
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_are_read_as_git_reads_them() {
    let rules = "\u{feff}*.one filter=lfs\n\"a b.two\" filter=lfs\n\"\\303\\251 \\\"x\\\".two\" -text filter=lfs\n\
        \"#.two\" filter=lfs\n  *.three\tfilter=lfs\n*.none filter=lfs\n*.none -filter\n\
        {a,b}[[:digit:]].z filter=lfs\n\"open.two filter=lfs\n";
    let files = [file(".gitattributes", rules), file("sub/.gitattributes", "*.one !filter\n")];
    let world = World::with(&files).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let kept = ["x.one", "a b.two", "é \"x\".two", "#.two", "x.three", "{a,b}1.z"];
    let free = ["x.none", "sub/x.one", "open.two", "b.two", "a1.z"];
    let files: Vec<_> = kept.iter().chain(&free).map(|path| added(path, "content\n")).collect();
    let change = build(&repo, base, &collected(&files, &[])).unwrap();
    let mut published: Vec<_> = change.files.iter().map(|file| file.path.as_str()).collect();
    published.sort_unstable();
    let mut free = free;
    free.sort_unstable();
    assert_eq!(published, free);
    assert_eq!(change.refused.len(), kept.len(), "{:?}", change.refused);
}

/// As `git add` does it, but for files that have CRLF in the base.
#[tokio::test(flavor = "multi_thread")]
async fn text_is_stored_with_lf_where_attributes_say_so() {
    let rules = "*.bat text eol=crlf\n*.txt text=auto\n*.sln eol=crlf\n*.raw -text\n[attr]code text\n*.c code\n";
    let files = [
        file(".gitattributes", rules),
        file("lf.bat", "1\n2\n"),
        file("crlf.bat", "1\r\n2\r\n"),
        file("old.bat", "moved\r\n"),
    ];
    let world = World::with(&files).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let stored = [
        ("lf.bat", "1\r\n2\r\n3\r\n", "1\n2\n3\n"),
        ("new.bat", "1\r\n2\r\n", "1\n2\n"),
        ("new.txt", "1\r\n2\n", "1\n2\n"),
        ("new.sln", "1\r\n", "1\n"),
        ("new.c", "1\r\n", "1\n"),
        ("crlf.bat", "1\r\n3\r\n", "1\r\n3\r\n"),
        ("moved.bat", "moved\r\n", "moved\r\n"),
        ("zero.txt", "1\0\r\n", "1\0\r\n"),
        ("lone.txt", "1\r2\r\n", "1\r2\r\n"),
        ("new.raw", "1\r\n", "1\r\n"),
        ("new", "1\r\n", "1\r\n"),
    ];
    let now: Vec<_> = stored.iter().map(|(path, content, _)| added(path, content)).collect();
    let change = build(&repo, base, &collected(&now, &["old.bat"])).unwrap();
    let contents = change.files.iter().filter_map(|file| {
        let content = patchwright_git::tree::read_blob(&repo, file.new?.oid, 100).unwrap();
        Some((file.path.as_str(), String::from_utf8(content).unwrap()))
    });
    let mut expected = stored.map(|(path, _, content)| (path, content.to_owned()));
    expected.sort();
    assert_eq!(contents.collect::<Vec<_>>(), expected);
    // What git would not store differently is no change.
    let same = build(&repo, base, &collected(&[added("lf.bat", "1\r\n2\r\n")], &[])).unwrap();
    assert_eq!(same.files, []);
}

/// `git add` would make a pointer of it, and send the content to a server.
#[tokio::test(flavor = "multi_thread")]
async fn a_content_that_the_change_itself_gives_to_lfs_is_no_part_of_it() {
    let world = World::with(&[file("old.bin", "1\n"), file("a", "1\n")]).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let rules = added(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    let now = [rules, added("new.bin", "content\n"), added("a", "2\n")];
    let change = build(&repo, base, &collected(&now, &[])).unwrap();
    expect_test::expect![[r"
        - 100644 .gitattributes +1 -0
        100644 100644 a +1 -1
        refused new.bin: git LFS keeps this file, and LFS objects cannot be uploaded
    "]]
    .assert_eq(&summary(&change));
}

/// Without its new place, a move would be published as a deletion.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_moved_to_a_refused_place_stays() {
    let files = [
        file("a", "one\n"),
        file("b/c", "two\n"),
        file("d", "three\n"),
        file("README", "four\n"),
        file("gone", "five\n"),
        file("empty", ""),
    ];
    let world = World::with(&files).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let moved = collected(
        &[
            added("a\nb", "one\n"),
            added(".git/c", "two\n"),
            added("new/d", "three\n"),
            added("readme", "four\n"),
            added("Twin", "one\n"),
            added("twin", "four\n"),
            added(".git/empty", ""),
        ],
        &["a", "b/c", "d", "README", "gone", "empty"],
    );
    let change = build(&repo, base, &moved).unwrap();
    expect_test::expect![[r"
        100644 - d +0 -1
        100644 - empty +0 -0
        100644 - gone +0 -1
        - 100644 new/d +1 -0
        refused .git/c: a name that some systems take for `.git`
        refused .git/empty: a name that some systems take for `.git`
        refused README: its content was moved to where it cannot be part of a change, so the file stays
        refused Twin: its name differs from another one only in case or Unicode form
        refused a: its content was moved to where it cannot be part of a change, so the file stays
        refused a\nb: a path with control or invisible characters
        refused b/c: its content was moved to where it cannot be part of a change, so the file stays
        refused readme: its name differs from another one only in case or Unicode form
        refused twin: its name differs from another one only in case or Unicode form
    "]]
    .assert_eq(&summary(&change));
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
    assert_eq!(patch.left_out, []);
    let patch = patch.bytes;
    let copy = unpacked(&repo, base, 1);
    git_with_input(copy.path(), &["apply", "--index", "--whitespace=nowarn"], &patch);
    assert_eq!(git(copy.path(), &["write-tree"]).trim(), change.tree.to_string());

    let one = DiffSpec { paths: &["crlf.txt"], max_bytes: 1000 };
    let patch = unified(&repo, old, change.tree, one).unwrap();
    let text = String::from_utf8(patch.bytes).unwrap();
    assert_eq!(text.matches("diff --git").count(), 1, "{text}");
    let small = DiffSpec { paths: &[], max_bytes: 100 };
    let patch = unified(&repo, old, change.tree, small).unwrap();
    assert_eq!((patch.bytes.as_slice(), patch.left_out.len()), (&b""[..], change.files.len()));
}

/// Most memory that this process has had so far, in MB. Each test is a process of its own.
fn peak_mb() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn a_large_text_file_is_left_out_of_the_patch_and_named_and_costs_little() {
    let world = World::with(&[file("a", "1\n")]).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let lines = "\n".repeat(95_000_000);
    let mut numbers = String::new();
    for number in 0..1_100_000 {
        writeln!(numbers, "{number}").unwrap();
    }
    let files = [added("a", "2\n"), added("lines", &lines), added("numbers", &numbers)];
    drop((lines, numbers));
    let files = collected(&files, &[]);
    let before = peak_mb();
    let change = build(&repo, base, &files).unwrap();
    drop(files);
    let patch =
        unified(&repo, tree_of(&repo, base).unwrap(), change.tree, DiffSpec::all()).unwrap();
    let cost = peak_mb() - before;
    assert!(cost < 200, "{cost} MB more than the file itself");
    let left: Vec<_> = patch.left_out.iter().map(|left| (left.path.as_str(), left.size)).collect();
    assert_eq!(left, [("lines", 95_000_000), ("numbers", 7_688_890)]);
    let text = String::from_utf8(patch.bytes).unwrap();
    assert_eq!(text.matches("diff --git").count(), 1, "{text}");
    assert!(text.contains("-1\n+2\n"), "{text}");
}

#[tokio::test]
async fn a_file_in_the_way_of_one_that_is_left_out_goes_with_it() {
    let world = World::with(&[file("a", "1\n"), file("b", "1\n")]).await;
    let repo = world.fetched().await;
    let base = repo.resolve("main").unwrap();
    let large = "x".repeat(9_000_000);
    let files =
        collected(&[added("a/large", &large), added("a/small", "x\n"), added("b", "2\n")], &["a"]);
    let change = build(&repo, base, &files).unwrap();
    let patch =
        unified(&repo, tree_of(&repo, base).unwrap(), change.tree, DiffSpec::all()).unwrap();
    let mut left: Vec<_> = patch.left_out.iter().map(|left| left.path.as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, ["a", "a/large"]);
    let text = String::from_utf8(patch.bytes).unwrap();
    assert!(text.contains("a/small") && text.contains("b/b") && text.len() < 1000, "{text}");
}
