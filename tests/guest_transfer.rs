//! The tree into the guest and the changes out of it, through the real guest.
#![expect(clippy::disallowed_methods, reason = "looks at the guest's files")]

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use bytes::Bytes;
use patchwright_guest::protocol::{Collected, LeftOut};
use patchwright_sandbox::client::{CollectLimits, CollectedFile, CollectedKind, GuestError};

use crate::support::guest::{Guest, LIMITS};

/// A tar as the host makes it: path, mode, content. Mode 0 makes a link.
pub(crate) fn tar(entries: &[(&str, u32, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, mode, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mtime(1_000_000_000);
        if *mode == 0 {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            tar.append_link(&mut header, path, content).unwrap();
        } else {
            header.set_entry_type(tar::EntryType::Regular);
            header.set_mode(*mode);
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, path, content.as_bytes()).unwrap();
        }
    }
    tar.into_inner().unwrap()
}

/// A tar whose only entry has this path, whatever it is.
fn tar_with_path(path: &str) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o644);
    header.set_size(1);
    header.set_cksum();
    let mut tar = tar::Builder::new(Vec::new());
    tar.append(&header, &b"x"[..]).unwrap();
    tar.into_inner().unwrap()
}

pub(crate) const TREE: &[(&str, u32, &str)] = &[
    (".gitignore", 0o644, "*.log\n/build/\n!keep.log\n"),
    ("README.md", 0o644, "hello\n"),
    ("bin/run", 0o755, "#!/bin/sh\necho ran\n"),
    ("build/tracked", 0o644, "tracked in an ignored folder\n"),
    ("current", 0, "README.md"),
    ("deep/er/file", 0o644, "deep\n"),
    ("deep/folder/gone", 0o644, "gone\n"),
    ("tracked.log", 0o644, "tracked though ignored\n"),
    ("turns/into/folder", 0o644, "x"),
    ("-rf", 0o644, "odd name"),
];

pub(crate) fn file(path: &str, content: &str) -> CollectedFile {
    let content = Bytes::copy_from_slice(content.as_bytes());
    let kind = CollectedKind::File { executable: false, content };
    CollectedFile { path: path.to_owned(), kind }
}

fn executable(path: &str, content: &str) -> CollectedFile {
    let content = Bytes::copy_from_slice(content.as_bytes());
    let kind = CollectedKind::File { executable: true, content };
    CollectedFile { path: path.to_owned(), kind }
}

fn link(path: &str, target: &str) -> CollectedFile {
    let kind = CollectedKind::Symlink { target: target.as_bytes().to_vec() };
    CollectedFile { path: path.to_owned(), kind }
}

#[tokio::test]
async fn unpacks_modes_links_and_times() {
    let guest = Guest::start().await;
    let tree = tar(TREE);
    let bytes: usize = TREE.iter().filter(|(_, mode, _)| *mode != 0).map(|(_, _, c)| c.len()).sum();
    assert_eq!(guest.client.upload(tree.as_slice()).await, Ok((10, bytes as u64)));
    let workspace = guest.workspace();
    for (path, mode, content) in TREE {
        let place = workspace.join(path);
        if *mode == 0 {
            assert_eq!(std::fs::read_link(&place).unwrap().to_str().unwrap(), *content);
        } else {
            let metadata = std::fs::metadata(&place).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o7777, *mode, "{path}");
            assert_eq!(metadata.mtime(), 1_000_000_000, "{path}");
            assert_eq!(std::fs::read_to_string(&place).unwrap(), *content, "{path}");
        }
    }
    let unchanged = guest.collect().await;
    assert_eq!((unchanged.files, unchanged.listing), (vec![], Collected::default()));
}

pub(crate) const MOVED: &str =
    "its content was moved to where it cannot be part of a change, so the file stays";

/// What a command does to the tree, and what is collected then.
struct Case {
    script: &'static str,
    files: Vec<CollectedFile>,
    deleted: &'static [&'static str],
    refused: &'static [(&'static str, &'static str)],
}

