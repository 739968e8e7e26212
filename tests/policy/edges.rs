//! The edges of the rules: what is just inside one and what is just outside.

use patchwright_policy::{Globs, content};

use super::*;

fn rules(draft: &Draft) -> Vec<String> {
    let judgement = draft.judge(&Policy::default(), &[]);
    judgement.flags.into_iter().map(|flag| flag.rule).collect()
}

#[test]
fn a_note_alone_is_no_reason_for_a_draft() {
    for (path, is_draft) in [("conftest.py", false), ("src/a.py", false), ("Makefile", true)] {
        let judgement =
            Draft::default().file(path, None, Some("a\n")).judge(&Policy::default(), &[]);
        assert_eq!(judgement.wants_draft(), is_draft, "{path}");
    }
}

#[test]
fn new_files_that_windows_cannot_check_out_are_noted() {
    let bad =
        ["con", "docs/AUX.md", "com1", "lpt9.tar.gz", "nul .txt", "a:b", "what?.md", "x.", "b /c"];
    let good = ["console", "com", "com10", "COM0", "a b", ".x", "docs/a.con", "lpt.md"];
    for (path, is_noted) in bad.map(|it| (it, true)).into_iter().chain(good.map(|it| (it, false))) {
        let draft = Draft::default().file(path, None, Some("a\n"));
        let notes: &[&str] = if is_noted { &["path.note"] } else { &[] };
        assert_eq!(rules(&draft), notes, "{path}");
        let changed = Draft::default().file(path, Some("a\n"), Some("b\n"));
        assert_eq!(rules(&changed), [""; 0], "{path} is there already");
    }
}

#[test]
fn what_is_held_back_is_left_out_and_the_rest_is_published() {
    let draft = Draft::default().file(".github/workflows/a.yml", None, Some("on: push\n")).file(
        "src/a.rs",
        None,
        Some("fn a() {}\n"),
    );
    let judgement = draft.judge(&Policy::default(), &[]);
    let change = draft.change();
    let paths: Vec<&str> =
        judgement.publishable(&change).iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["src/a.rs"]);
}

#[test]
fn patterns_of_paths_match_what_gitignore_matches() {
    let globs = Globs::new(&["/docs/".to_owned(), "*.lock".to_owned(), "[".to_owned()]);
    for (path, matches) in [
        ("docs/a/b.md", true),
        ("Docs/a.md", true),
        ("src/docs/a.md", false),
        ("deep/er/Cargo.lock", true),
        ("src/lock.rs", false),
        ("[", false),
    ] {
        assert_eq!(globs.matches(path), matches, "{path}");
    }
}

/// A line counts as added as often as it stands there more than before.
#[test]
fn a_second_copy_of_a_line_is_an_added_line() {
    let line = "x = 1  # noqa\n";
    for (new, is_flagged) in
        [(line.to_owned(), false), (format!("y\n{line}"), false), (line.repeat(2), true)]
    {
        let draft = Draft::default().file("src/a.py", Some(line), Some(&new));
        assert_eq!(rules(&draft).contains(&"checks.disabled".to_owned()), is_flagged, "{new}");
    }
}

#[test]
fn our_own_secret_in_a_file_that_was_there_is_found_and_an_unchanged_one_is_not_ours_to_judge() {
    let leak = format!("key = {CANARY}\n");
    let policy = Policy::default();
    let written = Draft::default().file("a.txt", Some("key = none\n"), Some(&leak));
    assert_eq!(written.violated(&policy), ["secret.own a.txt"]);
    // What was there before is no leak of this change, and hides none.
    let half = &CANARY[..CANARY.len() / 2];
    for (old, new, found) in [
        (leak.clone(), format!("{leak}more = 1\n"), &[][..]),
        (format!("key = {half}\n"), format!("# {half}\nmore = 1\n"), &[]),
        (format!("key = {half}\n"), leak.clone(), &["secret.own a.txt"]),
    ] {
        let draft = Draft::default().file("a.txt", Some(&old), Some(&new));
        assert_eq!(draft.violated(&policy), found, "{old} {new}");
    }
    let mut mode_only = Draft::default();
    let old = mode_only.blob(Mode::File, leak.as_bytes());
    let new = Entry { mode: Mode::Executable, ..old };
    mode_only.entry("a.txt", Some(old), Some(new));
    assert_eq!(mode_only.violated(&policy), Vec::<String>::new());
}

