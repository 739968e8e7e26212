//! The text formats of models without tool calls: a corpus of replies with what they do
//! (`fixtures/edit_formats`), properties, and hostile input.
#![allow(clippy::format_collect, clippy::needless_for_each, reason = "tests read better so")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use patchwright_guest::edit_format::{self, Edit, What, read};
use proptest::prelude::*;

type Files = BTreeMap<String, String>;

/// One folder a case: `reply.md` is what a model wrote, `before/` and `after/` are the files,
/// `report.txt` is what it was told. `UPDATE_EXPECT=1` writes the last two.
#[test]
#[expect(clippy::disallowed_methods, reason = "UPDATE_EXPECT is of the tests, not of the program")]
fn replies_do_what_their_cases_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/edit_formats");
    let mut cases: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() > 30, "{} cases", cases.len());
    let is_update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut wrong = Vec::new();
    for case in cases {
        let mut files = load(&case.join("before"));
        let report = carry_out(&fs::read_to_string(case.join("reply.md")).unwrap(), &mut files);
        if is_update {
            save(&case.join("after"), &files);
            fs::write(case.join("report.txt"), &report).unwrap();
        }
        let expected = fs::read_to_string(case.join("report.txt")).unwrap_or_default();
        if report != expected {
            wrong.push(format!("{}: report\n{report}--- not\n{expected}", case.display()));
        }
        let after = load(&case.join("after"));
        if files != after {
            wrong.push(format!("{}: files\n{files:#?}\n--- not\n{after:#?}", case.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Applies every edit that fits; says what became of each block.
fn carry_out(reply: &str, files: &mut Files) -> String {
    let mut report = String::new();
    for block in read(reply) {
        write!(report, "line {}: ", block.line).unwrap();
        match block.what {
            What::Edit { path, edit } => {
                let applied = edit_format::apply(files.get(&path).map(String::as_str), &edit);
                match applied {
                    Ok(applied) => {
                        let note = applied.note.unwrap_or_default();
                        writeln!(report, "{} of {path}: done; {note}", name(&edit)).unwrap();
                        match applied.content {
                            Some(content) => files.insert(path, content),
                            None => files.remove(&path),
                        };
                    }
                    Err(miss) => {
                        writeln!(report, "{} of {path}: missed: {miss}", name(&edit)).unwrap();
                    }
                }
            }
            What::Command(script) => writeln!(report, "command: {script}").unwrap(),
            What::Plan(list) => {
                writeln!(report, "plan: {:?}", list.explanation.unwrap_or_default()).unwrap();
                for item in list.items {
                    writeln!(report, "  {:?} {}", item.state, item.text).unwrap();
                }
            }
            What::Malformed(why) => writeln!(report, "malformed: {why}").unwrap(),
            What::Unnamed(why) => writeln!(report, "unnamed: {why}").unwrap(),
        }
    }
    report
}

fn name(edit: &Edit) -> &'static str {
    match edit {
        Edit::SearchReplace { .. } => "search/replace",
        Edit::UnifiedDiff { .. } => "diff",
        Edit::WholeFile { .. } => "whole file",
    }
}

fn load(folder: &Path) -> Files {
    let mut files = Files::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir().into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

fn save(folder: &Path, files: &Files) {
    if folder.exists() {
        fs::remove_dir_all(folder).unwrap();
    }
    for (name, content) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Lines that mean something to a reader of replies, and some that do not.
const PIECES: &[&str] = &[
    "```",
    "````",
    "~~~",
    "```bash",
    "```diff",
    "```python",
    "```plan",
    "``` src/a.py",
    "<<<<<<< SEARCH",
    "=======",
    ">>>>>>> REPLACE",
    "<<<<<<< ORIGINAL",
    ">>>>>>> UPDATED",
    "--- a/a.txt",
    "+++ b/a.txt",
    "--- /dev/null",
    "+++ /dev/null",
    "@@ -1,2 +1,2 @@",
    "@@ ... @@",
    "@@",
    "diff --git a/a.txt b/a.txt",
    "rename from a.txt",
    "\\ No newline at end of file",
    "a.txt",
    "`src/a.py`:",
    "### b.md",
    "...",
    "- [x] done",
    "- [ ] to do",
    "",
    " ",
    "\t",
    " one",
    "-one",
    "+two",
    "one",
    "two",
    "  one",
    "}",
    "é",
    "\u{202e}",
    "<think>",
    "</think>",
    "# ... rest of it",
];

fn pieces(most: usize) -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => prop::sample::select(PIECES).prop_map(str::to_owned),
        1 => ".{0,12}",
    ];
    let end = prop_oneof![8 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\r")];
    prop::collection::vec((line, end), 0..most)
        .prop_map(|lines| lines.into_iter().map(|(line, end)| line + end).collect())
}

/// Lines of which each is there once only, and what becomes of them: kept, replaced, or kept with
/// lines before them.
fn change() -> impl Strategy<Value = Vec<(bool, Vec<String>)>> {
    let added = prop::collection::vec("[ \t]{0,3}[a-z+<=-]{1,6}", 0..3);
    prop::collection::vec(
        (prop::bool::weighted(0.8), prop_oneof![3 => Just(vec![]), 1 => added]),
        1..40,
    )
}

fn sides(change: &[(bool, Vec<String>)], end: &str) -> (String, String) {
    let (mut old, mut new) = (String::new(), String::new());
    for (number, (is_kept, added)) in change.iter().enumerate() {
        let line = format!("  line {number} é{end}");
        old.push_str(&line);
        added.iter().for_each(|line| new.push_str(&format!("{line}{end}")));
        if *is_kept {
            new.push_str(&line);
        }
    }
    (old, new)
}

/// The change as one hunk a run, with `context` lines around and line numbers off by `drift`.
fn as_diff(change: &[(bool, Vec<String>)], context: usize, drift: usize) -> String {
    let mut text = "--- a/f\n+++ b/f\n".to_owned();
    let is_changed = |at: usize| !change[at].0 || !change[at].1.is_empty();
    let mut done = 0;
    let mut at = 0;
    while at < change.len() {
        if !is_changed(at) {
            at += 1;
            continue;
        }
        let mut last = at;
        while let Some(next) =
            (last + 1..change.len().min(last + 2 + 2 * context)).find(|at| is_changed(*at))
        {
            last = next;
        }
        let (from, to) =
            (at.saturating_sub(context).max(done), change.len().min(last + 1 + context));
        text.push_str(&format!("@@ -{},{} +{},9 @@ fn\n", from + 1 + drift, to - from, from + 1));
        for (number, (is_kept, added)) in change.iter().enumerate().take(to).skip(from) {
            added.iter().for_each(|line| text.push_str(&format!("+{line}\n")));
            text.push_str(&format!("{}  line {number} é\n", if *is_kept { ' ' } else { '-' }));
        }
        done = to;
        at = to;
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_reply_and_no_file_makes_it_panic(reply in pieces(40), file in pieces(12)) {
        for block in read(&reply) {
            prop_assert!(block.line <= reply.lines().count() + 1);
            if let What::Edit { edit, path } = block.what {
                prop_assert!(!path.is_empty());
                let _ = edit_format::apply(Some(&file), &edit);
                let _ = edit_format::apply(None, &edit);
            }
        }
    }

    #[test]
    fn no_edit_makes_it_panic(one in pieces(8), other in pieces(8), file in pieces(12)) {
        let edits = [
            Edit::SearchReplace { search: one.clone(), replace: other },
            Edit::UnifiedDiff { diff: one.clone() },
            Edit::WholeFile { content: one },
        ];
        for edit in edits {
            let _ = edit_format::apply(Some(&file), &edit);
        }
    }

    #[test]
    fn a_block_replaces_its_lines_and_nothing_else(
        lines in prop::collection::vec("[ab ]{0,2}", 1..12),
        from in 0usize..12,
        count in 1usize..5,
        new in prop::collection::vec("[a-c ]{0,3}", 0..4),
        crlf in any::<bool>(),
        ends in any::<bool>(),
    ) {
        let from = from % lines.len();
        let search = &lines[from..lines.len().min(from + count)];
        // An empty last line without an end is no line.
        prop_assume!(ends || lines.last().is_some_and(|line| !line.is_empty()));
        prop_assume!(search.iter().any(|line| !line.trim().is_empty()));
        let end = if crlf { "\r\n" } else { "\n" };
        let first = (0..lines.len()).find(|at| lines[*at..].starts_with(search)).unwrap();
        let after = lines[..first].iter().chain(&new).chain(&lines[first + search.len()..]);
        let mut expected: String = after.map(|line| format!("{line}{end}")).collect();
        let mut file: String = lines.iter().map(|line| format!("{line}{end}")).collect();
        if !ends {
            file.truncate(file.len() - end.len());
            expected.truncate(expected.len().saturating_sub(end.len()));
        }
        prop_assume!(file.contains(end));
        let block = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let reply = format!(
            "Here.\n\nsrc/f.txt\n```\n<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE\n```\n",
            block(search),
            block(&new)
        );
        let blocks = read(&reply);
        prop_assert_eq!(blocks.len(), 1);
        let What::Edit { path, edit } = &blocks[0].what else { panic!("{blocks:?}") };
        prop_assert_eq!(path, "src/f.txt");
        let applied = edit_format::apply(Some(&file), edit).unwrap();
        prop_assert_eq!(applied.content.unwrap(), expected);
    }

    #[test]
    fn a_diff_makes_the_new_file_of_the_old_whatever_its_numbers(
        change in change(),
        context in 1usize..4,
        drift in 0usize..30,
        crlf in any::<bool>(),
    ) {
        let (old, new) = sides(&change, if crlf { "\r\n" } else { "\n" });
        prop_assume!(old != new);
        // Without any old line a hunk has no place of its own.
        let diff = as_diff(&change, context, drift);
        let reply = format!("```diff\n{diff}```\n");
        let blocks = read(&reply);
        prop_assert_eq!(blocks.len(), 1, "{}", reply);
        let What::Edit { edit, .. } = &blocks[0].what else { panic!("{blocks:?}") };
        let applied = edit_format::apply(Some(&old), edit);
        prop_assert!(applied.is_ok(), "{}\n{:?}", diff, applied);
        prop_assert_eq!(applied.unwrap().content.unwrap(), new, "{}", diff);
    }

    #[test]
    fn a_whole_file_is_what_stands_in_its_fence(
        content in pieces(12).prop_filter("no lone CR", |text| !text.contains('\r')),
    ) {
        let reply = format!("notes.txt\n``````text\n{content}``````\n");
        let head = content.lines().find(|line| !line.trim().is_empty());
        let is_marker = |line: &str| line.trim().starts_with(['<', '>']);
        prop_assume!(!content.contains("<<<<<<< SEARCH"));
        prop_assume!(head.is_some_and(|line| !is_marker(line)));
        let blocks = read(&reply);
        prop_assert_eq!(blocks.len(), 1);
        let What::Edit { edit, .. } = &blocks[0].what else { panic!("{blocks:?}") };
        let applied = edit_format::apply(None, edit).unwrap();
        prop_assert_eq!(applied.content.unwrap(), content);
    }
}

/// Each of these would take hours if it took the square of its size.
#[test]
fn large_and_hostile_input_comes_to_an_end() {
    let many = |line: &str| line.repeat((1 << 20) / line.len());
    let replies = [
        many("```\n"),
        many("````x\n"),
        many("f.txt\n```\n"),
        many("<<<<<<< SEARCH\n"),
        many("```\nf.py\n<<<<<<< SEARCH\n"),
        many("<<<<<<< SEARCH\n=======\n"),
        many("```py\na b\n<<<<<<< SEARCH\na\n=======\n```\n"),
        format!("```diff\n{}", many("--- a/f\n+++ b/f\n@@\n")),
        format!("```diff\n{}{}```\n", "\n".repeat(1 << 19), many("--- a\n+++ b\n")),
        many("`"),
        many(">>>>>>> REPLACE\n"),
    ];
    for reply in replies {
        read(&reply);
    }
    let file = many("same\n");
    let block = "same\n".repeat(50_000);
    let search = |search: String| Edit::SearchReplace { search, replace: "x\n".to_owned() };
    let edits = [
        search(format!("{block}other\n")),
        search(format!("  {}  other\n", block.replace('\n', "\n  "))),
        search(format!("  {}same\n", block.replace('\n', "\n  "))),
        search("same\n...\nother\n".to_owned()),
        Edit::UnifiedDiff { diff: format!("@@\n-{}-other\n", block.replace('\n', "\n-")) },
        Edit::UnifiedDiff { diff: "@@\n-same\n+other\n".repeat(100) },
        Edit::WholeFile { content: many("# ... existing code\n") },
    ];
    for edit in edits {
        let _ = edit_format::apply(Some(&file), &edit);
    }
}
