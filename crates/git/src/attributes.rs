//! What the `.gitattributes` of a commit say of a path: whether git LFS keeps it, whether git stores its lines with LF, and
//! whether two versions of it are merged line by line. We upload nothing to LFS, so a change to such a path would publish
//! the content where a pointer belongs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use git2::{Repository, Tree};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::GitError;
use patchwright_guest::git_pattern::as_git;
use patchwright_sandbox::client::{CollectedKind, CollectedTree};

/// Larger attribute files are not read.
const MAX_BYTES: usize = 1 << 20;

/// The name of attribute files.
const FILE: &str = ".gitattributes";

/// Answers for the paths of one tree; reads each `.gitattributes` once.
pub(super) struct Attributes<'a> {
    git: &'a Repository,
    tree: &'a Tree<'a>,
    /// Attribute files that stand in the place of the tree's, by path.
    instead: BTreeMap<&'a str, &'a [u8]>,
    /// Rules by folder; the root is the empty string.
    folders: BTreeMap<String, Vec<Rule>>,
    /// What names stand for that are defined by `[attr]` lines in the root.
    macros: HashMap<String, Said>,
}

struct Rule {
    pattern: Gitignore,
    said: Said,
}

/// What a line says; absent is what it says nothing about.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Said {
    is_lfs: Option<bool>,
    text: Option<Text>,
    has_eol: Option<bool>,
    merge: Option<Merge>,
}

/// How two versions of a file are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// Line by line; what both have changed is a conflict.
    Lines,
    /// Line by line; of what both have changed the lines of both are taken, as `merge=union` wants it.
    Union,
    /// Not at all: one or the other is taken (`-merge`, which `binary` says as well).
    Whole,
}

/// The attribute `text`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    Set,
    Unset,
    Auto,
    /// As if no line had said anything.
    Unspecified,
}

impl Said {
    /// This, and what a later line says in its place.
    fn then(self, later: Said) -> Said {
        Said {
            is_lfs: later.is_lfs.or(self.is_lfs),
            text: later.text.or(self.text),
            has_eol: later.has_eol.or(self.has_eol),
            merge: later.merge.or(self.merge),
        }
    }
}

impl<'a> Attributes<'a> {
    pub(super) fn new(git: &'a Repository, tree: &'a Tree<'a>) -> Attributes<'a> {
        Attributes::with(git, tree, BTreeMap::new())
    }

    /// As the tree will be with these attribute files, by path.
    pub(super) fn with(
        git: &'a Repository,
        tree: &'a Tree<'a>,
        instead: BTreeMap<&'a str, &'a [u8]>,
    ) -> Attributes<'a> {
        Attributes { git, tree, instead, folders: BTreeMap::new(), macros: HashMap::new() }
    }

    /// Whether the path has `filter=lfs`.
    pub(super) fn is_lfs(&mut self, path: &str) -> Result<bool, GitError> {
        Ok(self.of(path)?.is_lfs == Some(true))
    }

    /// How two versions of the path are merged.
    pub(super) fn merge(&mut self, path: &str) -> Result<Merge, GitError> {
        Ok(self.of(path)?.merge.unwrap_or(Merge::Lines))
    }