#[test]
fn tests_are_known_by_their_folders_and_names() {
    for path in [
        "tests/a.rs",
        "a/test/b.py",
        "a/__tests__/b.js",
        "e2e/a.ts",
        "a.test.ts",
        "a.spec.ts",
        "test_a.py",
        "a_test.go",
        "a_spec.rb",
        "src/tests.rs",
        "src/test.rs",
        "appTest.java",
        "src/CalcTest.php",
        "CalcTests.swift",
        "Calc.Tests/Sums.cs",
    ] {
        assert!(content::is_test(&path.to_lowercase()), "{path}");
    }
    for path in ["src/a.rs", "contest.py", "latest/a.js", "attest.rs", "src/testing.rs", "tests"] {
        assert_eq!(content::is_test(path), path == "tests", "{path}");
    }
}

#[test]
fn a_test_that_says_less_than_before_is_shown() {
    let old = Some("import a\n# sums\nassert add(2, 2) == 4\n");
    for (new, expected) in [
        ("import a\n# sums\nassert add(2, 2) == 0\n", vec!["tests.changed"]),
        ("import a\n# sums\n", vec!["tests.changed"]),
        ("import b\n# more sums\nassert add(2, 2) == 4\nassert add(2, 3) == 5\n", vec![]),
        ("assert add(2, 2) == 4\nimport a\n# sums\n", vec![]),
    ] {
        let draft = Draft::default().file("tests/test_a.py", old, Some(new));
        assert_eq!(rules(&draft), expected, "{new}");
        let draft = Draft::default().file("src/a.py", old, Some(new));
        assert_eq!(rules(&draft), Vec::<String>::new(), "{new}");
    }
}

/// As many come as go: a reader would not see that one is gone.
#[test]
fn a_test_that_is_gone_is_named_though_another_one_comes() {
    let old = Some("func TestAbs(t *testing.T) {\n}\n\nfunc TestSum(t *testing.T) {\n}\n");
    let new = Some("func TestNothing(t *testing.T) {\n}\n\nfunc TestSum(t *testing.T) {\n}\n");
    let draft = Draft::default().file("calc_test.go", old, new);
    let flag = &draft.judge(&Policy::default(), &[]).flags[0];
    assert_eq!(flag.rule, "tests.removed");
    assert_eq!(flag.message, "1 test(s) removed or renamed, 1 added: `TestAbs`");
}

#[test]
fn only_a_test_that_is_gone_is_said_to_be_deleted() {
    let text = Some("x\n");
    let gone = Draft::default().file("tests/a.txt", text, None);
    assert_eq!(rules(&gone), ["tests.deleted"]);
    for draft in [
        Draft::default().file("src/a.txt", text, None),
        Draft::default().file("tests/a.txt", text, Some("x\ny\n")),
        Draft::default().file("tests/a.txt", None, text),
    ] {
        assert_eq!(rules(&draft), Vec::<String>::new());
    }
    // A submodule has no text that could have been a test.
    let mut submodule = Draft::default();
    let link = submodule.blob(Mode::Gitlink, b"commit");
    submodule.entry("tests/vendor", Some(link), None);
    assert_eq!(rules(&submodule), Vec::<String>::new());
}

