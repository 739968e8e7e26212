//! Secrets in what goes out: our own in any form (`secret.own`), and keys of well-known services
//! (`secret.aws-access-key`, …), which would have to be revoked the moment they are published.
//!
//! Keys of others count only in added lines and outside the operator's allow-listed paths.

use patchwright_base::redact::keys::formats_in;
pub use patchwright_base::redact::keys::{KEY_FORMATS, KeyFormat, find_keys};

use super::content::AddedLines;
use super::{Blobs, Outbound, Unread, Violation};
use patchwright_base::redact::Redactor;
use patchwright_git::tree::{FileChange, Mode};

/// Rule id: one of our own secrets.
pub const OWN: &str = "secret.own";
/// Rule id: the content could not be searched for our own secrets.
pub const UNSEARCHED: &str = "secret.unsearched";

/// Our own secrets anywhere in the new contents of a file, whatever its size, but for what the file had of them before.
pub(super) fn check_own(
    file: &FileChange,
    blobs: &dyn Blobs,
    redactor: &Redactor,
) -> Option<Violation> {
    let new = file.new.filter(|new| new.mode != Mode::Gitlink)?;
    // Only the mode or the path changed. The content was published before.
    if file.old.is_some_and(|old| old.oid == new.oid) {
        return None;
    }
    let after = |take: &mut dyn FnMut(&[u8])| blobs.stream(new.oid, take);
    // A value can have words in it that everybody uses, and so can the file that is changed.
    let hit = match file.old.filter(|old| old.mode != Mode::Gitlink) {
        Some(old) => redactor
            .first_new(&after, &|take| blobs.stream(old.oid, take))
            .or_else(|Unread| redactor.first_in(&after)),
        None => redactor.first_in(&after),
    };
    let (rule, message) = match hit {
        Ok(None) => return None,
        Ok(Some(hit)) => {
            (OWN, format!("line {} contains `{}` ({})", hit.line, hit.secret, hit.encoding))
        }
        Err(Unread) => (UNSEARCHED, "cannot be read to look for our own secrets in it".to_owned()),
    };
    Some(Violation::new(rule, Some(file.path.clone()), message))
}

/// Other people's keys in the added lines.
pub(super) fn check_added(path: &str, added: &AddedLines, out: &mut Vec<Violation>) {
    let mut text = String::new();
    let mut starts = Vec::new();
    // Joined, because some keys span lines: a private key begins with a line that holds no secret.
    for (number, line) in &added.lines {
        starts.push((text.len(), *number));
        text.push_str(line);
        text.push('\n');
    }
    for (format, offset) in find_keys(&text) {
        let after = starts.partition_point(|(start, _)| *start <= offset);
        let line = after.checked_sub(1).and_then(|at| starts.get(at)).map_or(1, |s| s.1);
        let message = format!("line {line} has the form of a {}", format.id);
        let rule = format!("secret.{}", format.id);
        out.push(Violation::new(rule, Some(path.to_owned()), message));
    }
}

/// Everything published besides the blobs: names of files, and the texts in `outbound`.
pub(super) fn check_outbound(
    files: &[FileChange],
    redactor: &Redactor,
    outbound: &[Outbound<'_>],
    out: &mut Vec<Violation>,
) {
    let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let names = names.join("\n");
    for (what, text) in [("name of a file", names.as_str())].iter().chain(outbound) {
        if let Some(hit) = redactor.scan(text.as_bytes()).first() {
            let message = format!("the {what} contains `{}` ({})", hit.secret, hit.encoding);
            out.push(Violation::new(OWN, None, message));
        }
        for format in formats_in(text) {
            let message = format!("the {what} has the form of a {}", format.id);
            out.push(Violation::new(format!("secret.{}", format.id), None, message));
        }
    }
}
