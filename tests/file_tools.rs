//! The reading tools of the guest on a real folder: what the model sees, and what it must not.

use std::os::unix::fs::symlink;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use fs_err as fs;
use patchwright_guest::tool::{ToolError, ToolOutput};
use patchwright_guest::tools::root::Root;
use patchwright_guest::tools::{glob, grep_files, list_dir, read_file};
use serde_json::{Value, json};

/// A workspace with these files, next to a secret.
struct Work {
    root: Root,
    folder: tempfile::TempDir,
}

fn work(files: &[(&str, &str)]) -> Work {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), "secret\n").unwrap();
    let inside = folder.path().join("work");
    for (name, content) in files {
        let path = inside.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    fs::create_dir_all(&inside).unwrap();
    Work { root: Root::open(&inside).unwrap(), folder }
}

impl Work {
    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("work").join(name)
    }

    fn call(&self, tool: &str, args: Value) -> Result<String, String> {
        let text = |result: Result<ToolOutput, ToolError>| match result {
            Ok(output) => Ok(output.text),
            Err(ToolError::Tell(message)) => Err(message),
            Err(ToolError::Broken(message)) => panic!("broken: {message}"),
        };
        let go = AtomicBool::new(false);
        let root = &self.root;
        let wrong = |err: serde_json::Error| Err(format!("arguments: {err}"));
        match tool {
            "read_file" => match serde_json::from_value(args) {
                Ok(args) => text(read_file::read_file(root, &args, &go)),
                Err(err) => wrong(err),
            },
            "list_dir" => match serde_json::from_value(args) {
                Ok(args) => text(list_dir::list_dir(root, &args, &go)),
                Err(err) => wrong(err),
            },
            "grep_files" => match serde_json::from_value(args) {
                Ok(args) => text(grep_files::grep_files(root, &args, &go)),
                Err(err) => wrong(err),
            },
            "glob" => match serde_json::from_value(args) {
                Ok(args) => text(glob::glob(root, &args, &go)),
                Err(err) => wrong(err),
            },
            other => panic!("no tool {other}"),
        }
    }

    fn check(&self, rows: &[(&str, Value, Result<&str, &str>)]) {
        for (tool, args, expected) in rows {
            let result = self.call(tool, args.clone());
            let result = result.as_deref().map_err(String::as_str);
            assert_eq!(result, *expected, "{tool} {args}");
        }
    }
}

const CODE: &str = "mod a {\n    // Adds.\n    fn add() {\n        let x = 1;\n        if x {\n            y();\n        }\n    }\n\n    fn other() {\n        z();\n    }\n}\nfn last() {}\n";

#[test]
fn reads_slices_with_line_numbers() {
    let long = "ü".repeat(1_500);
    let work = work(&[
        ("f", "one\r\ntwo\nthree"),
        ("empty", ""),
        ("long", &format!("{long}\nnext\n")),
        ("latin", "x"),
        ("zero", "a\0b"),
    ]);
    fs::write(work.path("latin"), b"caf\xe9\n").unwrap();
    let cut = format!("L1: {}… [line cut here: 1000 more bytes]\nL2: next", "ü".repeat(1_000));
    let whole = format!("L1: {long}");
    work.check(&[
        ("read_file", json!({"file_path": "f"}), Ok("L1: one\nL2: two\nL3: three")),
        ("read_file", json!({"path": "f", "offset": 2, "limit": 1}), Ok("L2: two")),
        ("read_file", json!({"file_path": "empty"}), Ok("")),
        ("read_file", json!({"file_path": "long"}), Ok(&cut)),
        ("read_file", json!({"file_path": "long", "limit": 1}), Ok(&whole)),
        (
            "read_file",
            json!({"file_path": "f", "start_line": 2, "end_line": 3, "form": "raw"}),
            Ok("two\nthree"),
        ),
        (
            "read_file",
            json!({"file_path": "f", "start_line": 3, "end_line": 2}),
            Err("cannot read `f`: `end_line` (2) is before `start_line` (3)"),
        ),
        ("read_file", json!({"file_path": "latin"}), Ok("L1: caf\u{fffd}")),
        ("read_file", json!({"file_path": work.path("f"), "limit": 1}), Ok("L1: one")),
        (
            "read_file",
            json!({"file_path": "f", "offset": 9}),
            Err("cannot read `f`: the offset 9 is behind its 3 lines"),
        ),
        (
            "read_file",
            json!({"file_path": "zero"}),
            Err("cannot read `zero`: it is a binary file of 3 bytes"),
        ),
        (
            "read_file",
            json!({"file_path": "."}),
            Err("cannot read `.`: it is a folder; use `list_dir`"),
        ),
        (
            "read_file",
            json!({"file_path": "nope/f"}),
            Err("cannot read `nope/f`: there is no such file"),
        ),
    ]);
    fs::write(work.path("many"), "x\n".repeat(2001)).unwrap();
    let many = work.call("read_file", json!({"file_path": "many"})).unwrap();
    assert!(many.ends_with("L2000: x\n(more lines follow; go on with offset 2001)"), "{many}");
    let rest = json!({"file_path": "many", "offset": 2001});
    assert_eq!(work.call("read_file", rest).unwrap(), "L2001: x");
    assert!(work.call("read_file", json!({"file_path": "f", "offset": 0})).is_err());
    assert!(work.call("read_file", json!({"file_path": "f", "lines": 3})).is_err());
}

