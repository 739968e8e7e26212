//! Files that make an ordinary folder a bare git repository. Whoever runs git in such a folder, or whose prompt or editor
//! does, runs what its `config` names (`core.fsmonitor`, `core.sshCommand`, hooks). Git itself takes a folder for a
//! repository by three things (`is_git_directory` in its `setup.c`): a valid `HEAD`, and `objects` and `refs`, which a
//! file `commondir` can lead to anywhere. So `HEAD` decides here, and `config` for a repository that is there already.

use super::Blobs;
use patchwright_git::tree::{FileChange, Mode};

/// The rule of the flag on such a file.
pub const RULE: &str = "path.git-folder";

/// What only git has in the `[core]` of a configuration, in small letters: the version that it writes into each, and the
/// keys that run commands or lead elsewhere.
const KEYS: &[&str] =
    &["repositoryformatversion", "fsmonitor", "hookspath", "sshcommand", "worktree", "gitproxy"];
/// Sections of git alone that do the same.
const SECTIONS: &[&str] =
    &["[alias", "[credential", "[diff \"", "[filter \"", "[gpg", "[include", "[merge \""];

/// Whether a file of this folded path becomes a part of one that git obeys.
pub(super) fn is_part(folded: &str, file: &FileChange, blobs: &dyn Blobs) -> bool {
    let name = folded.rsplit('/').next().unwrap_or_default();
    let Some(new) = file.new.filter(|_| matches!(name, "head" | "config")) else { return false };
    // What we cannot read, git may.
    let Some(content) = blobs.read(new.oid) else { return true };
    let text = String::from_utf8_lossy(&content);
    if name == "config" {
        return new.mode != Mode::Symlink && is_config(&text.to_lowercase());
    }
    // As a link it leads to the branch.
    match new.mode {
        Mode::Symlink => text.starts_with("refs/"),
        Mode::File | Mode::Executable => is_head(&text),
        Mode::Gitlink => false,
    }
}

/// `ref: refs/heads/main`, or the id of a commit.
fn is_head(text: &str) -> bool {
    let named = text.strip_prefix("ref:").is_some_and(|to| to.trim_start().starts_with("refs/"));
    let is_id = |word: &str| {
        matches!(word.len(), 40 | 64) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    named || text.split_whitespace().next().is_some_and(is_id)
}

fn is_config(text: &str) -> bool {
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    text.contains("[core") && has(KEYS) || has(SECTIONS)
}