#[test]
fn what_was_left_out_as_a_cache_is_named_and_the_rest_of_a_long_list_is_counted() {
    let draft = Draft::default().file("src/a.rs", None, Some("fn a() {}\n"));
    let flags = |count: usize| {
        let artefacts = (0..count).map(|at| format!("cache{at}")).collect();
        let change = Change { artefacts, ..draft.change() };
        policy::check(&Policy::default(), &change, &draft, &redactor(), &[]).flags
    };
    assert_eq!(flags(0), []);
    // Whatever runs Python leaves these.
    let caches = ["a/__pycache__", ".pytest_cache", "b.pyc"].map(str::to_owned);
    let change = Change { artefacts: caches.into(), ..draft.change() };
    assert_eq!(policy::check(&Policy::default(), &change, &draft, &redactor(), &[]).flags, []);
    for (count, ends) in [(1, "outputs: `cache0`"), (10, "`cache9`"), (12, "`cache9` and 2 more")] {
        let flags = flags(count);
        assert_eq!(flags.len(), 1, "{flags:?}");
        assert_eq!(flags[0].rule, "artefacts");
        assert!(flags[0].message.ends_with(ends), "{}", flags[0].message);
    }
}

/// A reviewer never sees what is too large; everything else is looked at whatever is wrong beside it.
#[test]
fn a_change_that_breaks_one_rule_is_still_read_for_the_others() {
    let token = examples().into_iter().find(|(id, _)| *id == "github-token").unwrap().1;
    let draft = Draft::default().link("link", "../../etc/passwd").file(
        "a.txt",
        None,
        Some(&format!("{token}\n")),
    );
    let both = ["path.symlink-outside link", "secret.github-token a.txt"];
    assert_eq!(draft.violated(&Policy::default()), both);
    let small = Policy { max_files: 1, ..Policy::default() };
    assert_eq!(draft.violated(&small), ["path.symlink-outside link", "size.files -"]);
}

