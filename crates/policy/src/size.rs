//! How much one change may be: a person has to read it.

use super::{Policy, Violation};
use patchwright_git::tree::{FileChange, OverLimit};

/// Violations `size.files` and `size.bytes`, over the files that would be published and those `beyond`,
/// which were too many to be read. Some of these are too many, whatever the limits.
pub(super) fn check(
    policy: &Policy,
    files: &[&FileChange],
    beyond: OverLimit,
    violations: &mut Vec<Violation>,
) {
    let count = beyond.files.saturating_add(files.len() as u64);
    let is_too_many = count > policy.max_files as u64;
    if is_too_many {
        let message = format!("the change has {count} files; the limit is {}", policy.max_files);
        violations.push(Violation::new("size.files", None, message));
    }
    let changed = files.iter().filter(|f| f.new.map(|n| n.oid) != f.old.map(|o| o.oid));
    let bytes = changed.filter_map(|file| file.new).map(|new| new.size).sum::<u64>();
    let bytes = bytes.saturating_add(beyond.bytes);
    let is_too_large = bytes > policy.max_bytes;
    if is_too_large {
        let message = format!("the changed files have {bytes} bytes; limit {}", policy.max_bytes);
        violations.push(Violation::new("size.bytes", None, message));
    }
    if !is_too_many && !is_too_large && !beyond.is_nothing() {
        let message = format!(
            "{} files of the change are more than can be taken out of a sandbox",
            beyond.files
        );
        violations.push(Violation::new("size.files", None, message));
    }
}
