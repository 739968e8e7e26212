//! The patch engine: one folder under `fixtures/patches` per rule, a table for the hosted dialect,
//! properties, and attacks on the workspace boundary. Everything goes through the command's `run` or
//! the tool's `run_patch`, on a real folder.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use patchwright::cli::apply_patch;
use patchwright_guest::block::finder::{Finder, PASSES};
use patchwright_guest::patch::parse::parse;
use patchwright_guest::tool::ToolError;
use patchwright_guest::tools::apply_patch::program::{self, ProgramContext};
use patchwright_guest::tools::apply_patch::{
    Intercepted, intercept, intercept_script, run_patch, run_verified,
};
use patchwright_guest::tools::root::Root;
use proptest::prelude::*;

/// What stands below a folder: contents of files, targets of links.
#[derive(Debug, PartialEq)]
enum Node {
    File(Vec<u8>),
    Link(PathBuf),
}

fn tree(folder: &Path) -> BTreeMap<PathBuf, Node> {
    let mut out = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir().into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_owned();
            if path.is_symlink() {
                out.insert(name, Node::Link(fs::read_link(&path).unwrap()));
            } else if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                out.insert(name, Node::File(fs::read(&path).unwrap()));
            }
        }
    }
    out
}

/// Exit code, standard output, standard error.
fn run(folder: &Path, dialect: Dialect, mut input: &[u8]) -> (u8, Vec<u8>, String) {
    let args = apply_patch::Args { dir: folder.to_owned(), hosted: dialect == Dialect::Hosted };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let code = apply_patch::run(&args, &mut input, &mut stdout, &mut stderr);
    let place = fs::canonicalize(folder).unwrap_or_default();
    let stderr = String::from_utf8(stderr).unwrap().replace(&*place.to_string_lossy(), "[DIR]");
    (code, stdout, stderr)
}

#[derive(Clone, Copy, PartialEq)]
enum Dialect {
    Patch,
    Hosted,
}

/// A patch text around one body.
fn patch(body: &str) -> String {
    format!("*** Begin Patch\n{body}\n*** End Patch\n")
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/patches")
}

/// Runs one fixture folder; says what differs.
fn check(case: &Path) -> Result<(), String> {
    let work = tempfile::tempdir().unwrap();
    for (name, node) in tree(&case.join("input")) {
        let Node::File(content) = node else { return Err("a link in the fixture".to_owned()) };
        let path = work.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let outcome = run(work.path(), Dialect::Patch, &fs::read(case.join("patch.txt")).unwrap());
    let read = |name: &str| fs::read_to_string(case.join(name)).unwrap_or_default();
    let code = read("exit").trim().parse().unwrap_or(0);
    let expected = (code, read("stdout.txt").into_bytes(), read("stderr.txt"));
    if outcome != expected {
        return Err(format!("outcome {outcome:?}\n  expected {expected:?}"));
    }
    let (left, after) = (tree(work.path()), if code == 0 { "expected" } else { "input" });
    let wanted = tree(&case.join(after));
    if left == wanted { Ok(()) } else { Err(format!("tree {left:?}\n  expected {wanted:?}")) }
}

#[test]
fn fixtures_give_the_recorded_trees_and_messages() {
    let mut cases: Vec<PathBuf> =
        fixtures().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.is_dir());
    assert!(cases.len() > 100, "the fixtures are missing");
    cases.sort();
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| check(case).err().map(|why| format!("{}: {why}", case.display())))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[derive(serde::Deserialize)]
struct Hosted {
    name: String,
    r#type: String,
    #[serde(default)]
    input: String,
    diff: String,
    output: Option<String>,
    error: Option<String>,
}

