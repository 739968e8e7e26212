//! Files that ignore rules hide and that belong to the change all the same, and those that do not: through the real
//! guest.
#![expect(clippy::disallowed_methods, reason = "looks at the guest's files")]

use std::time::Duration;

use patchwright_guest::protocol::Collected;
use patchwright_guest::tool::ToolOutput;
use serde_json::{Value, json};

use crate::guest_transfer::{MOVED, TREE, file, tar};
use crate::support::guest::{Guest, LIMITS, packed};

/// A guest with the tree of [`crate::guest_transfer`] and a repository.
async fn guest() -> Guest {
    let guest = Guest::start().await;
    guest.client.upload(tar(TREE).as_slice()).await.unwrap();
    run(&guest, "git init -q -b main . && git add -A && git add -f build tracked.log").await;
    guest
}

async fn run(guest: &Guest, script: &str) {
    let output = guest.sh(script).await;
    assert_eq!((output.exit_code, output.output.as_str()), (0, ""), "{script}");
}

async fn edit(guest: &Guest, name: &str, args: Value) -> ToolOutput {
    guest.client.tool(name, args, 1000, Duration::from_secs(20)).await.unwrap()
}

async fn collected(guest: &Guest) -> (Vec<String>, Collected) {
    let mut found = guest.collect().await;
    found.files.sort_by(|a, b| a.path.cmp(&b.path));
    (found.files.into_iter().map(|file| file.path).collect(), found.listing)
}

fn listed(deleted: &[&str]) -> Collected {
    let deleted = deleted.iter().map(|path| (*path).to_owned()).collect();
    Collected { deleted, ..Collected::default() }
}

#[tokio::test]
async fn what_git_has_in_its_index_is_in_the_change_whatever_ignores_it() {
    for (script, files) in [
        ("echo 1 > a.log; echo 2 > b.log; git add -f a.log", vec!["a.log"]),
        // Also when it was committed, and in a folder that is ignored.
        (
            "mkdir build/in; echo 1 > build/in/x; echo 2 > build/in/y; git add -f build/in/x; \
             git -c user.name=x -c user.email=x@x commit -q -m x",
            vec!["build/in/x"],
        ),
        ("echo 1 > a.log; git add -f a.log; rm a.log", vec![]),
        ("echo 1 > a.log; git add -f a.log; git rm -q --cached a.log", vec![]),
        // The other formats of an index.
        (
            "echo 1 > a.log; echo 1 > a.other.log; git add -f *.log; git update-index --index-version 4",
            vec!["a.log", "a.other.log"],
        ),
        (
            "echo 1 > a.log; echo 1 > new; git add -f a.log; git add --intent-to-add new",
            vec!["a.log", "new"],
        ),
        ("echo 1 > a.log; git add -f a.log; truncate -s 300 .git/index", vec![]),
        ("echo 1 > a.log; rm -r .git; mkdir .git; head -c 3000 /dev/urandom > .git/index", vec![]),
        ("echo 1 > a.log; rm -r .git; echo gitdir: /tmp > .git", vec![]),
    ] {
        let guest = guest().await;
        run(&guest, script).await;
        let listed = listed(&[]);
        assert_eq!(
            collected(&guest).await,
            (files.iter().map(|it| (*it).to_owned()).collect(), listed),
            "{script}"
        );
    }
}

#[tokio::test]
async fn installed_packages_stay_out_whatever_git_has_in_its_index() {
    let guest = guest().await;
    run(
        &guest,
        "mkdir -p node_modules/m; echo 1 > node_modules/m/i; git add -A; git add -f node_modules",
    )
    .await;
    let artefacts = vec!["node_modules".to_owned()];
    assert_eq!(collected(&guest).await, (vec![], Collected { artefacts, ..Collected::default() }));
}

#[tokio::test]
async fn a_file_that_moves_to_an_ignored_place_is_in_the_change_there() {
    for (script, files, deleted) in [
        ("git mv README.md build/R", vec!["build/R"], vec!["README.md"]),
        ("mv README.md build/R", vec!["build/R"], vec!["README.md"]),
        (
            "mkdir build/d; mv deep/er turns build/d",
            vec!["build/d/er/file", "build/d/turns/into/folder"],
            vec!["deep/er/file", "turns/into/folder"],
        ),
        ("mv README.md x.log; mv x.log build/R", vec!["build/R"], vec!["README.md"]),
        // A copy is what builds make, and what is gone again was meant to go.
        ("cp README.md build/R; rm README.md", vec![], vec!["README.md"]),
        ("mv README.md build/R; rm build/R", vec![], vec!["README.md"]),
        ("mv README.md build/R; mv build/R README.md", vec![], vec![]),
    ] {
        let guest = guest().await;
        run(&guest, script).await;
        let files = files.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(collected(&guest).await, (files, listed(&deleted)), "{script}");
    }
}

