//! Random trees, edited as people edit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::git_repo::{git, git_with_input};
use crate::support::quoted::Random;

/// Path to mode and content.
pub(super) type Tree = BTreeMap<String, (&'static str, Vec<u8>)>;

const LINES: [&str; 24] = [
    "}",
    "{",
    "",
    "",
    "    }",
    "    return x;",
    "    if (x) {",
    "    else {",
    "def f(x):",
    "    return x",
    "    for i in range(10):",
    "        print(i)",
    "import os",
    "    # a comment",
    "/**",
    " */",
    "#[test]",
    "    let value = compute(value);",
    "\tfoo();",
    "- item",
    "+ item",
    "    x = 1",
    "  x = 1",
    "end",
];

/// A line that may occur several times, or only here.
fn line(random: &mut Random) -> Vec<u8> {
    let mut line = match random.below(10) {
        0..=5 => random.pick(&LINES).as_bytes().to_vec(),
        6..=8 => format!("    unique_{}(a, b);", random.below(100_000)).into_bytes(),
        _ => format!("text {} — with “quotes” and more", random.below(1000)).into_bytes(),
    };
    if random.one_in(200) {
        line.extend_from_slice(&[0xff, 0xfe, b'x', 0xc3]);
    }
    if random.one_in(60) {
        line.extend_from_slice(b"  ");
    }
    line
}

fn file(random: &mut Random) -> Vec<u8> {
    let count = match random.below(6) {
        0 => random.below(4),
        1..=4 => random.below(60),
        _ => random.below(400),
    };
    let end: &[u8] = if random.one_in(6) { b"\r\n" } else { b"\n" };
    let mut content: Vec<u8> = (0..count).flat_map(|_| [&line(random), end].concat()).collect();
    if random.one_in(5) {
        content.truncate(content.len().saturating_sub(end.len()));
    }
    if random.one_in(25) {
        content.insert(content.len() / 2, 0);
    }
    content
}

fn path(random: &mut Random) -> String {
    let folder = ["", "src/", "src/deep/er/", "lib/", "docs/ü/", "a/", "with space/"];
    let name = ["mod.rs", "main.py", "x.txt", "README", "naïve.md", "a\"quote.c", "tab\there"];
    if random.one_in(2) {
        return format!("{}{}", random.pick(&folder), random.pick(&name));
    }
    format!("{}file_{}.rs", random.pick(&folder), random.below(40))
}

/// Adds a file when no other stands in the way.
fn put(tree: &mut Tree, path: String, entry: (&'static str, Vec<u8>)) {
    let inside = format!("{path}/");
    let blocked = tree
        .keys()
        .any(|other| other.starts_with(&inside) || path.starts_with(&format!("{other}/")));
    if !blocked {
        tree.insert(path, entry);
    }
}

pub(super) fn first(random: &mut Random) -> Tree {
    let mut tree = Tree::new();
    for _ in 0..12 {
        put(&mut tree, path(random), ("100644", file(random)));
    }
    tree
}

/// Lines inserted, deleted, replaced, moved, doubled, indented.
fn edited(content: &[u8], edits: usize, random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> =
        content.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..edits {
        let at = random.below(lines.len() + 1);
        let end = (at + 1 + random.below(5)).min(lines.len());
        let fresh = || Vec::new();
        let mut new: Vec<Vec<u8>> = fresh();
        for _ in 0..random.below(4) {
            new.push([&line(random)[..], b"\n"].concat());
        }
        match random.below(6) {
            0 | 1 => drop(lines.splice(at..at, new)),
            2 => drop(lines.splice(at..end.max(at), fresh())),
            3 => drop(lines.splice(at..end.max(at), new)),
            4 => {
                let moved: Vec<Vec<u8>> = lines.splice(at..end.max(at), fresh()).collect();
                let to = random.below(lines.len() + 1);
                lines.splice(to..to, moved);
            }
            _ => {
                for line in &mut lines[at..end.max(at)] {
                    line.splice(0..0, *b"    ");
                }
            }
        }
    }
    let mut content = lines.concat();
    if random.one_in(8) && content.last() == Some(&b'\n') {
        content.pop();
    }
    content
}

pub(super) fn next(tree: &Tree, random: &mut Random) -> Tree {
    let mut next = tree.clone();
    for _ in 0..=random.below(6) {
        let paths: Vec<String> = next.keys().cloned().collect();
        let Some(old) = paths.get(random.below(paths.len().max(1))).cloned() else { break };
        let (mode, content) = next[&old].clone();
        let edits = 1 + random.below(6);
        match random.below(14) {
            0..=4 => {
                let is_file = mode.starts_with("100");
                let content = if is_file { edited(&content, edits, random) } else { content };
                next.insert(old, (mode, content));
            }
            5 => drop(next.remove(&old)),
            6 => put(&mut next, path(random), ("100644", file(random))),
            // Renamed, with everything from no change to nearly another file.
            7..=9 => {
                next.remove(&old);
                let lines = memchr::memchr_iter(b'\n', &content).count();
                let edits = random.below(1 + lines / 2);
                let is_file = mode.starts_with("100");
                let content = if is_file { edited(&content, edits, random) } else { content };
                put(&mut next, path(random), (mode, content));
            }
            10 => {
                let mode = if mode == "100644" { "100755" } else { mode };
                next.insert(old, (mode, content));
            }
            11 => drop(next.insert(old, ("120000", b"target/of/link".to_vec()))),
            12 => {
                let commit = format!("{:040x}", 1 + random.below(1 << 30));
                next.insert(old, ("160000", commit.into_bytes()));
            }
            _ => put(&mut next, path(random), (mode, content)),
        }
    }
    next
}

/// A bare repository with one commit a tree, on one branch; the commits in order.
pub(super) fn repository(folder: &Path, trees: &[Tree]) -> (PathBuf, Vec<String>) {
    let path = folder.join("random.git");
    git(folder, &["init", "--quiet", "--bare", "--initial-branch=main", "random.git"]);
    let mut stream = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        let head = format!(
            "commit refs/heads/main\ncommitter T <t@example.com> {} +0000\ndata 1\nx\ndeleteall\n",
            1_700_000_000 + at
        );
        stream.extend_from_slice(head.as_bytes());
        for (name, (mode, content)) in tree {
            let name = name.replace('\\', "\\\\").replace('"', "\\\"").replace('\t', "\\t");
            if *mode == "160000" {
                let commit = String::from_utf8_lossy(content).into_owned();
                stream.extend_from_slice(format!("M {mode} {commit} \"{name}\"\n").as_bytes());
                continue;
            }
            let head = format!("M {mode} inline \"{name}\"\ndata {}\n", content.len());
            stream.extend_from_slice(head.as_bytes());
            stream.extend_from_slice(content);
            stream.push(b'\n');
        }
    }
    git_with_input(&path, &["fast-import", "--quiet"], &stream);
    let log = git(&path, &["log", "--reverse", "--format=%H", "main"]);
    (path, log.lines().map(str::to_owned).collect())
}
