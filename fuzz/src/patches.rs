//! Patches of models. Whatever parses is planned on files that hold what the patch expects of them, so that
//! most of it applies.

use std::collections::BTreeMap;
use std::io;

use patchwright_guest::patch::parse::{LineKind, Section, parse};
use patchwright_guest::patch::plan::PatchError;
use patchwright_guest::patch::plan::{FileOp, plan};
use patchwright_guest::patch::tree::{Entry, Tree, is_in_git_dir, textual};
use patchwright_guest::patch::{dialect, hosted};

/// Checks all of it for one input.
pub fn check(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = hosted::create(text);
        let (input, diff) = text.split_once("\n===\n").unwrap_or((text, text));
        if let Ok(changed) = hosted::update(input, diff) {
            assert!(changed.len() <= 2 * (input.len() + diff.len()), "lines came from nowhere");
        }
    }
    let patch = match parse(data) {
        Ok(patch) => patch,
        Err(err) => {
            let text = String::from_utf8_lossy(data);
            let _ = dialect::advice(&text, &PatchError::Parse(err));
            return;
        }
    };
    let files = Files::expected_by(&patch.sections);
    let planned = plan(&patch, &files);
    assert_eq!(plan(&patch, &files), planned, "the same patch twice");
    let Ok(planned) = planned else { return };
    for op in &planned.ops {
        let file = op.path();
        assert_eq!(textual(file).as_deref(), Some(file), "a path that is not clean");
        assert!(!is_in_git_dir(file), "{file:?} is of git");
    }
    // What one section alone says about a file is what is written there.
    for section in &patch.sections {
        let (Section::Add { path, .. } | Section::Update { path, move_to: None, .. }) = section
        else {
            continue;
        };
        let clean = textual(path);
        let about =
            patch.sections.iter().filter(|other| paths(other).any(|it| textual(it) == clean));
        if about.count() > 1 {
            continue;
        }
        let written = planned.ops.iter().find_map(|op| match op {
            FileOp::Write { path, content, .. } if Some(path) == clean.as_ref() => Some(content),
            _ => None,
        });
        match (section, written) {
            (Section::Add { lines, .. }, Some(content)) => {
                let expected: String = lines.iter().flat_map(|line| [*line, "\n"]).collect();
                assert!(content == expected.as_bytes(), "another file than the patch says");
            }
            (Section::Update { hunks, .. }, Some(content)) => {
                let content = String::from_utf8_lossy(content);
                // A lone carriage return ends a line, too.
                let ends = ['\n', '\r'];
                let lines: Vec<&str> = content.split(ends).collect();
                for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
                    let is_there = line.kind != LineKind::Add
                        || line.text.split(ends).all(|text| lines.contains(&text));
                    assert!(is_there, "{:?} was to be added", line.text);
                }
            }
            _ => {}
        }
    }
}

fn paths<'a>(section: &Section<'a>) -> impl Iterator<Item = &'a str> {
    let (one, other) = match section {
        Section::Add { path, .. } | Section::Delete { path } => (*path, None),
        Section::Update { path, move_to, .. } => (*path, *move_to),
    };
    std::iter::once(one).chain(other)
}

/// Files in memory.
struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    fn expected_by(sections: &[Section<'_>]) -> Files {
        let mut files = BTreeMap::new();
        for section in sections {
            let (path, content) = match section {
                Section::Add { .. } => continue,
                Section::Delete { path } => (path, String::new()),
                Section::Update { path, hunks, .. } => {
                    let mut content = String::new();
                    for hunk in hunks {
                        let kept = hunk.lines.iter().filter(|line| line.kind != LineKind::Add);
                        for line in hunk.headers.iter().copied().chain(kept.map(|line| line.text)) {
                            content.push_str(line);
                            content.push('\n');
                        }
                    }
                    (path, content)
                }
            };
            if let Some(path) = textual(path) {
                files.entry(path).or_insert(content.into_bytes());
            }
        }
        Files(files)
    }
}

impl Tree for Files {
    fn clean(&self, path: &str) -> Result<String, String> {
        match textual(path) {
            Some(path) if !path.is_empty() && !is_in_git_dir(&path) => Ok(path),
            _ => Err("not here".to_owned()),
        }
    }

    fn entry(&self, path: &str) -> io::Result<Entry> {
        let is_folder = |name: &String| {
            name.strip_prefix(path).is_some_and(|rest| path.is_empty() || rest.starts_with('/'))
        };
        Ok(if self.0.contains_key(path) {
            Entry::File { mode: 0o644 }
        } else if path.is_empty() || self.0.keys().any(is_folder) {
            Entry::Dir
        } else {
            Entry::Absent
        })
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.0.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