    /// The content as git stores it at this path: with LF where it has CRLF and is text.
    pub(super) fn stored<'c>(
        &mut self,
        path: &str,
        content: &'c [u8],
    ) -> Result<Cow<'c, [u8]>, GitError> {
        let Said { text, has_eol, .. } = self.of(path)?;
        let is_text = match text {
            Some(Text::Set) => true,
            Some(Text::Unset) => false,
            // A CR alone is in no text either.
            Some(Text::Auto) => {
                let lone =
                    |pair: &[u8]| pair.first() == Some(&b'\r') && pair.get(1) != Some(&b'\n');
                !content.contains(&0) && !content.ends_with(b"\r") && !content.windows(2).any(lone)
            }
            Some(Text::Unspecified) | None => has_eol == Some(true),
        };
        if !is_text {
            return Ok(Cow::Borrowed(content));
        }
        let mut stored = Vec::with_capacity(content.len());
        for (at, byte) in content.iter().enumerate() {
            if *byte != b'\r' || content.get(at + 1) != Some(&b'\n') {
                stored.push(*byte);
            }
        }
        Ok(Cow::Owned(stored))
    }

    /// The last line that says something wins, and deeper folders win over the ones above them.
    fn of(&mut self, path: &str) -> Result<Said, GitError> {
        let mut found = Said::default();
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
                    found = found.then(rule.said);
                }
            }
        }
        Ok(found)
    }

    fn read(&mut self, folder: &str) -> Result<Vec<Rule>, GitError> {
        let path = Path::new(folder).join(FILE);
        let blob;
        let content = match path.to_str().and_then(|path| self.instead.get(path)) {
            // The change is what is wrong then, and the rules of the base are left.
            Some(content) if content.len() > MAX_BYTES => return Ok(Vec::new()),
            Some(content) => *content,
            None => {
                let Ok(entry) = self.tree.get_path(&path) else { return Ok(Vec::new()) };
                let Ok(found) = self.git.find_blob(entry.id()) else { return Ok(Vec::new()) };
                blob = found;
                blob.content()
            }
        };
        if content.len() > MAX_BYTES {
            return Err(GitError::Unacceptable(format!("`{}` is too large", path.display())));
        }
        // Editors of Windows put a byte order mark in front, which git passes over.
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        let text = String::from_utf8_lossy(content).into_owned();
        Ok(text.lines().filter_map(|line| self.rule(line.trim(), folder.is_empty())).collect())
    }

    /// One line; `None` when it says nothing of what is asked.
    fn rule(&mut self, line: &str, in_root: bool) -> Option<Rule> {
        if line.starts_with('#') {
            return None;
        }
        let (pattern, attributes) = pattern_of(line)?;
        if let Some(name) = line.strip_prefix("[attr]").filter(|_| in_root) {
            let (name, attributes) = name.split_once(char::is_whitespace)?;
            let said = self.said(attributes);
            self.macros.insert(name.to_owned(), said);
            return None;
        }
        let said = self.said(attributes);
        if said == Said::default() {
            return None;
        }
        let mut builder = GitignoreBuilder::new("");
        // In an ignore file these would begin a comment and an exception, here they are letters; what ends with a
        // space is quoted here, and escaped there.
        let pattern =
            if pattern.starts_with(['#', '!']) { format!("\\{pattern}") } else { pattern.into() };
        let pattern = match pattern.strip_suffix(' ') {
            Some(rest) => format!("{rest}\\ "),
            None => pattern,
        };
        builder.add_line(None, &as_git(&pattern)).ok()?;
        Some(Rule { pattern: builder.build().ok()?, said })
    }

    fn said(&self, attributes: &str) -> Said {
        attributes.split_whitespace().fold(Said::default(), |said, attribute| {
            let lfs = |is_lfs| Said { is_lfs: Some(is_lfs), ..Said::default() };
            let text = |text| Said { text: Some(text), ..Said::default() };
            let eol = |has_eol| Said { has_eol: Some(has_eol), ..Said::default() };
            let merge = |merge| Said { merge: Some(merge), ..Said::default() };
            said.then(match attribute {
                "filter=lfs" => lfs(true),
                "-filter" | "!filter" => lfs(false),
                "text" => text(Text::Set),
                "-text" => text(Text::Unset),
                "binary" => text(Text::Unset).then(merge(Merge::Whole)),
                "-merge" | "merge=binary" => merge(Merge::Whole),
                "merge=union" => merge(Merge::Union),
                "merge" | "!merge" => merge(Merge::Lines),
                "text=auto" => text(Text::Auto),
                "!text" => text(Text::Unspecified),
                "eol=lf" | "eol=crlf" => eol(true),
                "-eol" | "!eol" => eol(false),
                other if other.starts_with("filter=") => lfs(false),
                // A driver that git does not know merges as text.
                other if other.starts_with("merge=") => merge(Merge::Lines),
                other => self.macros.get(other).copied().unwrap_or_default(),
            })
        })
    }
}

/// The attribute files that a change has, by path, without what is held back: deleted ones are empty.
pub(super) fn of_change<'a>(
    collected: &'a CollectedTree,
    held: &BTreeMap<String, String>,
) -> BTreeMap<&'a str, &'a [u8]> {
    let is_one = |path: &str| path.rsplit('/').next() == Some(FILE) && !held.contains_key(path);
    let deleted = collected.listing.deleted.iter().filter(|path| is_one(path));
    let deleted = deleted.map(|path| (path.as_str(), &[][..]));
    let written = collected.files.iter().filter(|file| is_one(&file.path));
    let written = written.filter_map(|file| match &file.kind {
        CollectedKind::File { content, .. } => Some((file.path.as_str(), &content[..])),
        CollectedKind::Symlink { .. } => None,
    });
    deleted.chain(written).collect()
}

/// The pattern that a line begins with, and the rest. One in quotes is written as C writes texts (`quote.c` of git);
/// `None` when the quotes do not end.
fn pattern_of(line: &str) -> Option<(Cow<'_, str>, &str)> {
    let Some(quoted) = line.strip_prefix('"') else {
        let (pattern, rest) = line.split_once(char::is_whitespace)?;
        return Some((pattern.into(), rest));
    };
    let (mut pattern, mut bytes) = (Vec::new(), quoted.bytes().enumerate());
    loop {
        let (at, byte) = bytes.next()?;
        match byte {
            b'"' => {
                let pattern = String::from_utf8_lossy(&pattern).into_owned();
                return Some((pattern.into(), quoted.get(at + 1..)?));
            }
            b'\\' => pattern.push(match bytes.next()?.1 {
                b'a' => 7,
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => 11,
                digit @ b'0'..=b'3' => {
                    let digits = [digit, bytes.next()?.1, bytes.next()?.1];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()?
                }
                other @ (b'"' | b'\\') => other,
                _ => return None,
            }),
            byte => pattern.push(byte),
        }
    }
}
