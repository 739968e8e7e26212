//! How much one change may be: a person has to read it.

use super::{Policy, Violation};
use crate::git::tree::FileChange;

/// Violations `size.files` and `size.bytes`, over the files that would be published.
pub(super) fn check(policy: &Policy, files: &[&FileChange], violations: &mut Vec<Violation>) {
    if files.len() > policy.max_files {
        let message =
            format!("the change has {} files; the limit is {}", files.len(), policy.max_files);
        violations.push(Violation::new("size.files", None, message));
    }
    let changed = files.iter().filter(|f| f.new.map(|n| n.oid) != f.old.map(|o| o.oid));
    let bytes: u64 = changed.filter_map(|file| file.new).map(|new| new.size).sum();
    if bytes > policy.max_bytes {
        let message = format!("the changed files have {bytes} bytes; limit {}", policy.max_bytes);
        violations.push(Violation::new("size.bytes", None, message));
    }
}
