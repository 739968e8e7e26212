//! What is in the workspace besides the files of the uploaded tree: one walk that follows no link, by
//! git's rules. New files are shown unless `.gitignore` rules ignore them. What commands leave behind in
//! repositories that do not mention it (installed packages, caches) is no part of a change, unless the
//! tree has files in that folder: then the repository keeps it on purpose. Ignored files of which somebody
//! has said that they belong to the change ([`super::wanted`]) are shown like others.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::compiled;
use super::folder::{self, Folder, Parents};
use super::generated;
use super::git_pattern::as_git;
use super::transfer::{Base, Entry};
use super::wanted::Wanted;
use crate::tool::ToolError;

/// Deepest nesting of folders that is searched.
const MAX_DEPTH: usize = 200;

/// Most names that one walk looks at.
const MAX_NAMES: usize = 5_000_000;

/// Largest `.gitignore` that is obeyed, in bytes.
const MAX_IGNORE_FILE: u64 = 256 << 10;

/// What the walk has met.
pub enum SurveyEntry<'f> {
    /// Anything but a folder.
    File(File<'f>),
    /// A folder that is another repository.
    Repository,
    /// A folder or file of packages, caches or builds.
    Artefact,
    /// What cannot be looked at, and why.
    Odd(&'static str),
}

/// A file that the tree does not have.
pub struct File<'f> {
    pub parent: BorrowedFd<'f>,
    pub name: &'f OsStr,
    pub stat: &'f Stat,
    /// Length of the path of the outermost folder around it that has no file of the tree; absent when
    /// its own folder has one.
    pub folder: Option<usize>,
}

/// What is shown of ignored files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    Hidden,
    Shown,
}

/// Takes what is found, by path. An error ends the walk.
pub type Take<'a> = dyn FnMut(&[u8], SurveyEntry<'_>) -> Result<(), ToolError> + 'a;

/// Walks everything below `top`; what is `wanted` is shown whatever ignores it. `stop` is asked often; when
/// it says so, the walk ends with an error.
pub fn survey(
    top: BorrowedFd<'_>,
    base: &Base,
    wanted: &Wanted,
    ignored: Ignored,
    stop: &dyn Fn() -> bool,
    take: &mut Take<'_>,
) -> Result<(), ToolError> {
    let mut walk = Walk { base, wanted, ignored, stop, take, rules: Vec::new(), names: 0 };
    walk.folder(top, &mut Vec::new(), &WalkPosition::default())
}

struct Walk<'a> {
    base: &'a Base,
    wanted: &'a Wanted,
    ignored: Ignored,
    stop: &'a dyn Fn() -> bool,
    take: &'a mut Take<'a>,
    /// The ignore rules of the open folders, outermost first, with the length of the folder's path.
    rules: Vec<(usize, Gitignore)>,
    names: usize,
}

/// Where the walk is.
#[derive(Default)]
struct WalkPosition {
    depth: usize,
    outermost: Option<usize>,
    /// In a folder that is ignored: no rule takes back what is in it.
    is_ignored: bool,
}

impl Walk<'_> {
    /// Walks one folder; `path` is its path with a final `/`, or empty at the top.
    fn folder(
        &mut self,
        fd: BorrowedFd<'_>,
        path: &mut Vec<u8>,
        place: &WalkPosition,
    ) -> Result<(), ToolError> {
        let names = match folder::names(fd) {
            Ok(names) => names,
            Err(err) => return self.unreadable(path, err),
        };
        let rules = read_rules(fd).filter(|_| self.ignored == Ignored::Hidden);
        if let Some(rules) = rules {
            self.rules.push((path.len(), rules));
        }
        let own_rules = self.rules.last().is_some_and(|(length, _)| *length == path.len());
        let length = path.len();
        for name in &names {
            if length == 0 && name == ".git" {
                continue;
            }
            path.extend_from_slice(name.as_bytes());
            self.name(fd, name, path, place)?;
            path.truncate(length);
        }
        if own_rules {
            self.rules.pop();
        }
        Ok(())
    }

    fn name(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        path: &mut Vec<u8>,
        place: &WalkPosition,
    ) -> Result<(), ToolError> {
        self.names += 1;
        if self.names > MAX_NAMES {
            return Err(ToolError::tell(format!("the workspace has more than {MAX_NAMES} files")));
        }
        if (self.stop)() {
            return Err(ToolError::tell("the collection was cancelled"));
        }
        let stat = match folder::look(parent, name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(err) => return self.unreadable(path, err),
        };
        let is_folder = folder::kind(&stat) == FileType::Directory;
        if !is_folder && self.base.entries.contains_key(path.as_slice()) {
            return Ok(());
        }
        let is_ignored = place.is_ignored || is_ignored(&self.rules, path, is_folder);
        if is_ignored {
            let has = if is_folder { Wanted::has_below } else { Wanted::has };
            if !has(self.wanted, path) {
                return Ok(());
            }
        }
        let is_kept = is_folder && has_below(&self.base.entries, path);
        if is_artefact(name, is_folder) && !is_kept {
            return (self.take)(path, SurveyEntry::Artefact);
        }
        // What the tree had was made by somebody who wanted it there, wherever it is now.
        let is_new = self.wanted.moved_to(path).next().is_none();
        let is_made = || {
            compiled::is_compiled(parent, name, &stat)
                || generated::is_generated(parent, name, &stat)
        };
        if !is_folder && is_new && is_made() {
            return (self.take)(path, SurveyEntry::Artefact);
        }
        if !is_folder {
            let file = File { parent, name, stat: &stat, folder: place.outermost };
            return (self.take)(path, SurveyEntry::File(file));
        }
        if place.depth >= MAX_DEPTH {
            return (self.take)(path, SurveyEntry::Odd("folders nested too deeply"));
        }
        let inner = match folder::open_directory(parent, name) {
            Ok(inner) => inner,
            Err(err) => return self.unreadable(path, err),
        };
        let is_cache = || folder::look(inner.as_fd(), OsStr::new("CACHEDIR.TAG")).is_ok();
        if !is_kept && (is_cache() || generated::is_build_tree(inner.as_fd(), name)) {
            return (self.take)(path, SurveyEntry::Artefact);
        }
        if folder::look(inner.as_fd(), OsStr::new(".git")).is_ok() {
            return (self.take)(path, SurveyEntry::Repository);
        }
        let outermost = place.outermost.or((!is_kept).then_some(path.len()));
        path.push(b'/');
        let place = WalkPosition { depth: place.depth + 1, outermost, is_ignored };
        self.folder(inner.as_fd(), path, &place)
    }

    fn unreadable(&mut self, path: &[u8], err: Errno) -> Result<(), ToolError> {
        if path.is_empty() {
            return Err(ToolError::Broken(format!("cannot read the workspace: {err}")));
        }
        (self.take)(path, SurveyEntry::Odd("it cannot be read"))
    }
}

