//! A patch as a person gets it: in front of it stands what it does not have. Git passes over such lines.

use std::fmt::Write as _;

use patchwright_base::text;
use patchwright_git::diff::OmittedFile;

/// Files that are named.
const MAX_NAMED: usize = 1000;

/// The patch, with the files that are not in it named before it.
pub fn patch(left_out: &[OmittedFile], patch: &[u8]) -> Vec<u8> {
    if left_out.is_empty() {
        return patch.to_vec();
    }
    let mut whole = String::from("Not in this patch, because it would be too large:\n");
    for left in left_out.iter().take(MAX_NAMED) {
        let _ = writeln!(whole, "  {} ({} bytes)", text::line(&left.path), left.size);
    }
    if let more @ 1.. = left_out.len().saturating_sub(MAX_NAMED) {
        let _ = writeln!(whole, "  and {more} more");
    }
    whole.push('\n');
    let mut whole = whole.into_bytes();
    whole.extend_from_slice(patch);
    whole
}
