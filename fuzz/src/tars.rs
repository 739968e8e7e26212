//! The tar in which a guest sends what has changed. No name leads out of the tree or into `.git`, and no
//! bound is passed.

use std::collections::BTreeSet;
use std::time::Duration;

use patchwright_guest::patch::tree::{is_in_git_dir, textual};
use patchwright_sandbox::client::{CollectLimits, CollectedKind};
use patchwright_sandbox::collected::parse;

/// Checks all of it for one input.
pub fn check(data: &[u8]) {
    let limits = CollectLimits { files: 20, bytes: 4096, timeout: Duration::from_secs(1) };
    let Ok(files) = parse(data, limits) else { return };
    assert!(files.len() <= limits.files);
    let names: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(names.len(), files.len(), "a name is there twice");
    let mut bytes = 0;
    for file in &files {
        let path = file.path.as_str();
        assert_eq!(textual(path).as_deref(), Some(path), "a path that is not clean");
        assert!(!path.is_empty() && !path.contains('\0') && !is_in_git_dir(path), "{path:?}");
        let mut above = path;
        while let Some((folder, _)) = above.rsplit_once('/') {
            assert!(!names.contains(folder), "{path:?} is below the file {folder:?}");
            above = folder;
        }
        if let CollectedKind::File { content, .. } = &file.kind {
            bytes += content.len() as u64;
        }
    }
    assert!(bytes <= limits.bytes, "{bytes} bytes");
}
