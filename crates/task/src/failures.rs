//! Errors of the forge with what was being done, and those of a full disk as this machine's; that it has room again.

use std::path::Path;

use super::run::Run;
use patchwright_base::error::{Audience, Failure, FailureKind};
use patchwright_forge::ForgeError;
use patchwright_guest::quota;
use patchwright_journal::{Entry, Line};
use patchwright_provider::item::Content;
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

/// What the model of a resumed run is told whose commands had met a full disk, of which it would be careful for the rest of
/// its work. Only the local sandbox has its workspace on the disk of the state folder.
pub(super) fn room_again(run: &Run<'_>, recorded: &[Line]) -> Option<String> {
    let restored = recorded.iter().rposition(|line| matches!(line.entry, Entry::Restored { .. }));
    let since = &recorded[restored.map_or(0, |at| at + 1)..];
    let has_met = |line: &Line| match line.entry.of_agent().1 {
        Entry::CallEnded { output, .. } => {
            let said = Content::texts(&output.content);
            FULL.iter().any(|words| said.contains(words))
        }
        _ => false,
    };
    let is_local = run.world.sandbox.name() == "local";
    let is_told =
        is_local && since.iter().any(has_met) && disk::shortage(&run.world.state).is_none();
    is_told.then(|| "The disk that was full has room again.".to_owned())
}

/// What programs say on a full disk, and the guest that ends them before.
const FULL: [&str; 2] = ["No space left on device", quota::DISK_FULL];