#[test]
fn reads_the_block_around_a_line() {
    let work = work(&[("f", CODE)]);
    let block = |indentation: Value| {
        let args = json!({"file_path": "f", "mode": "indentation", "indentation": indentation});
        let text = work.call("read_file", args).unwrap();
        let number = |line: &str| line[1..line.find(':').unwrap()].parse::<usize>().unwrap();
        (number(text.lines().next().unwrap()), number(text.lines().last().unwrap()))
    };
    let table = [
        // One level up from `y();`: the `if` with its braces.
        (json!({"anchor_line": 6, "max_levels": 1, "include_header": false}), (5, 7)),
        // Two levels: the function, with the comment above it when headers are wanted.
        (json!({"anchor_line": 6, "max_levels": 2, "include_header": false}), (3, 8)),
        (json!({"anchor_line": 6, "max_levels": 2}), (2, 8)),
        // Siblings bring the other function too.
        (json!({"anchor_line": 6, "max_levels": 2, "include_siblings": true}), (2, 12)),
        // All levels.
        (json!({"anchor_line": 6, "include_siblings": true}), (1, 14)),
        (json!({"anchor_line": 6, "max_lines": 1}), (6, 6)),
        (json!({"anchor_line": 6, "max_lines": 3}), (5, 7)),
    ];
    for (args, expected) in table {
        assert_eq!(block(args.clone()), expected, "{args}");
    }
    let far = json!({"file_path": "f", "mode": "indentation", "offset": 99});
    assert_eq!(
        work.call("read_file", far).unwrap_err(),
        "cannot read `f`: the anchor line 99 is behind its 14 lines"
    );
}

#[test]
fn what_is_git_s_own_takes_one_line_of_a_listing() {
    let work = work(&[(".git/config", ""), (".git/refs/x", ""), ("a/.git", "gitdir: b\n")]);
    work.check(&[
        ("list_dir", json!({"dir_path": "."}), Ok("./\n  .git/\n  a/\n    .git\n")),
        ("list_dir", json!({"dir_path": ".git"}), Ok(".git/\n  config\n  refs/\n    x\n")),
    ]);
}

#[test]
fn lists_names_with_their_kinds() {
    let work = work(&[("b/c/d/e", ""), ("b/x", ""), ("a", ""), ("z/y", "")]);
    symlink("b", work.path("link")).unwrap();
    work.check(&[
        (
            "list_dir",
            json!({"dir_path": "."}),
            Ok("./\n  a\n  b/\n    c/\n    x\n  link@\n  z/\n    y\n"),
        ),
        ("list_dir", json!({"path": "b", "depth": 1}), Ok("b/\n  c/\n  x\n")),
        (
            "list_dir",
            json!({"dir_path": ".", "depth": 1, "offset": 2, "limit": 2}),
            Ok("./\n  b/\n  link@\nMore than 2 entries found; go on with offset 4\n"),
        ),
        ("list_dir", json!({"dir_path": "link", "depth": 1}), Ok("b/\n  c/\n  x\n")),
        (
            "list_dir",
            json!({"dir_path": "a"}),
            Err("cannot list `a`: it is a file; use `read_file`"),
        ),
        ("list_dir", json!({"dir_path": "q"}), Err("cannot list `q`: there is no such folder")),
    ]);
}