#[test]
fn a_phrase_counts_only_where_a_word_begins() {
    for (line, is_flagged) in
        [("xit('a')", true), (" xit('a')", true), ("exit('a')", false), ("_xit('a')", false)]
    {
        let draft = Draft::default().file("src/a.js", None, Some(&format!("{line}\n")));
        assert_eq!(rules(&draft).contains(&"tests.skipped".to_owned()), is_flagged, "{line}");
    }
    // Part of a member's name, and part of a longer name.
    for line in ["a.xit('a')", "prefixxit('a')"] {
        let draft = Draft::default().file("src/a.js", None, Some(&format!("{line}\n")));
        assert_eq!(rules(&draft), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn joiners_belong_to_emoji_and_nowhere_else() {
    for (line, is_flagged) in [
        ("a\u{200d}b", true),
        ("a\u{fe0f}b", true),
        ("👨\u{200d}👩", false),
        ("❤\u{fe0f}", false),
        ("👨\u{200b}", true),
        // The last character before those that joiners belong to.
        ("\u{203b}\u{200d}", true),
        ("\u{203c}\u{fe0f}", false),
    ] {
        let draft = Draft::default().file("src/a.rs", None, Some(&format!("{line}\n")));
        assert_eq!(rules(&draft).contains(&"content.invisible".to_owned()), is_flagged, "{line:?}");
    }
    let many: String = ('\u{200b}'..='\u{200d}').chain('\u{2060}'..='\u{2064}').collect();
    let draft = Draft::default().file("src/a.rs", None, Some(&format!("a{many}{many}\n")));
    let message = draft.judge(&Policy::default(), &[]).flags[0].message.clone();
    assert_eq!(message.matches("U+").count(), 5, "{message}");
    assert_eq!(message.matches("U+200B").count(), 1, "{message}");
}

#[test]
fn links_are_followed_by_every_segment() {
    for (path, target, stays) in [
        ("a", "./b", true),
        ("a", "./../b", false),
        ("a", ".//../b", false),
        ("d/a", "././../b", true),
        ("d/a", "././../../b", false),
    ] {
        let violated = Draft::default().link(path, target).violated(&Policy::default());
        assert_eq!(violated.is_empty(), stays, "{path} -> {target}: {violated:?}");
    }
}

#[test]
fn paths_that_no_tree_may_have_are_known() {
    use patchwright_policy::paths::unsafe_path;
    for path in ["", "/a", "a\0b", "a\nb", "a//b", "a/./b", "../a", "a/.."] {
        assert!(unsafe_path(path).is_some(), "{path:?}");
    }
    for path in [".git", "a/.GIT/b", "git~1", "a/.git:x", ".git. /a"] {
        assert_eq!(unsafe_path(path), Some("is inside a git folder"), "{path:?}");
    }
    // Names that only another system cannot have are refused where a change brings them.
    for path in ["a", "a/b", "a\\b", "a/ /b", "a/.../b", ".github/a", "git", "a.git", "agit~1"] {
        assert_eq!(unsafe_path(path), None, "{path:?}");
    }
}

#[test]
fn scripts_are_those_of_a_package_file_wherever_it_is() {
    let script = |command: &str| format!(r#"{{"scripts": {{"test": "{command}"}}}}"#);
    let (old, new) = (script("jest"), script("evil"));
    let is_flagged = |path: &str, new: &str| {
        let draft = Draft::default().file(path, Some(&old), Some(new));
        rules(&draft).contains(&"path.protected.scripts".to_owned())
    };
    assert!(is_flagged("package.json", &new));
    assert!(is_flagged("a/b/package.json", &new));
    assert!(!is_flagged("a/my-package.json", &new));
    assert!(!is_flagged("package.json", &format!("{old} ")));
    // npm reads a file that begins with this mark; what it might read and we cannot is flagged.
    assert!(is_flagged("package.json", &format!("\u{feff}{new}")));
    assert!(!is_flagged("package.json", &format!("\u{feff}{old}")));
    assert!(is_flagged("package.json", &format!("{old},")));
}

/// A bare repository needs no `.git`: git obeys it wherever somebody runs it within.
#[test]
fn a_folder_that_becomes_a_git_repository_is_shown() {
    let is_flagged = |path: &str, new: &str| {
        let judgement = Draft::default().file(path, None, Some(new)).judge(&Policy::default(), &[]);
        judgement.flags.iter().any(|flag| flag.rule == "path.git-folder") && judgement.wants_draft()
    };
    let id = "0123456789abcdef0123456789abcdef01234567\n";
    for (path, new) in [
        ("tests/data/HEAD", "ref: refs/heads/main\n"),
        ("HEAD", id),
        ("a/head", "ref:refs/heads/x"),
        ("a/config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"),
        ("a/config", "[CORE]\n\tfsMonitor = ./run.sh\n"),
        ("a/config", "[include]\n\tpath = evil\n"),
    ] {
        assert!(is_flagged(path, new), "{path}: {new}");
    }
    for (path, new) in [
        ("docs/HEAD", "# The head of the page\n"),
        ("a/HEAD.html", "ref: refs/heads/main\n"),
        ("a/config", "Host example\n  User git\n"),
        (".dvc/config", "[core]\n    remote = storage\n['remote \"storage\"']\n    url = s3://a\n"),
        ("a/heads", id),
    ] {
        assert!(!is_flagged(path, new), "{path}: {new}");
    }
}

/// The strongest reason is the one that is shown.
#[test]
fn of_several_protections_the_one_that_makes_a_draft_is_said() {
    let policy =
        Policy { protected_paths: vec!["conftest.py".into(), "*.py".into()], ..Policy::default() };
    let judgement = Draft::default().file("conftest.py", None, Some("a\n")).judge(&policy, &[]);
    assert_eq!(judgement.flags[0].rule, "path.protected.listed");
    assert!(judgement.wants_draft());
}

/// Too many patterns to compile are no reason to protect nothing.
#[test]
fn patterns_that_cannot_be_compiled_together_protect_everything() {
    let huge = format!("{{{}}}", ["a".repeat(1_000_000), "b".to_owned()].join(","));
    let policy = Policy { blocked_paths: vec![huge], ..Policy::default() };
    let judgement = Draft::default().file("src/a.rs", None, Some("a\n")).judge(&policy, &[]);
    assert_eq!(judgement.held_back.len(), 1);
}
