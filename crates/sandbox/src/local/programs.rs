//! The machine's programs, as far as the key of a setup has to know them: a result that other programs have made is
//! another one. In containers the image says it.
//!
//! Programs are not run for it. Which there are, how long they are and when they were written says whether one was
//! replaced.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha1::{Digest, Sha1};

/// Names the distribution and its release.
const RELEASE: &str = "/etc/os-release";

/// What tells the programs on this search path from others. What cannot be read counts as absent.
pub(super) fn seen(path: &str) -> Vec<u8> {
    let mut hash = Sha1::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(&fs_err::read(RELEASE).unwrap_or_default());
    let mut looked_at = BTreeSet::new();
    for folder in path.split(':').map(Path::new).filter(|folder| folder.is_absolute()) {
        part(folder.as_os_str().as_encoded_bytes());
        // `/bin` is `/usr/bin` by another name, with thousands of programs.
        let Ok(own) = fs_err::metadata(folder) else { continue };
        if !looked_at.insert((own.dev(), own.ino())) {
            continue;
        }
        let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort_unstable();
        for name in names {
            // Of a link, what it leads to: that is what an update replaces.
            let Ok(found) = fs_err::metadata(folder.join(&name)) else { continue };
            part(name.as_encoded_bytes());
            for number in [found.size().cast_signed(), found.mtime(), found.mtime_nsec()] {
                part(&number.to_be_bytes());
            }
        }
    }
    hash.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_replaced_program_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let (bin, real) = (folder.path().join("bin"), folder.path().join("tool-1"));
        fs_err::create_dir(&bin).unwrap();
        fs_err::write(&real, "one").unwrap();
        symlink(&real, bin.join("tool")).unwrap();
        let path = format!("/absent:{}", bin.display());
        let before = seen(&path);
        assert_eq!(seen(&path), before);
        fs_err::write(&real, "more").unwrap();
        let replaced = seen(&path);
        assert_ne!(replaced, before);
        fs_err::write(bin.join("other"), "").unwrap();
        assert_ne!(seen(&path), replaced);
        // A second name of the folder has nothing that is not seen in the first.
        let again = folder.path().join("again");
        symlink(&bin, &again).unwrap();
        let path = format!("{path}:{}", again.display());
        let before = seen(&path);
        fs_err::write(&real, "and more").unwrap();
        assert_ne!(seen(&path), before);
    }
}