#[test]
fn finds_files_newest_first_and_lines_in_order() {
    let work = work(&[
        ("old.rs", "fn find_me() {}\n"),
        ("src/new.rs", "a\nlet find_me = 1;\nfind_me\n"),
        ("notes.md", "find_me\n"),
        (".hidden/x.yml", "find_me\n"),
        (".git/config", "find_me\n"),
        ("ignored/x.rs", "find_me\n"),
        ("src/skip.log", "find_me\n"),
        ("src/keep.log", "find_me\n"),
        ("zero", "find_me\0find_me\n"),
        (".gitignore", "/ignored\n*.log\n"),
        ("src/.gitignore", "!keep.log\n"),
    ]);
    for (age, name) in ["notes.md", "src/new.rs", "src/keep.log", ".hidden/x.yml", "old.rs"]
        .into_iter()
        .enumerate()
    {
        let time = SystemTime::UNIX_EPOCH + Duration::from_hours(1000 - age as u64);
        fs::File::open(work.path(name)).unwrap().file().set_modified(time).unwrap();
    }
    work.check(&[
        (
            "grep_files",
            json!({"pattern": "find_me", "include": "*.{rs,md}"}),
            Ok("notes.md\nsrc/new.rs\nold.rs"),
        ),
        (
            "grep_files",
            json!({"pattern": "find_me", "path": "src"}),
            Ok("src/new.rs\nsrc/keep.log"),
        ),
        (
            "grep_files",
            json!({"pattern": "find_me", "include": "*.rs", "output": "lines"}),
            Ok("old.rs:1:fn find_me() {}\nsrc/new.rs:2:let find_me = 1;\nsrc/new.rs:3:find_me"),
        ),
        (
            "grep_files",
            json!({"pattern": "^find", "path": "src/new.rs", "output": "lines"}),
            Ok("src/new.rs:3:find_me"),
        ),
        (
            "grep_files",
            json!({"pattern": "find_me", "include": "*.rs", "limit": 1}),
            Ok("src/new.rs\n(more than 1 results)"),
        ),
        ("grep_files", json!({"pattern": "nowhere"}), Ok("No matches found.")),
    ]);
    assert!(work.call("grep_files", json!({"pattern": "a("})).unwrap_err().contains("pattern"));
    assert!(work.call("grep_files", json!({"pattern": "a", "include": "["})).is_err());
}

#[test]
fn searches_in_the_ways_of_other_tools() {
    let work = work(&[
        ("a.txt", "one\nTwo (x)\nthree\nfour\nfive\nsix\ntwo\n"),
        ("b.txt", "two\n"),
        ("hidden.log", "two\n"),
        (".gitignore", "*.log\n"),
        ("out/made.o", "\n"),
        ("out/kept.c", "\n"),
    ]);
    work.check(&[
        (
            "grep_files",
            json!({"pattern": "TWO", "case_sensitive": false, "output": "count"}),
            Ok("a.txt:2\nb.txt:1"),
        ),
        (
            "grep_files",
            json!({"pattern": "two", "output": "lines", "before": 1, "after": 1}),
            Ok("a.txt-6-six\na.txt:7:two\nb.txt:1:two"),
        ),
        (
            "grep_files",
            json!({"pattern": "^one|four", "path": "a.txt", "output": "lines", "after": 1}),
            Ok("a.txt:1:one\na.txt-2-Two (x)\n--\na.txt:4:four\na.txt-5-five"),
        ),
        (
            "grep_files",
            json!({"pattern": "(x)", "fixed_strings": true, "output": "lines"}),
            Ok("a.txt:2:Two (x)"),
        ),
        (
            "grep_files",
            json!({"pattern": "two", "respect_git_ignore": false, "output": "lines", "offset": 2}),
            Ok("b.txt:1:two\nhidden.log:1:two"),
        ),
        (
            "grep_files",
            json!({"pattern": "t", "output": "lines", "limit": 1, "offset": 2}),
            Ok("a.txt:7:two\n(more than 1 results)"),
        ),
        ("glob", json!({"pattern": "*.log"}), Ok("No files found.")),
        ("glob", json!({"pattern": "*.log", "respect_git_ignore": false}), Ok("hidden.log")),
        ("list_dir", json!({"dir_path": "out", "ignore": ["*.o"]}), Ok("out/\n  kept.c\n")),
        (
            "list_dir",
            json!({"dir_path": ".", "ignore": ["out/", "*.txt", ".gitignore"]}),
            Ok("./\n  hidden.log\n"),
        ),
    ]);
}

