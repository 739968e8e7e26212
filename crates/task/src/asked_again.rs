//! A finished run whose model is asked once more, for other words: a title, a verdict. The journal has a note with what it
//! had said before, so that a resumed run does not ask again.

use patchwright_agent::{StopKind, Stopped};
use patchwright_journal::{Entry, Line};

/// The final message before the model was asked, when it was. `mark` begins the note.
pub(super) fn said_before<'a>(recorded: &'a [Line], mark: &str) -> Option<&'a str> {
    recorded.windows(2).find_map(|pair| match (&pair[0].entry, &pair[1].entry) {
        (Entry::Note { text }, Entry::Added { .. }) => text.strip_prefix(mark),
        _ => None,
    })
}

/// The run was finished before the question, so it is finished however the answer ended, unless the run itself was
/// stopped meanwhile.
pub(super) fn stays_finished(stopped: &mut Stopped) {
    let is_over = matches!(
        stopped.reason,
        StopKind::Cancelled | StopKind::Machine(_) | StopKind::Sandbox(_) | StopKind::NewSandbox
    );
    if !is_over {
        stopped.reason = StopKind::Finished;
    }
}
