//! Our own threads, resolved when what they were about is gone. Never a thread that a person took
//! part in, and never one whose lines are still there.

use super::publish::Work;
use patchwright_base::error::Result;
use patchwright_forge::Thread;
use patchwright_review::incremental::FindingState;

/// Resolves them; returns how many. The first error is printed.
pub(super) async fn resolve(work: &Work<'_>) -> Result<usize> {
    let outbox = &work.outbox;
    if !outbox.config.review.resolve_threads {
        return Ok(0);
    }
    let mut resolved = 0;
    for (thread, fingerprint) in work.earlier.ours() {
        let Some(id) = thread.id.as_deref().filter(|_| is_done(work, thread, fingerprint)) else {
            continue;
        };
        outbox.intends("resolve", &id)?;
        match outbox.forge.resolve_thread(outbox.repository, id).await {
            Ok(true) => {
                resolved += 1;
                outbox.did("resolve", &id)?;
            }
            Ok(false) => {
                outbox.ui.say(
                    "a thread of ours could not be resolved; an app's token needs `contents: write` \
                     for it",
                );
                break;
            }
            Err(err) => {
                outbox.ui.warn(&format!("a thread of ours could not be resolved: {err}"));
                break;
            }
        }
    }
    Ok(resolved)
}

fn is_done(work: &Work<'_>, thread: &Thread, fingerprint: &str) -> bool {
    let is_fixed = work
        .settled
        .findings
        .iter()
        .any(|known| known.fingerprint == fingerprint && known.fate == FindingState::Fixed);
    // With a person's token, what that person wrote has our account and not our seal.
    let is_alone =
        thread.comments.iter().all(|comment| comment.ours || comment.author.is_machine());
    is_fixed && is_alone && thread.outdated && !thread.resolved && thread.may_resolve
}