/// What git's rules say about a path that is not in the base; the innermost rule wins.
fn is_ignored(rules: &[(usize, Gitignore)], path: &[u8], is_folder: bool) -> bool {
    for (length, rules) in rules.iter().rev() {
        let below = Path::new(OsStr::from_bytes(&path[*length..]));
        let found = rules.matched(below, is_folder);
        if !found.is_none() {
            return found.is_ignore();
        }
    }
    false
}

/// Why a file is in no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// Rules of `.gitignore` ignore it.
    Ignored,
    /// It is, or is among, packages or caches.
    Artefact,
}

/// Why a file that the tree does not have is in no change; `None` when it is in it.
pub fn hidden(folder: &mut Folder, base: &Base, path: &[u8]) -> Option<Hidden> {
    let (mut rules, mut start) = (Vec::new(), 0);
    loop {
        let rest = path.get(start..)?;
        let end = rest.iter().position(|byte| *byte == b'/').map(|at| start + at);
        let here = path.get(..end.unwrap_or(path.len()))?;
        let (parent, name) = folder.parent(here, Parents::Require).ok()?;
        rules.extend(read_rules(parent).map(|rules| (start, rules)));
        if is_ignored(&rules, here, end.is_some()) {
            return Some(Hidden::Ignored);
        }
        let is_kept = end.is_some() && has_below(&base.entries, here);
        if is_artefact(name, end.is_some()) && !is_kept {
            return Some(Hidden::Artefact);
        }
        start = end? + 1;
    }
}

/// Whether the tree has files in a folder.
fn has_below(entries: &BTreeMap<Vec<u8>, Entry>, path: &[u8]) -> bool {
    let start = [path, b"/"].concat();
    let mut below = entries.range(start.clone()..);
    below.next().is_some_and(|(path, _)| path.starts_with(&start))
}

/// What commands leave behind in repositories whose ignore rules do not mention it: caches of
/// interpreters and test runners, installed packages. Only ever asked about what the tree has no files
/// in. Folders with a `CACHEDIR.TAG` (<https://bford.info/cachedir/>) are left out as well.
fn is_artefact(name: &OsStr, is_folder: bool) -> bool {
    const FOLDERS: &[&str] = &[
        "__pycache__",
        "node_modules",
        ".tox",
        ".nox",
        ".venv",
        ".gradle",
        ".nyc_output",
        "htmlcov",
        // Of automake and libtool.
        ".deps",
        ".libs",
    ];
    // Where the manuals of Go, coverage.py, nyc and codecov have coverage written.
    const FILES: &[&str] = &[
        ".DS_Store",
        ".coverage",
        "cover.out",
        "coverage.out",
        "coverage.txt",
        "coverage.xml",
        "lcov.info",
    ];
    let name = name.to_string_lossy();
    if is_folder {
        return FOLDERS.contains(&name.as_ref())
            || (name.starts_with('.') && name.ends_with("_cache"))
            || name.ends_with(".egg-info");
    }
    name.ends_with(".pyc") || FILES.contains(&name.as_ref())
}

/// Whether a file is where builds and package managers write. Asked about files that setup or a check left:
/// one that looks otherwise now was made again. What is new there may be anybody's.
pub fn is_output(path: &[u8]) -> bool {
    const FOLDERS: &[&[u8]] =
        &[b".bundle", b"_build", b"bin", b"build", b"deps", b"obj", b"target", b"vendor"];
    let mut folders: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    folders.pop();
    folders.iter().any(|folder| FOLDERS.contains(folder))
}

/// The ignore rules of a folder; a rule that cannot be parsed is left out, as git does.
fn read_rules(fd: BorrowedFd<'_>) -> Option<Gitignore> {
    let content = folder::read_file(fd, OsStr::new(".gitignore"), MAX_IGNORE_FILE).ok()??;
    // Editors of Windows put a byte order mark in front, which git passes over.
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&content);
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(content).lines() {
        let _ = builder.add_line(None, &as_git(line));
    }
    builder.build().ok()
}