#[test]
fn hosted_operations_follow_the_sdk() {
    let table = fs::read_to_string(fixtures().join("hosted.json")).unwrap();
    let rows: Vec<Hosted> = serde_json::from_str(&table).unwrap();
    let mut failures = Vec::new();
    for row in rows {
        let work = tempfile::tempdir().unwrap();
        let file = work.path().join("f");
        if row.r#type == "update_file" {
            fs::write(&file, &row.input).unwrap();
        }
        let operation = serde_json::json!({"type": row.r#type, "path": "f", "diff": row.diff});
        let (code, _, stderr) = run(work.path(), Dialect::Hosted, operation.to_string().as_bytes());
        let output = (code == 0).then(|| fs::read_to_string(&file).unwrap());
        let fits = match &row.error {
            // The error text goes on with the path.
            Some(error) => code == 1 && stderr.starts_with(&**error),
            None => output == row.output,
        };
        if !fits {
            failures.push(format!("{}: {code} {output:?} {stderr}", row.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn hosted_delete_removes_the_file_and_says_so() {
    let work = tempfile::tempdir().unwrap();
    fs::write(work.path().join("f"), "a").unwrap();
    let outcome = run(work.path(), Dialect::Hosted, br#"{"type":"delete_file","path":"f"}"#);
    let text = b"Success. Updated the following files:\nD f\n".to_vec();
    assert_eq!((outcome, tree(work.path()).len()), ((0, text, String::new()), 0));
}

#[test]
fn wrong_use_exits_with_2() {
    let work = tempfile::tempdir().unwrap();
    let missing = work.path().join("missing");
    assert_eq!(run(&missing, Dialect::Patch, b"x").0, 2);
    assert_eq!(run(work.path(), Dialect::Patch, b"").0, 2);
    assert_eq!(run(work.path(), Dialect::Hosted, b"{}").0, 2);
    assert_eq!(run(work.path(), Dialect::Hosted, b"*** Begin Patch").0, 2);
    assert_eq!(run(work.path(), Dialect::Hosted, br#"{"type":"chmod","path":"f"}"#).0, 2);
}

/// A workspace with files and links in it, next to a folder that must never change.
struct Yard {
    outside: PathBuf,
    inside: PathBuf,
    _folder: tempfile::TempDir,
}

fn yard() -> Yard {
    let folder = tempfile::tempdir().unwrap();
    let (outside, inside) = (folder.path().join("outside"), folder.path().join("work"));
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(inside.join("dir")).unwrap();
    fs::create_dir_all(inside.join(".git/hooks")).unwrap();
    fs::write(outside.join("secret"), "a\n").unwrap();
    fs::write(inside.join("file"), "a\n").unwrap();
    fs::write(inside.join("dir/file"), "a\n").unwrap();
    fs::write(inside.join(".git/config"), "a\n").unwrap();
    for (target, link) in [
        ("/", "to_root"),
        ("..", "to_parent"),
        ("../outside", "to_outside"),
        ("../outside/secret", "to_secret"),
        ("../outside/new", "to_new"),
        (".git", "to_git"),
        ("/proc/self/root", "to_magic"),
        ("loop", "loop"),
        ("dir", "to_dir"),
        ("dir/file", "to_file"),
        ("dir/made", "dangling"),
    ] {
        symlink(target, inside.join(link)).unwrap();
    }
    symlink(inside.join("dir/file"), inside.join("absolute")).unwrap();
    Yard { outside, inside, _folder: folder }
}

#[test]
fn no_section_reaches_outside_or_into_git() {
    let yard = yard();
    let outside = yard.outside.display();
    let mut paths = vec![format!("{outside}/secret"), "dir/\0/x".to_owned()];
    paths.extend(
        [
            "../outside/secret",
            "dir/../../outside/secret",
            "to_root/etc/hostname",
            "to_parent/outside/secret",
            "to_outside/secret",
            "to_outside/new",
            "to_secret",
            "to_new",
            "to_magic/etc/hostname",
            "loop/x",
            "to_git/config",
            "to_git/hooks/pre-push",
            ".git/config",
            ".Git/config",
            "dir/.git/config",
            "/etc/hostname",
        ]
        .map(str::to_owned),
    );
    let before = (tree(&yard.outside), tree(&yard.inside));
    for path in paths {
        for body in [
            format!("*** Add File: {path}\n+x"),
            format!("*** Update File: {path}\n@@\n-a\n+b"),
            format!("*** Update File: file\n*** Move to: {path}\n@@\n-a\n+b"),
            format!("*** Delete File: {path}/x"),
        ] {
            let (code, _, stderr) = run(&yard.inside, Dialect::Patch, patch(&body).as_bytes());
            assert_eq!(code, 1, "{body}: {stderr}");
        }
    }
    assert_eq!((tree(&yard.outside), tree(&yard.inside)), before);
}

#[test]
fn links_that_stay_inside_are_written_through() {
    for (path, written) in [
        ("to_file", "dir/file"),
        ("absolute", "dir/file"),
        ("to_dir/file", "dir/file"),
        ("dangling", "dir/made"),
        ("to_dir/deep/new", "dir/deep/new"),
    ] {
        let yard = yard();
        let links = |tree: BTreeMap<PathBuf, Node>| {
            tree.into_values().filter(|node| matches!(node, Node::Link(_))).count()
        };
        let before = links(tree(&yard.inside));
        let body = patch(&format!("*** Add File: {path}\n+b"));
        assert_eq!(run(&yard.inside, Dialect::Patch, body.as_bytes()).0, 0, "{path}");
        assert_eq!(fs::read_to_string(yard.inside.join(written)).unwrap(), "b\n", "{path}");
        assert_eq!(links(tree(&yard.inside)), before, "{path}");
    }
}

#[test]
fn deleting_a_link_leaves_its_target() {
    let yard = yard();
    let body = patch("*** Delete File: to_file\n*** Delete File: to_secret");
    assert_eq!(run(&yard.inside, Dialect::Patch, body.as_bytes()).0, 0);
    assert!(!yard.inside.join("to_file").is_symlink());
    assert!(!yard.inside.join("to_secret").is_symlink());
    assert_eq!(fs::read(yard.inside.join("dir/file")).unwrap(), b"a\n");
    assert_eq!(fs::read(yard.outside.join("secret")).unwrap(), b"a\n");
}

#[test]
fn moving_a_file_onto_a_link_to_it_keeps_it() {
    let yard = yard();
    let body = patch("*** Update File: dir/file\n*** Move to: to_file\n@@\n-a\n+b");
    assert_eq!(run(&yard.inside, Dialect::Patch, body.as_bytes()).0, 0);
    assert_eq!(fs::read(yard.inside.join("dir/file")).unwrap(), b"b\n");
}

#[test]
fn a_link_swapped_in_a_loop_never_leads_outside() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let yard = yard();
    let (link, spare) = (yard.inside.join("swap"), yard.inside.join("spare"));
    fs::create_dir_all(&link).unwrap();
    symlink(&yard.outside, &spare).unwrap();
    let stop = AtomicBool::new(false);
    let before = tree(&yard.outside);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            let here = rustix::fs::CWD;
            while !stop.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(here, &link, here, &spare, flags).unwrap();
            }
        });
        let root = Root::open(&yard.inside).unwrap();
        // Until both answers have been seen often; how often is up to the scheduler.
        let (mut written, mut refused) = (0, 0);
        for at in 0..3000 {
            let body = patch(&format!("*** Add File: swap/n{at}/secret\n+x"));
            match run_patch(&root, &body, "") {
                Ok(_) => written += 1,
                Err(_) => refused += 1,
            }
            if written > 50 && refused > 50 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(tree(&yard.outside), before);
}

#[test]
fn special_files_are_refused_at_once() {
    let work = tempfile::tempdir().unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        work.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        0o644.into(),
        0,
    )
    .unwrap();
    for body in ["*** Add File: pipe\n+x", "*** Update File: pipe\n@@\n-a"] {
        assert_eq!(run(work.path(), Dialect::Patch, patch(body).as_bytes()).0, 1);
    }
}

#[test]
fn modes_are_kept_by_update_overwrite_and_move() {
    for body in [
        "*** Update File: f\n@@\n-a\n+b",
        "*** Add File: f\n+b",
        "*** Update File: f\n*** Move to: g\n@@\n-a\n+b",
        "*** Update File: f\n*** Move to: g\n@@\n-a\n+b\n*** Update File: g\n*** Move to: f\n@@\n b",
    ] {
        let work = tempfile::tempdir().unwrap();
        fs::write(work.path().join("f"), "a\n").unwrap();
        fs::set_permissions(work.path().join("f"), PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(run(work.path(), Dialect::Patch, patch(body).as_bytes()).0, 0);
        let left = work.path().read_dir().unwrap().next().unwrap().unwrap();
        assert_eq!(left.metadata().unwrap().permissions().mode() & 0o777, 0o755, "{body}");
    }
}

#[test]
fn an_error_while_writing_takes_everything_back() {
    use patchwright_guest::patch::plan::FileOp;
    let work = tempfile::tempdir().unwrap();
    for name in ["first", "gone", "dir/file"] {
        let path = work.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    let before = tree(work.path());
    let write =
        |path: &str| FileOp::Write { path: path.to_owned(), content: b"new".to_vec(), mode: None };
    let root = Root::open(work.path()).unwrap();
    let result = root.commit(&[
        FileOp::Remove { path: "gone".to_owned() },
        FileOp::MakeDir { path: "made".to_owned() },
        write("first"),
        write("made/new"),
        write("dir"), // a folder with a file in it: the rename fails
    ]);
    assert!(result.is_err());
    assert_eq!(tree(work.path()), before);
    assert!(!work.path().join("made").exists());
}

#[test]
fn an_error_names_its_path_and_a_folder_makes_way_or_comes_back() {
    use patchwright_guest::patch::plan::FileOp;

    let work = tempfile::tempdir().unwrap();
    fs::create_dir_all(work.path().join("d/e")).unwrap();
    fs::write(work.path().join("d/e/a"), "a").unwrap();
    let before = tree(work.path());
    let root = Root::open(work.path()).unwrap();
    let path = |path: &str| path.to_owned();
    let write = FileOp::Write { path: path("d"), content: b"new".to_vec(), mode: None };
    let mut ops = vec![
        FileOp::Remove { path: path("d/e/a") },
        FileOp::RemoveDir { path: path("d/e") },
        FileOp::RemoveDir { path: path("d") },
        write,
        FileOp::Remove { path: path("absent") },
    ];
    let told = root.commit(&ops).unwrap_err().to_string();
    assert!(told.starts_with("`absent`: "), "{told}");
    assert_eq!(tree(work.path()), before);
    ops.pop();
    root.commit(&ops).unwrap();
    assert_eq!(fs::read(work.path().join("d")).unwrap(), b"new");
    // No temporary name stays.
    assert_eq!(work.path().read_dir().unwrap().count(), 1);
}

#[test]
fn tells_which_files_changed_and_starts_at_the_working_directory() {
    let yard = yard();
    let root = Root::open(&yard.inside).unwrap();
    let body = patch(
        "*** Add File: new/x\n+1\n*** Update File: ../to_file\n*** Move to: moved\n@@\n-a\n+b",
    );
    let output = run_patch(&root, &body, "dir").unwrap();
    assert_eq!(output.changed, ["to_file", "dir/new/x", "dir/moved"]);
    assert_eq!(output.text, "Success. Updated the following files:\nA new/x\nM moved\n");
    let absolute = patch(&format!("*** Add File: {}/dir/y\n+1", yard.inside.display()));
    assert_eq!(run_patch(&root, &absolute, "dir").unwrap().changed, ["dir/y"]);
}

#[test]
fn models_are_told_the_whole_path_and_what_they_wrote_instead() {
    let yard = yard();
    let root = Root::open(&yard.inside).unwrap();
    let told = |patch: &str| match run_verified(&root, patch, "dir").unwrap_err() {
        ToolError::Tell(why) => why,
        other @ ToolError::Broken(_) => panic!("{other}"),
    };
    let place = yard.inside.display();
    assert_eq!(
        told(&patch("*** Update File: file\n@@\n-nope\n+x")),
        format!(
            "apply_patch verification failed: Failed to find expected lines in {place}/dir/file:\nnope\nNothing in its 1 lines is like it."
        )
    );
    assert_eq!(
        told(&patch("*** Delete File: ../none")),
        format!("apply_patch verification failed: Failed to delete file {place}/none")
    );
    let whole = patch("*** Add File: x\n+1");
    let unified = "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-a\n+b\n";
    let first = "Invalid patch: The first line of the patch must be '*** Begin Patch'\n";
    let table = [
        (unified.to_owned(), "This is a unified diff."),
        (format!("diff --git a/f b/f\n{unified}"), "This is a git diff."),
        (format!("```diff\n{unified}```"), "This is a unified diff."),
        (
            "f\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n".to_owned(),
            "These are search/replace blocks.",
        ),
        (format!("```\n{whole}```\n"), "This stands in a Markdown fence"),
        ("{\"path\": \"f\", \"old\": \"a\"}".to_owned(), "This is JSON"),
        (format!("Here it is:\n{whole}"), "Something stands before the patch"),
        ("what?".to_owned(), "A patch begins with"),
    ];
    for (text, what) in table {
        let told = told(&text);
        let rest = told.strip_prefix("apply_patch verification failed: ").unwrap();
        let advice = rest.strip_prefix(first).unwrap_or_else(|| panic!("{told}"));
        assert!(advice.starts_with(what), "{told}");
        let (_, example) = advice.split_once("one):\n").unwrap();
        assert!(parse(example.as_bytes()).is_ok(), "{example}");
    }
    let inner = told(&patch(&format!("*** Update File: file\n{unified}")));
    assert!(inner.contains("Inside is a unified diff."), "{inner}");
    let lines = told(&patch("*** Update File: file\n@@ -1,2 +1,2 @@\n-a\n+b"));
    assert!(lines.contains("Failed to find context '-1,2 +1,2 @@'"), "{lines}");
    assert!(lines.contains("are those of a unified diff"), "{lines}");
    assert_eq!(
        told("*** Begin Patch\n*** End Patch\n"),
        "apply_patch verification failed: No files were modified."
    );
    // The command keeps the reference's words.
    let said = run(&yard.inside, Dialect::Patch, unified.as_bytes()).2;
    assert_eq!(said, first);
}

#[test]
fn a_header_that_is_no_whole_line_is_answered_with_the_lines() {
    let yard = yard();
    fs::write(yard.inside.join("dir/code.go"), GO).unwrap();
    let root = Root::open(&yard.inside).unwrap();
    let place = yard.inside.display();
    let told = |hunk: &str| {
        let text = patch(&format!("*** Update File: code.go\n{hunk}"));
        let ToolError::Tell(why) = run_verified(&root, &text, "dir").unwrap_err() else { panic!() };
        let begin = "apply_patch verification failed: Failed to find context '";
        let (_, why) = why
            .strip_prefix(begin)
            .unwrap()
            .split_once(&format!("' in {place}/dir/code.go\n"))
            .unwrap();
        why.to_owned()
    };
    let whole = "Behind `@@ ` the whole line is needed, as it is in the file, or nothing. ";
    assert_eq!(
        told("@@ func strip\n-\treturn a\n+\treturn b"),
        format!("{whole}It is in:\n    3| func strip(a string) string {{\n")
    );
    assert_eq!(
        told("@@ func stripp(a string) string {\n-\treturn a\n+\treturn b"),
        format!(
            "{whole}The nearest are lines 3-3 (98% alike):\n    2| \n    3| func strip(a string) string {{\n    \
             4| \treturn a\nThe first difference: line 3 is `func strip(a string) string {{`, and you wrote \
             `func stripp(a string) string {{`."
        )
    );
    let many = told("@@ return\n-\treturn a\n+\treturn b");
    assert!(
        many.starts_with(&format!("{whole}It is in 2 more lines, and in:\n    4| \treturn a\n")),
        "{many}"
    );
    let late = "@@ func last() {\n-\treturn 7\n+\treturn 8\n@@ func strip(a string) string {\n-\treturn a\n+\treturn b";
    assert!(
        told(late).starts_with("Line 3 is this line, but it does not stand below"),
        "{}",
        told(late)
    );
    // Nothing of it was applied, and the command keeps the reference's words.
    assert_eq!(fs::read_to_string(yard.inside.join("dir/code.go")).unwrap(), GO);
    let text = patch("*** Update File: dir/code.go\n@@ func strip\n-\treturn a\n+\treturn b");
    let said = run(&yard.inside, Dialect::Patch, text.as_bytes()).2;
    assert_eq!(said, "Failed to find context 'func strip' in dir/code.go\n");
}

const GO: &str = "package a

func strip(a string) string {
\treturn a
}

func one() int {
\treturn 1
}

func two() int {
\treturn 2; return 3
}

func three() int {
\treturn 4
}

func four() int {
\treturn 5
}

func five() int {
\treturn 6
}

func last() {
\treturn 7
}
";

#[test]
fn the_program_takes_one_patch_and_stays_in_the_workspace() {
    let yard = yard();
    let body = patch("*** Update File: file\n@@\n-a\n+b");
    let place = |cwd: &Path, is_closed: bool| ProgramContext {
        workspace: Some(yard.inside.clone()),
        cwd: cwd.to_owned(),
        is_closed,
    };
    let run = |args: &[&str], place: &ProgramContext, mut input: &[u8]| {
        let args: Vec<_> = args.iter().map(std::ffi::OsString::from).collect();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let code = program::run(&args, place, &mut input, &mut stdout, &mut stderr);
        (code, String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    };
    let (dir, inside) = (yard.inside.join("dir"), yard.inside.clone());
    let done = "Success. Updated the following files:\nM file\n".to_owned();
    let closed = run(&[&body], &place(&inside, true), b"");
    assert!(closed.0 == 1 && closed.2.contains("nothing was changed"), "{closed:?}");
    assert_eq!(run(&[&body], &place(&dir, false), b""), (0, done.clone(), String::new()));
    assert_eq!(run(&[], &place(&inside, false), body.as_bytes()), (0, done, String::new()));
    for name in ["file", "dir/file"] {
        assert_eq!(fs::read_to_string(yard.inside.join(name)).unwrap(), "b\n");
    }
    let again = run(&[&body], &place(&inside, false), b"");
    let told = format!(
        "Failed to find expected lines in {}:\na\nNothing in its 1 lines is like it.\n",
        inside.join("file").display()
    );
    assert_eq!(again, (1, String::new(), told));
    assert_eq!(run(&[], &place(&inside, false), b"").0, 2);
    assert_eq!(run(&["a", "b"], &place(&inside, false), b"").0, 2);
    let garbage = run(&[], &place(&inside, false), b"\xff");
    assert!(garbage.0 == 1 && garbage.2.starts_with("Error: Failed to read PATCH from stdin."));
    let outside = run(&[&body], &place(&yard.outside, false), b"");
    assert!(outside.0 == 1 && outside.2.contains("outside the workspace"), "{outside:?}");
    let above = patch("*** Update File: ../outside/secret\n@@\n-a\n+b");
    assert_eq!(run(&[&above], &place(&inside, false), b"").0, 1);
    assert_eq!(fs::read_to_string(yard.outside.join("secret")).unwrap(), "a\n");
}

#[test]
fn recognises_the_tool_written_as_a_shell_command() {
    let body = patch("*** Add File: x\n+it's $HOME");
    let found =
        |cwd: Option<&str>| Some(Intercepted { cwd: cwd.map(str::to_owned), patch: body.clone() });
    let table = [
        (format!("apply_patch <<'EOF'\n{body}EOF"), found(None)),
        (format!("apply_patch <<EOF\n{body}EOF\n"), found(None)),
        (format!("applypatch << \"PATCH\"\n{body}PATCH\n\n"), found(None)),
        (format!("cat <<'EOF' | apply_patch\n{body}EOF\n"), found(None)),
        (format!("cd sub && apply_patch <<'EOF'\n{body}EOF\n"), found(Some("sub"))),
        (format!("cd 'a b' && apply_patch <<'EOF'\n{body}EOF\n"), found(Some("a b"))),
        (body.clone(), found(None).map(|it| Intercepted { patch: body.trim().to_owned(), ..it })),
        (format!("apply_patch <<'EOF'\n{body}EOF\necho done"), None),
        (format!("apply_patch <<'EOF' && make\n{body}EOF\n"), None),
        (format!("apply_patch <<'EOF'\n{body}"), None),
        (format!("cd $HOME && apply_patch <<'EOF'\n{body}EOF\n"), None),
        (format!("cd sub; apply_patch <<'EOF'\n{body}EOF\n"), None),
        (format!("bash -lc \"apply_patch <<'EOF'\n{}EOF\"", body.replace('$', "\\$")), found(None)),
        (
            format!(
                "cd a && sh -c \"cd b && apply_patch <<'EOF'\n{}EOF\"",
                body.replace('$', "\\$")
            ),
            found(Some("a/b")),
        ),
        (format!("bash -lc \"apply_patch <<'EOF'\n{body}EOF\""), None),
        (format!("bash -lc 'apply_patch x' && apply_patch <<'EOF'\n{body}EOF"), None),
        ("apply_patch --help".to_owned(), None),
        ("apply_patches <<'EOF'\nEOF".to_owned(), None),
        ("ls".to_owned(), None),
    ];
    for (script, expected) in table {
        assert_eq!(intercept_script(&script), expected, "{script}");
        let argv = ["/bin/bash", "-lc", &script].map(str::to_owned);
        assert_eq!(intercept(&argv), expected, "{script}");
    }
    let folder = |cwd: Option<&str>| found(cwd).unwrap().folder("a");
    assert_eq!([folder(None), folder(Some("b")), folder(Some("/w"))], ["a", "a/b", "/w"]);
    assert_eq!(intercept(&["apply_patch".to_owned(), body.clone()]), found(None));
    let quoted = "apply_patch \"*** Begin Patch\n*** Add File: x\n+\\\"a\\\"\n*** End Patch\"";
    let patch = patch("*** Add File: x\n+\"a\"");
    assert_eq!(intercept_script(quoted).unwrap().patch, patch.trim());
}

/// Many hunks that match only in the last pass, in a file of like lines: minutes when each hunk
/// scans the file in each pass, well under a second when it does not.
#[test]
fn many_loose_hunks_in_a_large_file_do_not_scan_it_each_time() {
    let mut file = "same\n".repeat(200_000);
    let mut body = String::from("*** Update File: f\n");
    for at in 0..20_000 {
        writeln!(file, "\u{2014} {at}").unwrap();
        writeln!(body, "@@\n-- {at}\n+{at}").unwrap();
    }
    let work = tempfile::tempdir().unwrap();
    fs::write(work.path().join("f"), file).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let folder = work.path().to_owned();
    std::thread::spawn(move || {
        let text = patch(body.trim_end());
        let _ = sender.send(run(&folder, Dialect::Patch, text.as_bytes()));
    });
    let (code, _, stderr) =
        receiver.recv_timeout(Duration::from_mins(1)).expect("the search is not linear");
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(fs::read_to_string(work.path().join("f")).unwrap().ends_with("\n19999\n"));
}

/// Lines that differ only in what passes forgive, so that the passes meet each other.
fn lines() -> impl Strategy<Value = Vec<String>> {
    let line = prop_oneof!["[a-c]", "[a-c] ", " [a-c]", "", "[a-z]{1,8}", "\\PC{0,5}"];
    prop::collection::vec(line.prop_map(|line| line.replace(['\r', '\n'], "")), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// The whole file as one hunk: what the patch says is what comes out.
    #[test]
    fn an_edit_written_as_a_patch_gives_the_edited_file(
        old in lines(),
        edits in prop::collection::vec((0_usize..40, any::<bool>(), "[a-z]{0,6}"), 0..6),
    ) {
        let mut hunk = String::new();
        let mut new = Vec::new();
        for (at, line) in old.iter().enumerate() {
            let removed = edits.iter().any(|(place, removes, _)| *removes && *place == at);
            writeln!(hunk, "{}{line}", if removed { '-' } else { ' ' }).unwrap();
            if !removed {
                new.push(line.clone());
            }
            for (_, _, added) in edits.iter().filter(|(place, removes, _)| !removes && *place == at) {
                writeln!(hunk, "+{added}").unwrap();
                new.push(added.clone());
            }
        }
        prop_assume!(!old.is_empty());
        let text = |lines: &[String]| lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
        let body = patch(&format!("*** Update File: f\n@@\n{hunk}*** End of File"));
        let patch = parse(body.as_bytes()).unwrap();
        let patchwright_guest::patch::parse::Section::Update { hunks, .. } = &patch.sections[0] else {
            panic!("not an update");
        };
        let result = patchwright_guest::patch::apply::update(text(&old).as_bytes(), hunks).unwrap();
        prop_assert_eq!(String::from_utf8(result).unwrap(), text(&new));
    }

    /// Enough searches in one file that the index takes over from the plain scan.
    #[test]
    fn the_index_finds_what_a_plain_search_finds(
        file in prop::collection::vec("[ab]? ?|[\u{2013}-]", 1..40),
        blocks in prop::collection::vec((prop::collection::vec(" ?[ab]? ?|[\u{2013}-]", 1..5), 0_usize..40), 300),
    ) {
        let file: Vec<&str> = file.iter().map(String::as_str).collect();
        let mut finder = Finder::new(&file, PASSES);
        for (block, from) in &blocks {
            let block: Vec<&str> = block.iter().map(String::as_str).collect();
            let plain = PASSES.iter().find_map(|key| {
                let is_same = |(a, b): (&&str, &&str)| key(a) == key(b);
                (*from..(file.len() + 1).saturating_sub(block.len()))
                    .find(|start| file[*start..].iter().zip(&block).all(is_same))
            });
            prop_assert_eq!(finder.find(&block, *from), plain, "{:?} from {}", block, from);
        }
    }

    #[test]
    fn the_parser_survives_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn the_parser_and_engine_survive_any_lines(
        picks in prop::collection::vec(
            prop_oneof![
                Just("*** Add File: a"), Just("*** Update File: f"), Just("*** Delete File: f"),
                Just("*** Move to: g"), Just("@@"), Just("@@ x"), Just("*** End of File"), Just(""),
                Just("-x"), Just("+y"), Just(" z"), Just("-"), Just("+"), Just("*** End Patch"),
            ],
            0..30,
        ),
        content in "[xyz\r\n]{0,30}",
    ) {
        let body = patch(&picks.join("\n"));
        if let Ok(patch) = parse(body.as_bytes()) {
            for section in &patch.sections {
                if let patchwright_guest::patch::parse::Section::Update { hunks, .. } = section {
                    let _ = patchwright_guest::patch::apply::update(content.as_bytes(), hunks);
                }
            }
        }
        let _ = patchwright_guest::patch::hosted::update(&content, &picks.join("\n"));
        let _ = patchwright_guest::patch::hosted::create(&picks.join("\n"));
        let _ = intercept_script(&body);
    }
}