#[expect(clippy::too_many_lines, reason = "one table")]
fn cases() -> Vec<Case> {
    let none = || Case { script: "", files: vec![], deleted: &[], refused: &[] };
    vec![
        Case { script: "touch README.md", ..none() },
        Case { script: "cp README.md x; cat x > README.md; rm x", ..none() },
        Case {
            script: "echo more >> README.md",
            files: vec![file("README.md", "hello\nmore\n")],
            ..none()
        },
        Case {
            script: "printf HELLO > README.md; echo >> README.md; touch -d @1000000000 README.md",
            files: vec![file("README.md", "HELLO\n")],
            ..none()
        },
        Case {
            script: "chmod +x README.md; chmod -x bin/run",
            files: vec![
                executable("README.md", "hello\n"),
                file("bin/run", "#!/bin/sh\necho ran\n"),
            ],
            ..none()
        },
        Case { script: "chmod 600 README.md; chmod 4755 bin/run", ..none() },
        Case {
            script: "ln -sfn deep current; ln -s /etc/passwd outside",
            files: vec![link("current", "deep"), link("outside", "/etc/passwd")],
            ..none()
        },
        Case {
            script: "rm -r deep/folder current",
            deleted: &["current", "deep/folder/gone"],
            ..none()
        },
        Case {
            script: "rm -r turns; echo now a file > turns",
            files: vec![file("turns", "now a file\n")],
            deleted: &["turns/into/folder"],
            ..none()
        },
        Case {
            script: "rm README.md; mkdir README.md; echo in > README.md/in",
            files: vec![file("README.md/in", "in\n")],
            deleted: &["README.md"],
            ..none()
        },
        Case {
            script: "mv deep other; ln -s other deep",
            files: vec![
                link("deep", "other"),
                file("other/er/file", "deep\n"),
                file("other/folder/gone", "gone\n"),
            ],
            deleted: &["deep/er/file", "deep/folder/gone"],
            ..none()
        },
        Case {
            script: "mkdir build/out; echo x > build/out/y; echo x > a.log; echo k > keep.log; echo t > tracked.log; echo b > build/tracked",
            files: vec![
                file("build/tracked", "b\n"),
                file("keep.log", "k\n"),
                file("tracked.log", "t\n"),
            ],
            ..none()
        },
        Case {
            script: "mkdir sub; printf 'secret\\n!*.log\\n' > sub/.gitignore; touch sub/secret sub/a.log",
            files: vec![file("sub/.gitignore", "secret\n!*.log\n"), file("sub/a.log", "")],
            ..none()
        },
        Case {
            script: "mkfifo pipe; mknod node c 1 3 2>/dev/null; rm -f node; rm README.md; mkfifo README.md",
            refused: &[("README.md", "a named pipe"), ("pipe", "a named pipe")],
            ..none()
        },
        Case {
            script: "mkdir -p .git/hooks vendor/lib/.git; echo x > .git/hooks/pre-push; echo x > vendor/lib/file; echo y > vendor/own",
            files: vec![file("vendor/own", "y\n")],
            refused: &[("vendor/lib", "a nested repository")],
            ..none()
        },
        Case {
            script: "mkdir .GIT; echo x > .GIT/config; mkdir -p a/git~1; echo x > a/git~1/config",
            refused: &[
                (".GIT/config", "a spelling of `.git` in a path"),
                ("a/git~1/config", "a spelling of `.git` in a path"),
            ],
            ..none()
        },
        Case {
            script: "touch \"$(printf 'a\\nb')\" \"$(printf 'esc\\033[2J')\" \"$(printf 'bad\\377')\"",
            refused: &[
                ("a\\x0ab", "a control character in a name"),
                ("bad\\xff", "a name that is not UTF-8"),
                ("esc\\x1b[2J", "a control character in a name"),
            ],
            ..none()
        },
        // A move of which only the deletion could be published is none.
        Case {
            script: "mv README.md \"$(printf 'a\\nb')\"; rm tracked.log",
            deleted: &["tracked.log"],
            refused: &[("README.md", MOVED), ("a\\x0ab", "a control character in a name")],
            ..none()
        },
        Case {
            script: "mkdir -p nest/.git nest/in; mv README.md nest; mv current nest/in; rm tracked.log",
            deleted: &["tracked.log"],
            refused: &[("README.md", MOVED), ("current", MOVED), ("nest", "a nested repository")],
            ..none()
        },
        Case {
            script: "truncate -s 2G sparse; ln README.md hard",
            files: vec![file("hard", "hello\n")],
            refused: &[("sparse", "a file larger than 100 MB")],
            ..none()
        },
        Case {
            script: "rm -- -rf; echo x > ./--help",
            files: vec![file("--help", "x\n")],
            deleted: &["-rf"],
            ..none()
        },
    ]
}

#[tokio::test]
async fn collects_exactly_what_changed() {
    for case in cases() {
        let guest = Guest::start().await;
        guest.client.upload(tar(TREE).as_slice()).await.unwrap();
        let out = guest.sh(case.script).await;
        assert_eq!((out.exit_code, out.output.as_str()), (0, ""), "{}", case.script);
        let mut found = guest.collect().await;
        found.files.sort_by(|a, b| a.path.cmp(&b.path));
        let listing = Collected {
            deleted: case.deleted.iter().map(|path| (*path).to_owned()).collect(),
            refused: case.refused.iter().map(|(p, r)| ((*p).to_owned(), (*r).to_owned())).collect(),
            ..Collected::default()
        };
        assert_eq!((found.files, found.listing), (case.files, listing), "{}", case.script);
    }
}

