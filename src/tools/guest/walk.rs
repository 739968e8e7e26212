//! Walks the files below a folder of the workspace, leaving out what `.gitignore` files name.
//!
//! Every folder and every ignore file is opened through [`Root`], so a link or a FIFO in place of one
//! leads nowhere and blocks nothing. Links are not followed; `.git` is left out.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::root::{NameKind, Root};

/// Ignore files in one folder, the last one being the strongest.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];
/// Largest ignore file, in bytes; a larger one is not used.
const MAX_IGNORE_FILE: u64 = 1 << 20;
/// Names looked at in one folder.
const MAX_NAMES: usize = 200_000;
const MAX_DEPTH: usize = 128;

/// Calls `see` with each regular file below `folder`, in order of names, until it returns false.
pub(super) fn files(root: &Root, folder: &str, see: &mut dyn FnMut(&str) -> bool) {
    let mut walk = Walk { root, ignores: Vec::new(), see };
    // Ignore files above the folder count as well.
    for (at, _) in folder.match_indices('/') {
        walk.enter(&folder[..at]);
    }
    if !folder.is_empty() {
        walk.enter("");
        walk.ignores.rotate_right(1);
    }
    walk.folder(folder, 0);
}

struct Walk<'r> {
    root: &'r Root,
    /// One for each folder from the root down; `None` where there are no ignore files.
    ignores: Vec<Option<Gitignore>>,
    see: &'r mut dyn FnMut(&str) -> bool,
}

impl Walk<'_> {
    /// False when the walk was stopped. A folder that cannot be read is left out.
    fn folder(&mut self, path: &str, depth: usize) -> bool {
        let Ok((names, _)) = self.root.read_dir(path, MAX_NAMES) else { return true };
        self.enter(path);
        let mut goes_on = true;
        for name in names {
            let below = if path.is_empty() { name.name } else { format!("{path}/{}", name.name) };
            let is_dir = name.kind == NameKind::Dir;
            if below.ends_with(".git") && (below == ".git" || below.ends_with("/.git")) {
                continue;
            }
            if self.is_ignored(&below, is_dir) {
                continue;
            }
            goes_on = match name.kind {
                NameKind::Dir if depth < MAX_DEPTH => self.folder(&below, depth + 1),
                NameKind::File => (self.see)(&below),
                NameKind::Dir | NameKind::Link | NameKind::Other => true,
            };
            if !goes_on {
                break;
            }
        }
        self.ignores.pop();
        goes_on
    }

    fn enter(&mut self, path: &str) {
        let mut builder = GitignoreBuilder::new(Path::new("/").join(path));
        let mut has_lines = false;
        for file in IGNORE_FILES {
            let file = if path.is_empty() { file.to_owned() } else { format!("{path}/{file}") };
            let Ok(content) = self.root.read(&file, MAX_IGNORE_FILE) else { continue };
            for line in String::from_utf8_lossy(&content).lines() {
                // A line that is no valid pattern is skipped, as git does.
                let _ = builder.add_line(None, line);
                has_lines = true;
            }
        }
        self.ignores.push(if has_lines { builder.build().ok() } else { None });
    }

    /// The innermost folder that has an opinion decides.
    fn is_ignored(&self, path: &str, is_dir: bool) -> bool {
        let path = Path::new("/").join(path);
        for ignore in self.ignores.iter().rev().flatten() {
            match ignore.matched(&path, is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}
