//! The workspace as tools see it: the only way to make a path, and only inside.
//!
//! The folder is opened once. A path of the model is cleaned as text, its links are followed here one
//! by one, and what comes out is opened below that folder with links forbidden altogether. So a link
//! leads nowhere but inside, and a tree that is changed between the check and the use gives an error,
//! not a way out. Used by every guest tool and by `patchwright apply-patch`.

mod commit;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

pub use self::commit::NotDone;
use super::ToolError;
use crate::patch::plan::FileOp;
use crate::patch::tree::{self, Entry, Last, Tree};

/// Largest file that a tool takes into memory as a whole, in bytes.
pub const MAX_FILE: u64 = 256 << 20;

/// The root folder of the workspace.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    /// As given, made absolute.
    path: PathBuf,
    /// Without links.
    real: PathBuf,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Bytes that are not UTF-8 are replaced; such a name cannot be opened.
    pub name: String,
    pub kind: NameKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameKind {
    Dir,
    File,
    Link,
    Other,
}

impl Root {
    /// Opens the folder. Fails when it is missing or no folder.
    pub fn open(path: &Path) -> io::Result<Root> {
        let path = std::path::absolute(path)?;
        let real = fs_err::canonicalize(&path)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&real, flags, Mode::empty())?;
        Ok(Root { dir, path, real })
    }

    /// The absolute path of the workspace, for the working directory of commands.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path as the model writes it: relative to `cwd` (itself relative to the root), or absolute
    /// and below the workspace. `..` is removed as text. The error is a refusal for the model.
    pub fn clean(&self, path: &str, cwd: &str) -> Result<String, String> {
        if path.contains(['\0', '\n']) {
            return Err("a path cannot contain NUL or a line feed".to_owned());
        }
        if is_drive(path) {
            return Err("write the path relative to the workspace, with `/`".to_owned());
        }
        let outside = || format!("the path is outside the workspace {}", self.path.display());
        if !path.starts_with('/') {
            return tree::textual(&format!("{cwd}/{path}")).ok_or_else(outside);
        }
        let full = tree::textual(path).ok_or_else(outside)?;
        let full = Path::new("/").join(full);
        let below = full.strip_prefix(&self.path).or_else(|_| full.strip_prefix(&self.real));
        below.ok().and_then(Path::to_str).map(str::to_owned).ok_or_else(outside)
    }

    /// Follows the links of a path of the model; says where it really is and what stands there.
    pub fn locate(&self, path: &str) -> Result<(String, Entry), ToolError> {
        let failed = |why: &str| ToolError::tell(format!("cannot open `{path}`: {why}"));
        let clean = self.clean(path, "").map_err(|why| failed(&why))?;
        tree::resolve(&clean, Last::Follow, &|path| self.entry(path)).map_err(|err| {
            if tree::is_outside(&err) {
                failed("it leads out of the workspace through a symbolic link")
            } else {
                failed(&err.to_string())
            }
        })
    }

    /// What stands at a path without links.
    pub fn entry(&self, path: &str) -> io::Result<Entry> {
        if path.is_empty() {
            return Ok(Entry::Dir);
        }
        let (parent, name) = split(path);
        let dir = match self.open_at(parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Entry::Absent),
            dir => dir?,
        };
        let stat = match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(Entry::Absent),
            stat => stat?,
        };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Entry::File { mode: stat.st_mode & 0o7777 },
            FileType::Directory => Entry::Dir,
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&dir, name, Vec::new())?;
                self.link(target.to_str().ok())
            }
            _ => Entry::Other,
        })
    }

    /// A link's target as the tree knows it.
    fn link(&self, target: Option<&str>) -> Entry {
        let Some(target) = target else { return Entry::Outside };
        if !target.starts_with('/') {
            return Entry::Link(target.to_owned());
        }
        let target = Path::new(target);
        let below = target.strip_prefix(&self.path).or_else(|_| target.strip_prefix(&self.real));
        match below.ok().and_then(Path::to_str) {
            Some(below) => Entry::Link(format!("/{below}")),
            None => Entry::Outside,
        }
    }

    /// Opens a regular file for reading. Never waits: a FIFO or a device is an error.
    pub fn open_file(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.open_at(path, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(file)
    }

    /// Opens a folder for reading its names, and for opening what is in it.
    pub(super) fn open_dir(&self, path: &str) -> io::Result<OwnedFd> {
        Ok(self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?)
    }

    /// The whole content of a regular file of at most `cap` bytes.
    pub fn read(&self, path: &str, cap: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(path)?;
        let size = file.metadata()?.len();
        let mut content = Vec::with_capacity(usize::try_from(size.min(cap)).unwrap_or(0) + 1);
        file.take(cap + 1).read_to_end(&mut content)?;
        if content.len() as u64 > cap {
            let message = format!("the file is larger than {cap} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        Ok(content)
    }

    /// The names in a folder, sorted, at most `cap`; also whether there are more.
    pub fn read_dir(&self, path: &str, cap: usize) -> io::Result<(Vec<Name>, bool)> {
        let dir = self.open_dir(path)?;
        let mut names = Vec::new();
        for entry in Dir::new(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if names.len() == cap {
                names.sort();
                return Ok((names, true));
            }
            let kind = match entry.file_type() {
                FileType::Directory => NameKind::Dir,
                FileType::RegularFile => NameKind::File,
                FileType::Symlink => NameKind::Link,
                FileType::Unknown => self.kind_of(path, name),
                _ => NameKind::Other,
            };
            names.push(Name { name: String::from_utf8_lossy(name).into_owned(), kind });
        }
        names.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((names, false))
    }

    /// Some file systems do not say the kind in the folder.
    fn kind_of(&self, folder: &str, name: &[u8]) -> NameKind {
        let Ok(name) = std::str::from_utf8(name) else { return NameKind::Other };
        match self.entry(format!("{folder}/{name}").trim_start_matches('/')) {
            Ok(Entry::Dir) => NameKind::Dir,
            Ok(Entry::File { .. }) => NameKind::File,
            Ok(Entry::Link(_) | Entry::Outside) => NameKind::Link,
            Ok(Entry::Other | Entry::Absent) | Err(_) => NameKind::Other,
        }
    }

    /// Carries out all operations, or none: on an error what was done is undone.
    pub fn commit(&self, ops: &[FileOp]) -> Result<(), NotDone> {
        commit::run(self, ops)
    }

    /// Writes a file whole, through links that stay inside, and makes its folders. Keeps its mode.
    pub fn write(&self, path: &str, content: &[u8]) -> Result<(), ToolError> {
        let failed = |why: String| ToolError::tell(format!("cannot write `{path}`: {why}"));
        let (target, entry) = self.locate(path)?;
        if tree::is_in_git_dir(path) || tree::is_in_git_dir(&target) {
            return Err(failed("`.git` must not be changed".to_owned()));
        }
        let mode = match entry {
            Entry::Absent => None,
            Entry::File { mode } => Some(mode),
            Entry::Dir | Entry::Link(_) | Entry::Outside | Entry::Other => {
                return Err(failed("it is not a regular file".to_owned()));
            }
        };
        let mut ops = Vec::new();
        for (at, _) in target.match_indices('/') {
            let folder = &target[..at];
            if self.entry(folder).map_err(|err| failed(err.to_string()))? == Entry::Absent {
                ops.push(FileOp::MakeDir { path: folder.to_owned() });
            }
        }
        ops.push(FileOp::Write { path: target.clone(), content: content.to_vec(), mode });
        self.commit(&ops).map_err(|err| failed(err.source.to_string()))
    }

    /// Opens a path that has no links, below the root. The empty path is the root.
    fn open_at(&self, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { "." } else { path };
        let flags = flags | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        match rustix::fs::openat2(&self.dir, path, flags, mode, how) {
            // Old kernels do not have the call, old container runtimes forbid it.
            Err(Errno::NOSYS | Errno::PERM) => self.walk(path, flags, mode),
            opened => opened,
        }
    }

    /// Opens a path segment by segment.
    fn walk(&self, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let (parent, name) = split(path);
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut dir = rustix::io::fcntl_dupfd_cloexec(self.dir.as_fd(), 0)?;
        for segment in parent.split('/').filter(|segment| !segment.is_empty()) {
            if segment == ".." {
                return Err(Errno::XDEV);
            }
            dir = rustix::fs::openat(&dir, segment, folder, Mode::empty())?;
        }
        if name == ".." {
            return Err(Errno::XDEV);
        }
        rustix::fs::openat(&dir, name, flags | OFlags::NOFOLLOW, mode)
    }
}

/// A path on a Windows drive, which models sometimes make up.
fn is_drive(path: &str) -> bool {
    matches!(path.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic())
}

/// The folder and the name in it.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The root as seen from a folder in it: what a patch works on.
pub struct Below<'r> {
    pub root: &'r Root,
    /// Relative to the root.
    pub cwd: String,
    /// How messages name files.
    pub naming: Naming,
}

/// How messages name the files of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// As the patch does.
    AsWritten,
    /// By absolute paths.
    Absolute,
}

impl Tree for Below<'_> {
    fn clean(&self, path: &str) -> Result<String, String> {
        self.root.clean(path, &self.cwd)
    }

    fn entry(&self, path: &str) -> io::Result<Entry> {
        self.root.entry(path)
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.root.read(path, MAX_FILE)
    }

    fn shown(&self, path: &str) -> String {
        match (self.naming, self.clean(path)) {
            (Naming::Absolute, Ok(clean)) => self.root.path.join(clean).display().to_string(),
            // A refused path is shown as what was refused.
            (Naming::AsWritten, _) | (_, Err(_)) => path.to_owned(),
        }
    }
}
