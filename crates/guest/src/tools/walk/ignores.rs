//! The ignore files on the way of a walk.

use std::borrow::Cow;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags};

use super::FIXED;
use crate::git_pattern::as_git;

/// Ignore files in one folder, the last one being the strongest.
pub(super) const IGNORE_FILES: [&[u8]; 2] = [b".gitignore", b".ignore"];
/// Largest ignore file, in bytes; a larger one is not used.
const MAX_IGNORE_FILE: u64 = 1 << 20;

/// The rules of one folder, and of those above it.
pub(super) struct Ignores {
    rules: Gitignore,
    above: Option<Arc<Ignores>>,
}

/// The rules of these ignore files in a folder, over those above it.
pub(super) fn rules(
    fd: &OwnedFd,
    path: &str,
    files: &[&[u8]],
    above: Option<Arc<Ignores>>,
) -> Option<Arc<Ignores>> {
    let mut builder = GitignoreBuilder::new(if path.is_empty() { "/" } else { path });
    let mut has_lines = false;
    for file in files {
        let Ok(content) = small_file(fd, file) else { continue };
        // Editors of Windows put a byte order mark in front, which git passes over.
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&content);
        for line in String::from_utf8_lossy(content).lines() {
            // A line that is no valid pattern is skipped, as git does.
            let _ = builder.add_line(None, &as_git(line));
            has_lines = true;
        }
    }
    let built = if has_lines { builder.build().ok() } else { None };
    match built.filter(|rules| !rules.is_empty()) {
        Some(rules) => Some(Arc::new(Ignores { rules, above })),
        None => above,
    }
}

fn small_file(fd: &OwnedFd, name: &[u8]) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | FIXED;
    let file = File::from(rustix::fs::openat(fd, name, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > MAX_IGNORE_FILE {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut content = Vec::new();
    file.take(MAX_IGNORE_FILE).read_to_end(&mut content)?;
    Ok(content)
}

/// What ignore files say of a name in `folder` (as in [`rules`]): the innermost one that has an opinion
/// decides.
pub(super) fn is_ignored(
    ignores: Option<&Ignores>,
    folder: &str,
    name: &CStr,
    is_dir: bool,
) -> bool {
    let mut level = ignores;
    if level.is_none() {
        return false;
    }
    let name: Cow<'_, str> = name.to_string_lossy();
    let path = format!("{folder}/{name}");
    while let Some(ignores) = level {
        match ignores.rules.matched(Path::new(&path), is_dir) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => level = ignores.above.as_deref(),
        }
    }
    false
}