#[tokio::test]
async fn a_file_that_was_edited_before_or_after_its_move_is_in_the_change_too() {
    let guest = guest().await;
    let look =
        async |since: u64| guest.client.checkpoint(since, since + 1, LIMITS).await.unwrap().0;
    run(&guest, "echo more > x; cat README.md >> x; mv x README.md").await;
    assert_eq!(look(0).await.files.len(), 1);
    run(&guest, "mv README.md build/R").await;
    let moved = look(1).await;
    assert_eq!(
        (moved.files, moved.listing),
        (vec![file("build/R", "more\nhello\n")], listed(&["README.md"]))
    );
    run(&guest, "echo last > y; mv y build/R").await;
    assert_eq!(guest.collect().await.files, [file("build/R", "last\n")]);
}

#[tokio::test]
async fn a_file_whose_new_place_cannot_be_in_a_change_stays() {
    for (script, artefacts, refused) in [
        (
            "mkdir node_modules; mv README.md node_modules/R",
            vec!["node_modules"],
            vec![("README.md", MOVED)],
        ),
        (
            "mkdir .x_cache; git mv -f README.md .x_cache/R",
            vec![".x_cache"],
            vec![("README.md", MOVED)],
        ),
        (
            "mkdir -p nest/.git; mv README.md nest/R",
            vec![],
            vec![("README.md", MOVED), ("nest", "a nested repository")],
        ),
    ] {
        let guest = guest().await;
        run(&guest, script).await;
        let owned = |(path, why): &(&str, &str)| ((*path).to_owned(), (*why).to_owned());
        let listing = Collected {
            artefacts: artefacts.iter().map(|it| (*it).to_owned()).collect(),
            refused: refused.iter().map(owned).collect(),
            ..Collected::default()
        };
        // A checkpoint has the file as well: nobody puts back what is in the other place.
        let (kept, _) = guest.client.checkpoint(0, 1, LIMITS).await.unwrap();
        assert_eq!((kept.files.len(), kept.listing.deleted.len()), (0, 0), "{script}");
        assert_eq!(collected(&guest).await, (vec![], listing), "{script}");
        // Until it is gone from there, too.
        run(&guest, "rm -rf nest node_modules .x_cache").await;
        let (kept, _) = guest.client.checkpoint(1, 2, LIMITS).await.unwrap();
        assert_eq!(kept.listing.deleted, ["README.md"], "{script}");
        assert_eq!(collected(&guest).await, (vec![], listed(&["README.md"])), "{script}");
    }
}

#[tokio::test]
async fn an_edit_tool_says_what_is_ignored_and_a_move_by_it_counts() {
    let guest = guest().await;
    let written = edit(&guest, "write_file", json!({"file_path": "a.log", "content": "1\n"})).await;
    assert_eq!(
        written.text,
        "Created a.log (1 line, 2 bytes)\nNote: `.gitignore` ignores `a.log`, so it is no part of your change. If it \
         belongs there, run `git add -f` on it."
    );
    let ignored = vec!["a.log".to_owned()];
    assert_eq!(collected(&guest).await, (vec![], Collected { ignored, ..Collected::default() }));
    run(&guest, "git add -f a.log").await;
    assert_eq!(collected(&guest).await, (vec!["a.log".to_owned()], Collected::default()));
    let again = edit(&guest, "write_file", json!({"file_path": "a.log", "content": "2\n"})).await;
    assert_eq!(again.text, "Overwrote a.log (1 line, 2 bytes)");
    let cache = edit(&guest, "write_file", json!({"file_path": ".venv/x", "content": "1\n"})).await;
    assert!(
        cache
            .text
            .ends_with("counts as an installed package or a cache, and is no part of your change.")
    );
    for path in ["build/tracked", "keep.log", "new", "README.md"] {
        let args = json!({"file_path": path, "content": "in the change\n"});
        assert!(!edit(&guest, "write_file", args).await.text.contains("Note"), "{path}");
    }

    let patch = "*** Begin Patch\n*** Update File: deep/er/file\n*** Move to: build/file\n@@\n-deep\n+moved\n*** End Patch\n";
    let moved = edit(&guest, "apply_patch", json!({ "input": patch })).await;
    assert!(!moved.text.contains("Note"), "{}", moved.text);
    let (files, listing) = collected(&guest).await;
    assert!(files.contains(&"build/file".to_owned()), "{files:?}");
    assert_eq!(listing.deleted, ["deep/er/file"]);
}

