//! Whose the files of a working folder are. What root writes there is root's, also in place of a file of somebody else's, who
//! could not edit it any more. So it gets the owner and the group that the file had, or those of its folder.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid};

use patchwright_guest::patch::plan::FileOp;

/// Owners that files and folders should have once they are written.
pub(super) struct Owners {
    wanted: Vec<(String, u32, u32)>,
}

impl Owners {
    /// As it is before these steps. Nothing where we are not root, who alone can give files away.
    pub(super) fn before(folder: &Path, steps: &[FileOp]) -> Owners {
        if !rustix::process::geteuid().is_root() {
            return Owners { wanted: Vec::new() };
        }
        let wanted = steps.iter().filter_map(|step| {
            let (path, is_file) = match step {
                FileOp::Write { path, .. } => (path, true),
                FileOp::MakeDir { path } => (path, false),
                _ => return None,
            };
            let (owner, group) = owner(folder, path, is_file)?;
            Some((path.clone(), owner, group))
        });
        Owners { wanted: wanted.collect() }
    }

    /// Gives them what was written. Where that cannot be done, as on a share that knows no root, it stays as it is.
    pub(super) fn restore(self, folder: &Path) {
        let Ok(root) = fs_err::File::open(folder) else { return };
        for (path, owner, group) in self.wanted {
            if let Err(err) = give(root.file(), &path, owner, group) {
                tracing::warn!(path, %err, "the owner of a file could not be kept");
            }
        }
    }
}

/// The owner and the group of a file that is there, else of the nearest folder around it.
fn owner(folder: &Path, path: &str, is_file: bool) -> Option<(u32, u32)> {
    let of = |about: std::fs::Metadata| (about.uid(), about.gid());
    let now = std::fs::symlink_metadata(folder.join(path)).ok();
    if let Some(now) = now.filter(|now| is_file && now.is_file()) {
        return Some(of(now));
    }
    let around = Path::new(path).ancestors().skip(1);
    let mut folders = around.filter_map(|it| std::fs::symlink_metadata(folder.join(it)).ok());
    folders.find(std::fs::Metadata::is_dir).map(of)
}

/// The folder is somebody else's, who may put anything in the place of what was just written: only what is below the folder,
/// is ours, and has no other name is given away.
fn give(root: &std::fs::File, path: &str, owner: u32, group: u32) -> io::Result<()> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::openat2(root, path, flags, Mode::empty(), beneath)?);
    let about = file.metadata()?;
    let is_ours = about.uid() == 0 && (about.is_dir() || (about.is_file() && about.nlink() == 1));
    if !is_ours || (about.uid(), about.gid()) == (owner, group) {
        return Ok(());
    }
    let (owner, group) = (Some(Uid::from_raw(owner)), Some(Gid::from_raw(group)));
    rustix::fs::chownat(&file, "", owner, group, AtFlags::EMPTY_PATH)?;
    Ok(())
}
