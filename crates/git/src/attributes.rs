//! Which paths git LFS keeps, by the `.gitattributes` of a commit. We upload nothing to LFS, so a change to
//! such a path would publish the content where a pointer belongs.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use git2::{Repository, Tree};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::GitError;

/// Larger attribute files are not read.
const MAX_BYTES: usize = 1 << 20;

/// Answers for the paths of one tree; reads each `.gitattributes` once.
pub(super) struct Attributes<'a> {
    git: &'a Repository,
    tree: &'a Tree<'a>,
    /// Rules by folder; the root is the empty string.
    folders: BTreeMap<String, Vec<Rule>>,
    /// Names that stand for `filter=lfs`, defined by `[attr]` lines in the root.
    macros: HashSet<String>,
}

struct Rule {
    pattern: Gitignore,
    is_lfs: bool,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(git: &'a Repository, tree: &'a Tree<'a>) -> Attributes<'a> {
        Attributes { git, tree, folders: BTreeMap::new(), macros: HashSet::new() }
    }

    /// Whether the path has `filter=lfs`: the last line that says something wins, and deeper folders
    /// win over the ones above them.
    pub(super) fn is_lfs(&mut self, path: &str) -> Result<bool, GitError> {
        let mut found = false;
        let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
        for start in starts {
            let (folder, rest) = path.split_at(start);
            let folder = folder.trim_end_matches('/');
            if !self.folders.contains_key(folder) {
                let rules = self.read(folder)?;
                self.folders.insert(folder.to_owned(), rules);
            }
            for rule in &self.folders[folder] {
                if rule.pattern.matched(Path::new(rest), false).is_ignore() {
                    found = rule.is_lfs;
                }
            }
        }
        Ok(found)
    }

    fn read(&mut self, folder: &str) -> Result<Vec<Rule>, GitError> {
        let path = Path::new(folder).join(".gitattributes");
        let Ok(entry) = self.tree.get_path(&path) else { return Ok(Vec::new()) };
        let Ok(blob) = self.git.find_blob(entry.id()) else { return Ok(Vec::new()) };
        if blob.size() > MAX_BYTES {
            return Err(GitError::Unacceptable(format!("`{}` is too large", path.display())));
        }
        let text = String::from_utf8_lossy(blob.content()).into_owned();
        Ok(text.lines().filter_map(|line| self.rule(line.trim(), folder.is_empty())).collect())
    }

    /// One line; `None` when it says nothing about filters.
    fn rule(&mut self, line: &str, in_root: bool) -> Option<Rule> {
        if line.starts_with('#') {
            return None;
        }
        let (pattern, attributes) = line.split_once(char::is_whitespace)?;
        if let Some(name) = line.strip_prefix("[attr]").filter(|_| in_root) {
            let (name, attributes) = name.split_once(char::is_whitespace)?;
            if attributes.split_whitespace().any(|attribute| attribute == "filter=lfs") {
                self.macros.insert(name.to_owned());
            }
            return None;
        }
        let is_lfs = attributes.split_whitespace().rev().find_map(|attribute| match attribute {
            "filter=lfs" => Some(true),
            "-filter" | "!filter" => Some(false),
            other if other.starts_with("filter=") => Some(false),
            other => self.macros.contains(other).then_some(true),
        })?;
        let mut builder = GitignoreBuilder::new("");
        builder.add_line(None, pattern.trim_matches('"')).ok()?;
        Some(Rule { pattern: builder.build().ok()?, is_lfs })
    }
}