/// The index of the new sandbox knows nothing of it.
#[tokio::test]
async fn what_a_checkpoint_puts_back_is_in_the_change_still() {
    let guest = Guest::start().await;
    guest.client.upload(tar(TREE).as_slice()).await.unwrap();
    let put = packed(&tar(&[("build/R", 0o644, "moved\n"), ("new", 0o644, "new\n")]));
    put.restore(&guest.client, vec!["README.md".to_owned()]).await.unwrap();
    run(&guest, "echo 1 > a.log; echo new >> .gitignore").await;
    let found = guest.collect().await;
    assert_eq!(
        found.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
        [".gitignore", "build/R"]
    );
    assert_eq!(found.listing, listed(&["README.md"]));
}

/// Rules of `.gitignore`, and names that git ignores by them, or does not.
#[tokio::test]
async fn ignore_rules_are_read_as_git_reads_them() {
    let rules = "\u{feff}.env.local\nother\n/dist/*.{js,css}\n[[:digit:]]*.tmp\n[[:alpha:]]q\na{1}\nx[!{]y\n";
    let names = [
        ".env.local",
        "other",
        "dist/app.js",
        "dist/x.css",
        "dist/a.{js,css}",
        "1.tmp",
        "x.tmp",
        "aq",
        "1q",
        "a{1}",
        "a1",
        "x-y",
        "x{y",
        "new",
    ];
    let guest = Guest::start().await;
    guest.client.upload(tar(&[(".gitignore", 0o644, rules)]).as_slice()).await.unwrap();
    run(&guest, "git init -q -b main . && git add .gitignore && mkdir dist").await;
    for name in names {
        std::fs::write(guest.workspace().join(name), "content\n").unwrap();
    }
    let mut expected: Vec<String> = guest
        .sh("git ls-files -o --exclude-standard")
        .await
        .output
        .lines()
        .map(str::to_owned)
        .collect();
    expected.sort();
    assert_eq!(expected.len(), 7, "{expected:?}");
    assert_eq!(collected(&guest).await.0, expected);
    let found = edit(&guest, "grep_files", json!({"pattern": "content", "path": "."})).await.text;
    let mut found: Vec<&str> = found.lines().map(|line| line.trim_start_matches("./")).collect();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_file_that_is_written_anew_keeps_the_form_of_its_text() {
    let guest = Guest::start().await;
    let read = |path: &str| std::fs::read_to_string(guest.workspace().join(path)).unwrap();
    for (old, new, expected, said) in [
        (
            "a\r\nb\r\n",
            "c\nd\n",
            "c\r\nd\r\n",
            "(2 lines, 6 bytes, with CRLF at the ends of lines as before)",
        ),
        (
            "\u{feff}a\n",
            "b\n",
            "\u{feff}b\n",
            "(1 line, 5 bytes, with the byte order mark that it had)",
        ),
        (
            "\u{feff}a\r\n",
            "b\n",
            "\u{feff}b\r\n",
            "(1 line, 6 bytes, with the byte order mark that it had and CRLF at the ends of lines)",
        ),
        // What it writes itself is what it means.
        ("a\r\nb\r\n", "c\r\nd\n", "c\r\nd\n", "(2 lines, 5 bytes)"),
        ("a\r\nb\n", "c\n", "c\n", "(1 line, 2 bytes)"),
        ("a\n", "c\n", "c\n", "(1 line, 2 bytes)"),
    ] {
        std::fs::write(guest.workspace().join("f"), old).unwrap();
        let told = edit(&guest, "write_file", json!({"file_path": "f", "content": new})).await;
        assert_eq!((read("f").as_str(), told.text), (expected, format!("Overwrote f {said}")));
    }
    let text = b"\xff\xfea\0\n\0b\0\n\0";
    std::fs::write(guest.workspace().join("wide"), text).unwrap();
    let insert =
        json!({"command": "insert", "path": "wide", "insert_line": 1, "insert_text": "x\n"});
    let told = guest.client.tool("text_editor", insert, 1000, Duration::from_secs(20)).await;
    assert!(told.unwrap_err().to_string().contains("it is in UTF-16"));
    assert_eq!(std::fs::read(guest.workspace().join("wide")).unwrap(), text);
}

/// As `split` and `join` at line breaks have it in the editor that the model was trained with.
#[tokio::test]
async fn what_is_inserted_is_lines_and_takes_no_line_break_from_the_end_of_the_file() {
    let guest = Guest::start().await;
    for (old, after, text, expected) in [
        ("a\nb\n", 2, "c", "a\nb\nc\n"),
        ("a\nb\n", 2, "c\n", "a\nb\nc\n"),
        ("a\nb\n", 1, "c", "a\nc\nb\n"),
        ("a\nb", 2, "c", "a\nb\nc"),
        ("a\r\nb\r\n", 2, "c", "a\r\nb\r\nc\r\n"),
        ("", 0, "c", "c\n"),
    ] {
        std::fs::write(guest.workspace().join("f"), old).unwrap();
        let args =
            json!({"command": "insert", "path": "f", "insert_line": after, "insert_text": text});
        edit(&guest, "text_editor", args).await;
        let now = std::fs::read_to_string(guest.workspace().join("f")).unwrap();
        assert_eq!(now, expected, "{old:?} after {after}: {text:?}");
    }
}

#[tokio::test]
async fn a_text_that_is_not_in_utf_8_is_said_to_be_so() {
    let guest = Guest::start().await;
    let wide: Vec<u8> = b"\xff\xfe"
        .iter()
        .copied()
        .chain("Helo\n".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    std::fs::write(guest.workspace().join("wide"), wide).unwrap();
    std::fs::write(guest.workspace().join("latin"), b"# Pr\xe9nom\nname = 'x'\n").unwrap();
    let tell = async |tool: &str, args: Value| {
        let told = guest.client.tool(tool, args, 4000, Duration::from_secs(20)).await;
        told.map_or_else(|err| err.to_string(), |output| output.text)
    };
    let view = |path: &str| json!({"command": "view", "path": path});
    let edit = |path: &str, old: &str| json!({"command": "str_replace", "path": path, "old_str": old, "new_str": "other"});
    for (tool, args, says) in [
        ("text_editor", view("wide"), "it is in UTF-16; read and change it with commands"),
        (
            "read_file",
            json!({"file_path": "wide"}),
            "it is in UTF-16; read and change it with commands",
        ),
        (
            "text_editor",
            edit("wide", "Helo"),
            "The file is in UTF-16, and this tool works in UTF-8",
        ),
        (
            "text_editor",
            view("latin"),
            "(the file is not in UTF-8: bytes that are shown as \u{fffd} ",
        ),
        (
            "text_editor",
            edit("latin", "# Pr\u{fffd}nom"),
            "The file is not in UTF-8: bytes that are shown",
        ),
        ("text_editor", edit("latin", "nam = 'x'"), "Copy the text as it is there"),
        ("text_editor", edit("latin", "name = 'x'"), "Edited latin"),
    ] {
        let told = tell(tool, args.clone()).await;
        assert!(told.contains(says), "{args}: {told}");
    }
    let now = std::fs::read(guest.workspace().join("latin")).unwrap();
    assert_eq!(now, b"# Pr\xe9nom\nother\n");
}

#[tokio::test]
async fn numbers_that_were_copied_with_the_lines_are_no_part_of_them() {
    let guest = Guest::start().await;
    let content = "def a():\n    return 1\n\ndef b():\n    return 1\n";
    let edit = async |old: &str, new: &str| {
        std::fs::write(guest.workspace().join("f"), content).unwrap();
        let args = json!({"command": "str_replace", "path": "f", "old_str": old, "new_str": new});
        let told = guest.client.tool("text_editor", args, 4000, Duration::from_secs(20)).await;
        let now = std::fs::read_to_string(guest.workspace().join("f")).unwrap();
        told.map(|_| now).map_err(|err| err.to_string())
    };
    let expected = "def a():\n    return 2\n\ndef b():\n    return 1\n";
    for (old, new) in [
        ("L1: def a():\nL2:     return 1", "L1: def a():\nL2:     return 2"),
        ("L1: def a():\nL2:     return 1", "def a():\n    return 2"),
        ("     1\tdef a():\n     2\t    return 1", "def a():\n    return 2"),
    ] {
        assert_eq!(edit(old, new).await.as_deref(), Ok(expected), "{old}");
    }
    // It is there twice, or the numbers do not go on: nothing is taken for granted.
    for old in ["L2:     return 1", "L1: def a():\nL9:     return 1"] {
        let why = edit(old, "x").await.unwrap_err();
        assert!(why.contains("the old text is not in it"), "{old}: {why}");
    }
}
