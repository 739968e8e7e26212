//! A change into somebody's working folder, for `exec --apply`. The folder belongs to the person who
//! asked for it; if they edited one of the changed files since the base commit, nothing is written.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use anyhow::Context as _;

use super::Oid;
use super::clone::Repo;
use super::owners::Owners;
use super::tree::{self, Change, FileChange, Mode};
use patchwright_guest::patch::plan::FileOp;
use patchwright_guest::patch::tree::Entry;
use patchwright_guest::tools::root::{NameKind, Root};

/// Bytes of one file.
const CAP: usize = 100 << 20;

/// Writes all files of the change, or none.
pub fn to_working_folder(folder: &Path, repo: &Repo, change: &Change) -> anyhow::Result<()> {
    let root = Root::open(folder)?;
    let mut steps = Steps::new(&root, &change.files);
    for file in &change.files {
        // Every file is checked before the first one is written, so a refusal changes nothing.
        let ends = check_untouched(&root, repo, file)?;
        steps.add(repo, file, ends).with_context(|| format!("`{}`", file.path))?;
    }
    let steps = steps.in_order();
    let owners = Owners::before(folder, &steps);
    root.commit(&steps)?;
    owners.restore(folder);
    Ok(())
}

/// The folder has these files as the change leaves them.
pub fn is_in_working_folder(folder: &Path, repo: &Repo, files: &[FileChange]) -> bool {
    let Ok(root) = Root::open(folder) else { return false };
    files.iter().all(|file| {
        let Some(new) = &file.new else {
            // An error is a file in the place of one of its folders.
            return matches!(root.entry(&file.path), Ok(Entry::Absent | Entry::Dir) | Err(_));
        };
        let now = root.read(&file.path, CAP as u64).ok();
        let then = tree::read_blob(repo, new.oid, CAP).ok();
        now.zip(then).is_some_and(|(now, then)| now == then || now == with_crlf(&then))
    })
}

/// How the lines of a file end in the folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnding {
    AsCommitted,
    /// Git, or an editor, has put CRLF for each LF.
    Crlf,
}

/// The file is what it was in the base commit, but for the ends of its lines.
///
/// Git's own comparison would run the filters that the repository's configuration names.
fn check_untouched(root: &Root, repo: &Repo, file: &FileChange) -> anyhow::Result<LineEnding> {
    let path = &file.path;
    let now = content(root, file).with_context(|| format!("`{path}`"))?;
    let before = file.old.as_ref().map(|entry| blob(repo, entry.oid));
    let before = before.transpose().with_context(|| format!("`{path}`"))?;
    if now == before {
        return Ok(LineEnding::AsCommitted);
    }
    let (now, before) = (now.as_deref(), before.as_deref());
    anyhow::ensure!(
        before.is_some_and(|before| is_text_with_lf(before) && now == Some(&with_crlf(before))),
        "`{path}` was edited since the base commit, or a filter of git has changed it on checkout"
    );
    Ok(LineEnding::Crlf)
}

/// What the file has in the folder, or where the link leads to; nothing where a folder is that the change has to make way.
fn content(root: &Root, file: &FileChange) -> io::Result<Option<Vec<u8>>> {
    let was_link = file.old.as_ref().is_some_and(|old| old.mode == Mode::Symlink);
    match root.entry(&file.path) {
        Ok(Entry::Dir) if file.old.is_none() => return Ok(None),
        Ok(Entry::Link(_) | Entry::Outside) if was_link => {
            let target = fs_err::read_link(root.path().join(&file.path))?;
            return Ok(Some(target.into_os_string().into_vec()));
        }
        Ok(Entry::Link(_) | Entry::Outside) => {
            return Err(io::Error::other("it is a link, which it was not in the base commit"));
        }
        _ => {}
    }
    match root.read(&file.path, CAP as u64) {
        Ok(content) => Ok(Some(content)),
        // The second one is a file where the change has a folder.
        Err(err)
            if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(err) => Err(err),
    }
}

fn blob(repo: &Repo, oid: Oid) -> anyhow::Result<Vec<u8>> {
    Ok(tree::read_blob(repo, oid, CAP)?)
}

