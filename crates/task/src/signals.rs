//! What ends a run from outside. SIGINT and SIGTERM: the first one asks the run to stop and save its
//! work, the second one ends the process at once. In a fleet also a lost lease, and a worker that ends;
//! in a session somebody who cancels.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

static RECEIVED: AtomicU8 = AtomicU8::new(0);
static TOKEN: OnceLock<CancellationToken> = OnceLock::new();

/// Starts watching (once per process) and returns the token that the first signal cancels.
pub fn watch() -> CancellationToken {
    TOKEN
        .get_or_init(|| {
            let token = CancellationToken::new();
            for (kind, number) in [(SignalKind::interrupt(), 2), (SignalKind::terminate(), 15)] {
                let token = token.clone();
                // Without a handler the default action ends the process, which is safe as well.
                let Ok(mut stream) = signal(kind) else { continue };
                tokio::spawn(async move {
                    while stream.recv().await.is_some() {
                        if RECEIVED.swap(number, Ordering::SeqCst) != 0 {
                            end_now(number);
                        }
                        token.cancel();
                    }
                });
            }
            token
        })
        .clone()
}

/// Why a run was cancelled, when that was not a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Another worker has taken its job over: nothing more may be written.
    Lost,
    /// Whoever asked for it wants no more of it: the work so far is kept.
    Withdrawn,
    /// Its worker is ending: the work so far is kept, and the job goes back into the queue.
    Drained,
}

/// Holds the cause once a run's token is cancelled for another reason than a signal. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<OnceLock<Cause>>);

impl Cancellation {
    /// Cancels for a cause. The first cause stays.
    pub fn cancel(&self, token: &CancellationToken, cause: Cause) {
        let _ = self.0.set(cause);
        token.cancel();
    }

    pub fn cause(&self) -> Option<Cause> {
        self.0.get().copied()
    }
}

/// The signal that stopped the run, when one did.
pub fn received(token: &CancellationToken) -> Option<u8> {
    let number = RECEIVED.load(Ordering::SeqCst);
    (token.is_cancelled() && number != 0).then_some(number)
}

/// The second signal: exit at once. The sweep of the next run removes what is left behind.
#[expect(clippy::exit, reason = "a second signal must not wait for anything")]
fn end_now(number: u8) {
    std::process::exit(i32::from(128 + number));
}
