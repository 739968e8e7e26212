//! How much one change may be: a person has to read it.

use super::{Policy, Violation};
use patchwright_base::text;
use patchwright_git::tree::{Change, FileChange, OverLimit};

/// Of a change that is too large, the files that have this part of it or more are named.
const PART_OF_BYTES: u64 = 4;

/// What of the limits on size a change does not keep, in words; nothing when it keeps them all.
pub fn problems(policy: &Policy, change: &Change) -> Vec<String> {
    let mut violations = Vec::new();
    check(policy, &change.files.iter().collect::<Vec<_>>(), change.beyond, &mut violations);
    violations.into_iter().map(|violation| violation.message).collect()
}

/// The files that most of the bytes are in, to follow their number.
fn largest(files: &[&FileChange], bytes: u64) -> String {
    let sized = files.iter().filter_map(|file| Some((file.new?.size, file.path.as_str())));
    let mut large: Vec<(u64, &str)> =
        sized.filter(|(size, _)| *size >= bytes / PART_OF_BYTES).collect();
    large.sort_unstable_by(|one, other| other.cmp(one));
    let named: Vec<String> = large
        .iter()
        .map(|(size, path)| format!("{size} of them in {}", text::code(path)))
        .collect();
    named.iter().fold(String::new(), |before, one| format!("{before}, {one}"))
}

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
        let message = format!(
            "the changed files have {bytes} bytes{}; limit {}",
            largest(files, bytes),
            policy.max_bytes
        );
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