/// The permissions of a file that the folder has already: the person's own, but for those to execute it, when that is
/// what the change changes.
fn mode_after(now: u32, before: Option<Mode>, after: Mode) -> u32 {
    match after {
        _ if before == Some(after) => now,
        // As git does it: whoever may read may execute.
        Mode::Executable => now | (now & 0o444) >> 2,
        _ => now & !0o111,
    }
}

/// Git converts no others.
fn is_text_with_lf(content: &[u8]) -> bool {
    !content.contains(&0) && !content.contains(&b'\r')
}

/// Each LF that has no CR yet gets one.
fn with_crlf(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + content.len() / 16);
    for &byte in content {
        if byte == b'\n' && out.last() != Some(&b'\r') {
            out.push(b'\r');
        }
        out.push(byte);
    }
    out
}

/// What has to be done to the folder, by kind.
struct Steps<'r> {
    root: &'r Root,
    /// Paths that the change deletes.
    deleted: BTreeSet<&'r str>,
    removals: Vec<FileOp>,
    /// Folders that make way for files.
    emptied: Vec<String>,
    made: BTreeSet<String>,
    writes: Vec<FileOp>,
}

impl<'r> Steps<'r> {
    fn new(root: &'r Root, files: &'r [FileChange]) -> Steps<'r> {
        let deleted = files.iter().filter(|file| file.new.is_none());
        Steps {
            root,
            deleted: deleted.map(|file| file.path.as_str()).collect(),
            removals: Vec::new(),
            emptied: Vec::new(),
            made: BTreeSet::new(),
            writes: Vec::new(),
        }
    }

    fn add(&mut self, repo: &Repo, file: &FileChange, ends: LineEnding) -> anyhow::Result<()> {
        let path = file.path.clone();
        let Some(entry) = &file.new else {
            self.removals.push(FileOp::Remove { path });
            return Ok(());
        };
        if matches!(entry.mode, Mode::Symlink | Mode::Gitlink) {
            anyhow::bail!("it is a link; apply `change.patch` with `git apply` instead");
        }
        let mode = match self.root.entry(&path) {
            Ok(Entry::File { mode: now }) => {
                Some(mode_after(now & 0o777, file.old.map(|old| old.mode), entry.mode))
            }
            // Else as the mask of the person says.
            _ => (entry.mode == Mode::Executable).then_some(0o755),
        };
        let content = blob(repo, entry.oid)?;
        let content = if ends == LineEnding::Crlf { with_crlf(&content) } else { content };
        self.make_folders(&path)?;
        if matches!(self.root.entry(&path), Ok(Entry::Dir)) {
            self.empty(&path)?;
        }
        self.writes.push(FileOp::Write { path, content, mode });
        Ok(())
    }

    /// The folders around a path that are not there yet.
    fn make_folders(&mut self, path: &str) -> anyhow::Result<()> {
        let mut is_new = false;
        for (at, _) in path.match_indices('/') {
            let folder = &path[..at];
            if !is_new && !self.deleted.contains(folder) {
                match self.root.entry(folder)? {
                    Entry::Dir => continue,
                    Entry::Absent => {}
                    _ => anyhow::bail!("`{folder}` is in the way: it is not a folder"),
                }
            }
            is_new = true;
            self.made.insert(folder.to_owned());
        }
        Ok(())
    }

    /// Takes away a folder in which nothing stays. What the change does not know is not deleted.
    fn empty(&mut self, folder: &str) -> anyhow::Result<()> {
        let (names, _) = self.root.read_dir(folder, usize::MAX)?;
        for name in names {
            let inner = format!("{folder}/{}", name.name);
            if name.kind == NameKind::Dir {
                self.empty(&inner)?;
            } else {
                let is_deleted = self.deleted.contains(inner.as_str());
                anyhow::ensure!(is_deleted, "`{inner}` is in the way: it is no part of the change");
            }
        }
        // After the folders in it.
        self.emptied.push(folder.to_owned());
        Ok(())
    }

    /// What goes makes way for what comes, and folders are made from the outside in.
    fn in_order(self) -> Vec<FileOp> {
        let emptied = self.emptied.into_iter().map(|path| FileOp::RemoveDir { path });
        let made = self.made.into_iter().map(|path| FileOp::MakeDir { path });
        self.removals.into_iter().chain(emptied).chain(made).chain(self.writes).collect()
    }
}
