//! Git LFS: which files of a commit are pointers, and where the contents that they stand for are kept.
//!
//! A pointer is a small text in the place of a file that `.gitattributes` gives to LFS. Contents lie beside the
//! objects of our repository, by their SHA-256, and are fetched by the forge; nothing here talks to a server. What a
//! repository says about servers (`.lfsconfig`) is not read.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use git2::{Repository, Tree};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::attributes::Attributes;
use super::repo::Repo;
use super::{GitError, Oid};

/// Longest pointer.
const MAX_POINTER: usize = 1024;
/// Names of one commit that are looked at.
const MAX_NAMES: usize = 4_000_000;

/// What a pointer stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pointer {
    pub sha256: String,
    pub size: u64,
}

/// A file of a commit that is a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointerFile {
    pub path: String,
    /// The blob of the pointer.
    pub blob: Oid,
    pub pointer: Pointer,
}

impl Pointer {
    /// Reads one as git-lfs writes it; `None` for anything else.
    pub fn parse(content: &[u8]) -> Option<Pointer> {
        let text = std::str::from_utf8(content).ok()?;
        let mut lines = text.lines();
        let version = lines.next()?.strip_prefix("version ")?;
        if !["https://git-lfs.github.com/spec/v1", "https://hawser.github.com/spec/v1"]
            .contains(&version)
        {
            return None;
        }
        let (mut sha256, mut size) = (None, None);
        for line in lines {
            match line.split_once(' ')? {
                ("oid", value) => sha256 = value.strip_prefix("sha256:"),
                ("size", value) => size = value.parse().ok(),
                // Extensions change the content in ways that only their programs know.
                (key, _) if key.starts_with("ext-") => return None,
                _ => {}
            }
        }
        let sha256 = sha256.filter(|hex| is_digest(hex))?;
        Some(Pointer { sha256: sha256.to_owned(), size: size? })
    }

    /// The pointer that git-lfs writes for a content.
    pub(super) fn text_of(content: &[u8]) -> String {
        let (sha256, size) = (hex::encode(Sha256::digest(content)), content.len());
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n")
    }

    /// Where our repository keeps the content.
    pub fn place(&self, repository: &Path) -> PathBuf {
        let hex = &self.sha256;
        repository.join("lfs").join(&hex[..2]).join(&hex[2..4]).join(hex)
    }
}

fn is_digest(hex: &str) -> bool {
    hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// All blobs of a tree. Each folder is read once, however many names it has.
pub(super) fn blobs_of(git: &Repository, tree: &Tree<'_>) -> Result<HashSet<git2::Oid>, GitError> {
    let (mut blobs, mut folders, mut left) = (HashSet::new(), HashSet::new(), vec![tree.id()]);
    while let Some(id) = left.pop() {
        if !folders.insert(id) {
            continue;
        }
        for entry in &git.find_tree(id)? {
            match entry.filemode() {
                0o040_000 => left.push(entry.id()),
                0o160_000 => {}
                _ => {
                    blobs.insert(entry.id());
                }
            }
        }
    }
    Ok(blobs)
}

/// Where a tree has this blob as a file.
pub(super) fn paths_of(tree: &Tree<'_>, blob: git2::Oid) -> Result<Vec<String>, GitError> {
    let (mut paths, mut names) = (Vec::new(), 0);
    let walked = tree.walk(git2::TreeWalkMode::PreOrder, |folder, entry| {
        names += 1;
        if entry.id() == blob
            && let Ok(name) = entry.name()
        {
            paths.push(format!("{folder}{name}"));
        }
        if names < MAX_NAMES { git2::TreeWalkResult::Ok } else { git2::TreeWalkResult::Abort }
    });
    walked.or_else(|error| if names >= MAX_NAMES { Ok(()) } else { Err(error) })?;
    Ok(paths)
}

/// The pointers of a commit, at most `most`, and whether there are more.
///
/// # Errors
/// When the commit cannot be read.
pub fn of_commit(
    repo: &Repo,
    commit: Oid,
    most: usize,
) -> Result<(Vec<PointerFile>, bool), GitError> {
    let git = repo.git()?;
    let tree = git.find_commit(commit.0)?.tree()?;
    let odb = git.odb()?;
    let mut candidates = Vec::new();
    let mut names = 0;
    let walked = tree.walk(git2::TreeWalkMode::PreOrder, |folder, entry| {
        names += 1;
        if matches!(entry.filemode(), 0o100_644 | 0o100_755)
            && let Ok(name) = entry.name()
        {
            candidates.push((format!("{folder}{name}"), entry.id()));
        }
        if names < MAX_NAMES { git2::TreeWalkResult::Ok } else { git2::TreeWalkResult::Abort }
    });
    walked.or_else(|error| if names >= MAX_NAMES { Ok(()) } else { Err(error) })?;
    let mut attributes = Attributes::new(&git, &tree);
    let mut found = Vec::new();
    for (path, id) in candidates {
        // The attributes are cheaper to ask than the size of an object.
        if !attributes.is_lfs(&path)? || odb.read_header(id)?.0 > MAX_POINTER {
            continue;
        }
        let Some(pointer) = Pointer::parse(odb.read(id)?.data()) else { continue };
        if found.len() >= most {
            return Ok((found, true));
        }
        found.push(PointerFile { path, blob: Oid(id), pointer });
    }
    Ok((found, false))
}

#[cfg(test)]
mod tests {
    use crate::lfs::Pointer;

    #[test]
    fn pointers_are_what_git_lfs_writes_and_nothing_else() {
        let hex = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        let text = |version: &str, oid: &str, size: &str| {
            format!(
                "version https://git-lfs.github.com/spec/{version}\noid sha256:{oid}\nsize {size}\n"
            )
        };
        let good = Pointer { sha256: hex.to_owned(), size: 12345 };
        assert_eq!(Pointer::parse(text("v1", hex, "12345").as_bytes()), Some(good));
        for other in [
            text("v9", hex, "12345"),
            text("v1", &hex[1..], "12345"),
            text("v1", &hex.to_uppercase(), "12345"),
            text("v1", "../../../../../../../../../../../../../../../../../../../../etc/pass", "1"),
            text("v1", hex, "-1"),
            text("v1", hex, "many"),
            format!("{}ext-0-foo sha256:{hex}\n", text("v1", hex, "1")),
            String::new(),
            "hello\n".to_owned(),
        ] {
            assert_eq!(Pointer::parse(other.as_bytes()), None, "{other}");
        }
    }
}
