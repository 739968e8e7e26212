//! Errors of the forge with what was being done, and those of a full disk as this machine's.

use std::path::Path;

use patchwright_base::error::{Audience, Failure, FailureKind};
use patchwright_forge::ForgeError;
use patchwright_sandbox::disk;

/// The failure for an error of the forge: what was being done in front, and the forge's words as the cause.
pub(super) fn of_forge(doing: impl Into<String>, err: ForgeError) -> Failure {
    let cause = anyhow::anyhow!("{err}");
    let failure = Failure::from(err);
    Failure { message: doing.into(), cause: Some(cause), ..failure }
}

/// A failure that comes from the full disk of the state folder is one of this machine, wherever it was met first: the next
/// step is to make room, and no other engine would help.
pub(super) fn of_disk(failure: Failure, state: &Path) -> Failure {
    let said = failure.cause.iter().flat_map(|cause| cause.chain()).map(ToString::to_string);
    let said: Vec<String> = said.chain([failure.message.clone()]).collect();
    if !disk::is_to_blame(&said.join("\n"), state) {
        return failure;
    }
    let mut hints = failure.hints;
    // Where it was met. What else was to be tried is about another cause.
    hints.retain(|hint| hint.audience == Audience::ThisMachine);
    hints.insert(0, format!("{}, then run the same command again", disk::MAKE_ROOM).into());
    Failure { kind: FailureKind::Machine, hints, ..failure }
}