#[test]
fn large_trees_are_searched_in_order_and_whole() {
    let work = work(&[(".gitignore", "skipped\n"), ("a.c/x", "hay\n")]);
    for folder in 0..40 {
        let folder = work.path(&format!("a/{folder:02}"));
        fs::create_dir_all(folder.join("skipped")).unwrap();
        fs::write(folder.join("skipped/needle"), "needle\n").unwrap();
        for file in 0..300 {
            fs::write(folder.join(format!("{file:03}")), "hay\nneedle\n").unwrap();
        }
    }
    let all = work.call("grep_files", json!({"pattern": "^needle$", "limit": 2000})).unwrap();
    assert!(all.ends_with("(more than 2000 results)"), "{}", &all[all.len() - 50..]);
    for _ in 0..5 {
        let args = json!({"pattern": "needle", "output": "lines", "limit": 2});
        let expected = "a/00/000:2:needle\na/00/001:2:needle\n(more than 2 results)";
        assert_eq!(work.call("grep_files", args).unwrap(), expected);
        let args =
            json!({"pattern": "hay|nothing", "path": "a/39", "output": "lines", "limit": 2000});
        let lines = work.call("grep_files", args).unwrap();
        assert_eq!(lines.lines().count(), 300);
        assert!(lines.lines().is_sorted() && !lines.contains("skipped"));
        let last = json!({"pattern": "^hay$", "path": "a.c"});
        assert_eq!(work.call("grep_files", last).unwrap(), "a.c/x");
    }
    // What cannot be searched is counted.
    let line = vec![b'x'; 17 << 20];
    fs::write(work.path("a.c/line"), [&line[..], b"\nhay\n"].concat()).unwrap();
    let found = work.call("grep_files", json!({"pattern": "^needle", "path": "a.c"})).unwrap();
    assert_eq!(found, "No matches found.\n(1 file could not be searched)");
}

#[test]
fn bad_patterns_stay_linear() {
    let work = work(&[("f", &"a".repeat(100_000))]);
    let args = json!({"pattern": "(a*)*(a*)*(a|aa)+$b", "include": "**/**/**/**/*"});
    assert_eq!(work.call("grep_files", args).unwrap(), "No matches found.");
    let huge = json!({"pattern": "((a{100}){100}){100}"});
    assert!(work.call("grep_files", huge).unwrap_err().contains("pattern"));
    let deep = format!("{}a{}", "{".repeat(600), "}".repeat(600));
    let error = work.call("glob", json!({"pattern": deep})).unwrap_err();
    assert!(error.contains("nested too deep"), "{error}");
    let error = work.call("grep_files", json!({"pattern": "a", "include": deep})).unwrap_err();
    assert!(error.contains("`include`"), "{error}");
    assert_eq!(work.call("glob", json!({"pattern": "{g,{e,f}}"})).unwrap(), "f");
}

#[test]
fn nothing_leads_outside_or_blocks() {
    let work = work(&[("f", "x\n")]);
    let here = rustix::fs::CWD;
    for name in ["pipe", ".gitignore"] {
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(here, work.path(name), fifo, 0o644.into(), 0).unwrap();
    }
    for (target, link) in [
        ("..", "up"),
        ("/dev/zero", "zero"),
        ("/proc/self/root", "magic"),
        ("../secret", "secret"),
        ("loop", "loop"),
        ("/dev/zero", ".ignore"),
    ] {
        symlink(target, work.path(link)).unwrap();
    }
    for path in [
        "up/secret",
        "zero",
        "magic/etc/hostname",
        "secret",
        "loop",
        "pipe",
        "../secret",
        "/proc/self/environ",
        "/dev/stdin",
        "f\0",
        "f/x",
    ] {
        for (tool, key) in
            [("read_file", "file_path"), ("list_dir", "dir_path"), ("grep_files", "path")]
        {
            let args = json!({key: path, "pattern": "x"});
            let mut args = args.as_object().unwrap().clone();
            if tool != "grep_files" {
                args.remove("pattern");
            }
            let message = work.call(tool, Value::Object(args)).unwrap_err();
            assert!(message.starts_with("cannot "), "{tool} {path}: {message}");
        }
    }
    assert_eq!(work.call("grep_files", json!({"pattern": "x"})).unwrap(), "f");
    let names = work.call("list_dir", json!({"dir_path": "."})).unwrap();
    assert!(names.contains("pipe?\n") && names.contains("up@\n"), "{names}");
}

#[test]
fn a_cancelled_call_ends() {
    let work = work(&[("f", "x\n")]);
    let stop = AtomicBool::new(true);
    let args = serde_json::from_value(json!({"file_path": "f"})).unwrap();
    assert!(read_file::read_file(&work.root, &args, &stop).is_err());
    let args = serde_json::from_value(json!({"pattern": "x"})).unwrap();
    let output = grep_files::grep_files(&work.root, &args, &stop).unwrap();
    assert!(output.text.contains("ran out of time"), "{}", output.text);
}

#[test]
fn schemas_are_closed_and_describe_every_argument() {
    for (name, required) in [
        ("apply_patch", "input"),
        ("read_file", "file_path"),
        ("list_dir", "dir_path"),
        ("grep_files", "pattern"),
    ] {
        let schema = (patchwright_guest::tools::find(name).unwrap().schema)();
        let text = schema.to_string();
        assert!(!text.contains("$ref"), "{text}");
        assert_eq!(schema["additionalProperties"], json!(false), "{name}");
        assert_eq!(schema["required"], json!([required]), "{name}");
        for (key, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{name}.{key}: {property}");
        }
    }
}
