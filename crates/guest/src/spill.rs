//! Whole outputs in files: what a command wrote beyond what is kept of it stays in the sandbox, where
//! later commands can look at it. Bounded, outside of the workspace, and never in the way: what cannot be
//! written is left out.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// Bytes of one file.
const MAX_FILE: u64 = 16 << 20;
/// Bytes of all files.
const MAX_ALL: u64 = 64 << 20;
/// Names that are tried when some are taken.
const MAX_TAKEN: usize = 8;
/// The folder below that for temporary files.
const FOLDER: &str = "outputs";

/// Where the files go.
#[derive(Debug)]
pub struct Spills {
    folder: PathBuf,
    left: AtomicU64,
    made: AtomicU32,
}

impl Spills {
    /// Below the folder for temporary files; `None` where that is in the workspace.
    pub fn below(tmp: &Path, workspace: &Path) -> Option<Arc<Spills>> {
        if !tmp.is_absolute() || tmp.starts_with(workspace) {
            return None;
        }
        let (left, made) = (AtomicU64::new(MAX_ALL), AtomicU32::new(0));
        Some(Arc::new(Spills { folder: tmp.join(FOLDER), left, made }))
    }

    /// A new file. Commands can write into the folder, so nothing in it is followed or overwritten.
    fn create(&self) -> Option<(File, PathBuf)> {
        let private = Mode::RUSR | Mode::WUSR;
        let _ = rustix::fs::mkdirat(CWD, &self.folder, private | Mode::XUSR);
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let folder = rustix::fs::openat(CWD, &self.folder, flags, Mode::empty()).ok()?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let (file, name) = (0..MAX_TAKEN).find_map(|_| {
            let name = format!("{}.txt", self.made.fetch_add(1, Ordering::Relaxed) + 1);
            let file = rustix::fs::openat(&folder, &name, flags | OFlags::NOFOLLOW, private);
            Some((file.ok()?, name))
        })?;
        // Where the folder is somebody else's, it may be in the workspace by now.
        let real = fs_err::canonicalize(&self.folder).ok();
        if real.as_deref() != Some(&*self.folder) {
            let _ = rustix::fs::unlinkat(&folder, &name, AtFlags::empty());
            return None;
        }
        Some((File::from(file), self.folder.join(name)))
    }

    /// Takes so many bytes of what is left; what it got.
    fn take(&self, wanted: u64) -> u64 {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(wanted))
        });
        taken.unwrap_or(0).min(wanted)
    }
}

/// The file of one output.
#[derive(Debug, Default)]
pub struct Spill {
    to: Option<Arc<Spills>>,
    file: Option<(File, PathBuf)>,
    written: u64,
}

impl Spill {
    pub fn new(to: Option<Arc<Spills>>) -> Spill {
        Spill { to, ..Spill::default() }
    }

    /// For the next output.
    #[must_use]
    pub fn another(&self) -> Spill {
        Spill::new(self.to.clone())
    }

    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Makes the file; nothing is written when that fails.
    pub fn open(&mut self) {
        if self.file.is_none() && self.written == 0 {
            self.file = self.to.as_ref().and_then(|to| to.create());
        }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        let (Some(to), Some((file, _))) = (&self.to, &mut self.file) else { return };
        let room = MAX_FILE.saturating_sub(self.written).min(bytes.len() as u64);
        let room = usize::try_from(to.take(room)).unwrap_or_default();
        let bytes = bytes.get(..room).unwrap_or_default();
        match file.write_all(bytes) {
            Ok(()) => self.written += room as u64,
            // A full disk: what is there is the beginning.
            Err(_) => self.to = None,
        }
    }

    /// Where it is, and how many bytes of the output are in it.
    pub fn finish(self) -> Option<(String, u64)> {
        let (_, path) = self.file?;
        Some((path.into_os_string().into_string().ok()?, self.written))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use crate::output::BoundedOutput;
    use crate::protocol::OUTPUT_SLACK;
    use crate::spill::Spills;

    const CAP: usize = OUTPUT_SLACK + 100;

    /// What is kept of an output in pieces, and where all of it is.
    fn written(tmp: &Path, pieces: &[&str]) -> Option<(String, u64)> {
        let spills = Spills::below(tmp, Path::new("/workspace"));
        let mut kept = BoundedOutput::spilling(CAP, spills);
        for piece in pieces {
            kept.push(piece.as_bytes());
        }
        kept.finish(0, 0).saved
    }

    #[test]
    fn a_long_output_is_whole_in_a_file_and_a_short_one_in_none() {
        let folder = tempfile::tempdir().unwrap();
        let tmp = folder.path().canonicalize().unwrap();
        assert_eq!(written(&tmp, &["short\n"]), None);
        let long = "0123456789\n".repeat(2_000);
        let (path, bytes) = written(&tmp, &["begin\n", &long, "end\n"]).unwrap();
        assert_eq!(path, tmp.join("outputs/1.txt").to_str().unwrap());
        let content = fs_err::read_to_string(&path).unwrap();
        assert_eq!((content.len() as u64, content), (bytes, format!("begin\n{long}end\n")));
        // Another one does not overwrite it.
        let (path, _) = written(&tmp, &[&long]).unwrap();
        assert_eq!(path, tmp.join("outputs/2.txt").to_str().unwrap());
    }

    #[test]
    fn nothing_is_written_through_links_or_into_the_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let tmp = folder.path().canonicalize().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), tmp.join("outputs")).unwrap();
        assert_eq!(written(&tmp, &[&"x".repeat(100_000)]), None);
        assert!(fs_err::read_dir(elsewhere.path()).unwrap().next().is_none());
        assert!(Spills::below(Path::new("/workspace/tmp"), Path::new("/workspace")).is_none());
    }
}