#[tokio::test]
async fn collects_long_names_and_targets() {
    let guest = Guest::start().await;
    let name = format!("{}/{}", "d".repeat(200), "f".repeat(200));
    let target = "t".repeat(1000);
    std::fs::create_dir(guest.workspace().join("d".repeat(200))).unwrap();
    std::fs::write(guest.workspace().join(&name), "long").unwrap();
    std::os::unix::fs::symlink(&target, guest.workspace().join("l".repeat(150))).unwrap();
    let found = guest.collect().await;
    assert_eq!(found.files, [file(&name, "long"), link(&"l".repeat(150), &target)]);
}

#[tokio::test]
async fn refuses_trees_that_reach_outside() {
    for path in [
        "../outside",
        "/absolute",
        "a/../../b",
        "a//b",
        "./a",
        "a/.git/config",
        ".GIT/x",
        ".git/../x",
    ] {
        let guest = Guest::start().await;
        let refused = guest.client.upload(tar_with_path(path).as_slice()).await;
        let GuestError::Failed(text) = refused.unwrap_err() else { panic!("{path}") };
        assert!(text.starts_with(&format!("cannot unpack `{path}`: ")), "{text}");
        assert_eq!(std::fs::read_dir(guest.workspace()).unwrap().count(), 0, "{path}");
        assert_eq!(guest.sh("echo fine").await.output, "fine\n");
    }
}

#[tokio::test]
async fn follows_no_link_of_the_tree() {
    let guest = Guest::start().await;
    let outside = guest.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let tree = tar(&[("a", 0, outside.to_str().unwrap()), ("a/b", 0o644, "x")]);
    assert!(matches!(guest.client.upload(tree.as_slice()).await, Err(GuestError::Failed(_))));
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[tokio::test]
async fn reports_a_tree_that_breaks_off() {
    let guest = Guest::start().await;
    let tree = tar(&[("a", 0o644, &"x".repeat(100_000))]);
    let cut = guest.client.upload(&tree[..50_000]).await;
    assert!(matches!(cut, Err(GuestError::Failed(_))), "{cut:?}");
    assert_eq!(guest.sh("echo fine").await.output, "fine\n");
}

#[tokio::test]
async fn keeps_to_the_bounds_of_a_collection() {
    let guest = Guest::start().await;
    guest.sh("for i in 1 2 3 4 5 6 7 8 9; do head -c 1000 /dev/zero > f$i; done").await;
    let one = vec![LeftOut { path: "*".to_owned(), files: 1, bytes: 1000 }];
    let few = guest.client.collect(CollectLimits { files: 8, ..LIMITS }).await.unwrap();
    assert_eq!((few.files.len(), few.listing.left_out), (8, one.clone()));
    let small = guest.client.collect(CollectLimits { bytes: 8999, ..LIMITS }).await.unwrap();
    assert_eq!((small.files.len(), small.listing.left_out), (8, one));
    let exact = CollectLimits { files: 9, bytes: 9000, timeout: Duration::from_secs(20) };
    assert_eq!(guest.client.collect(exact).await.unwrap().files.len(), 9);
}

#[tokio::test]
async fn removes_the_base_and_leaves_what_setup_made() {
    let guest = Guest::start().await;
    guest.client.upload(tar(TREE).as_slice()).await.unwrap();
    guest.sh("mkdir deep/made; echo made > deep/made/file; echo changed > README.md").await;
    guest.client.remove_base(None).await.unwrap();
    let out = guest.sh("find . | LC_ALL=C sort").await;
    assert_eq!(out.output, ".\n./README.md\n./deep\n./deep/made\n./deep/made/file\n");
    // The next tree goes over what is left.
    guest.client.upload(tar(TREE).as_slice()).await.unwrap();
    assert_eq!(guest.collect().await.files, [], "it is not the model's");
    // What becomes of it later is.
    guest.sh("cp deep/made/file x; cat x > deep/made/file; rm x; echo new > deep/made/new").await;
    assert_eq!(guest.collect().await.files, [file("deep/made/new", "new\n")]);
    guest.sh("echo more >> deep/made/file").await;
    let found = guest.collect().await;
    assert_eq!(
        found.files,
        [file("deep/made/file", "made\nmore\n"), file("deep/made/new", "new\n")]
    );
}

#[tokio::test]
async fn what_setup_left_stays_unknown_when_the_ignore_rules_change() {
    let guest = Guest::start().await;
    guest.sh("mkdir out; echo a > out/a; mkdir -p third/.git node_modules/x; touch third/.git/HEAD; mkfifo pipe").await;
    let tree = tar(&[(".gitignore", 0o644, "/out/\n")]);
    guest.client.upload(tree.as_slice()).await.unwrap();
    guest.sh("echo > .gitignore; echo b > out/b").await;
    let found = guest.collect().await;
    assert_eq!(found.files, [file(".gitignore", "\n"), file("out/b", "b\n")]);
    assert_eq!(found.listing, Collected::default());
}

#[tokio::test]
async fn tracked_files_go_first_and_whole_new_folders_are_left_out_by_name() {
    let guest = Guest::start().await;
    guest.client.upload(tar(TREE).as_slice()).await.unwrap();
    guest.sh("mkdir -p vendor/pkg/lib; cd vendor/pkg; seq 40 | xargs touch; echo x > lib/x; cd ../..; echo fixed > README.md; echo new > new; rm -- -rf").await;
    let found = guest.client.collect(CollectLimits { files: 10, ..LIMITS }).await.unwrap();
    assert_eq!(found.files, [file("README.md", "fixed\n"), file("new", "new\n")]);
    let listing = Collected {
        deleted: vec!["-rf".to_owned()],
        left_out: vec![LeftOut { path: "vendor/".to_owned(), files: 41, bytes: 2 }],
        ..Collected::default()
    };
    assert_eq!(found.listing, listing);
}

#[tokio::test]
async fn packages_that_the_tree_keeps_are_files_like_others_and_other_ones_are_named() {
    let guest = Guest::start().await;
    let tree = tar(&[("node_modules/lib/index.js", 0o644, "1\n"), ("a", 0o644, "a\n")]);
    guest.client.upload(tree.as_slice()).await.unwrap();
    guest.sh("echo 2 > node_modules/lib/index.js; echo n > node_modules/lib/added.js; mkdir node_modules/other; echo o > node_modules/other/o.js; mkdir -p web/node_modules/x; touch web/node_modules/x/y; mkdir __pycache__; touch __pycache__/z; echo mode: atomic > coverage.txt; mkdir htmlcov; touch htmlcov/index.html").await;
    let found = guest.collect().await;
    let files = [
        file("node_modules/lib/index.js", "2\n"),
        file("node_modules/lib/added.js", "n\n"),
        file("node_modules/other/o.js", "o\n"),
    ];
    assert_eq!(found.files, files);
    assert_eq!(
        found.listing.artefacts,
        ["__pycache__", "coverage.txt", "htmlcov", "web/node_modules"]
    );
}

#[tokio::test]
async fn trees_of_builds_are_named_and_sources_in_them_stay() {
    let guest = Guest::start().await;
    let tree = tar(&[("kept/CMakeCache.txt", 0o644, "x"), ("src/a.c", 0o644, "a\n")]);
    guest.client.upload(tree.as_slice()).await.unwrap();
    let script = "mkdir -p b/x && touch b/CMakeCache.txt b/x/y; echo k > kept/k; \
        mkdir -p new && cd new && echo 'project(n)' > CMakeLists.txt && touch CMakeCache.txt && \
        echo '# This is the CMakeCache file.' > CMakeCache.txt && echo 'int n;' > n.c; cd ..; \
        mkdir -p vpath && touch vpath/config.status vpath/Makefile; \
        mkdir -p java/target/surefire-reports java/src/target && touch java/target/x java/src/target/Target.java; \
        mkdir -p cs/obj && touch cs/obj/project.assets.json; mkdir -p obj && echo v > obj/teapot.txt; \
        printf 'b0VIM 9.0' > src/.a.c.swp; echo ours > notes.swp";
    guest.sh(script).await;
    let mut found = guest.collect().await;
    found.files.sort_by(|a, b| a.path.cmp(&b.path));
    let paths: Vec<&str> = found.files.iter().map(|file| file.path.as_str()).collect();
    let expected = [
        "java/src/target/Target.java",
        "kept/k",
        "new/CMakeLists.txt",
        "new/n.c",
        "notes.swp",
        "obj/teapot.txt",
    ];
    assert_eq!(paths, expected);
    let artefacts = ["b", "cs/obj", "java/target", "new/CMakeCache.txt", "src/.a.c.swp", "vpath"];
    assert_eq!(found.listing.artefacts, artefacts);
}

#[tokio::test]
async fn uploads_names_that_cannot_be_changed() {
    let guest = Guest::start().await;
    let tree = tar(&[("a\nb", 0o644, "x"), ("c", 0o644, "y")]);
    guest.client.upload(tree.as_slice()).await.unwrap();
    assert_eq!(guest.collect().await.listing, Collected::default());
    let name = std::ffi::OsStr::from_bytes(b"a\nb");
    std::fs::remove_file(guest.workspace().join(name)).unwrap();
    let refused = vec![("a\\x0ab".to_owned(), "a control character in a name".to_owned())];
    assert_eq!(guest.collect().await.listing, Collected { refused, ..Collected::default() });
}
