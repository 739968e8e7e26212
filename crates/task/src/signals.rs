//! What ends a run from outside. SIGINT and SIGTERM: the first one asks the run to stop and save its
//! work, the second one ends the process at once. A terminal that is gone (SIGHUP) ends no run, whose end is written all
//! the same, but ends what serves somebody until it is told to stop. In a fleet also a lost lease, and a worker that ends;
//! in a session somebody who cancels.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use patchwright_base::printing;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A terminal that is gone is a signal to end.
static HANGUP_ENDS: AtomicBool = AtomicBool::new(false);
static RECEIVED: AtomicU8 = AtomicU8::new(0);
/// When the first one came.
static SINCE: OnceLock<Instant> = OnceLock::new();
/// The runner of a workflow job sends them.
static OF_RUNNER: AtomicBool = AtomicBool::new(false);
const HANGUP: u8 = 1;

/// How long after its first signal a job of a workflow may still publish. Of a job that is cancelled, the runner
/// interrupts the process, terminates it after 7.5 seconds, and kills what is left after another 2.5.
pub const RUNNER_LETS_PUBLISH: Duration = Duration::from_secs(5);
/// How long after that signal it may tell on the forge how it ended.
pub const RUNNER_LETS_TELL: Duration = Duration::from_secs(8);
/// When it leaves everything and writes its outputs.
pub const RUNNER_LETS_LIVE: Duration = Duration::from_secs(9);
static TOKEN: OnceLock<CancellationToken> = OnceLock::new();

/// Starts watching (once per process) and returns the token that the first signal cancels.
pub fn watch() -> CancellationToken {
    TOKEN
        .get_or_init(|| {
            let token = CancellationToken::new();
            let kinds = [
                (SignalKind::hangup(), HANGUP),
                (SignalKind::interrupt(), 2),
                (SignalKind::terminate(), 15),
            ];
            for (kind, number) in kinds {
                // `nohup` has said already that it ends nothing.
                if number == HANGUP && is_ignored(number) {
                    continue;
                }
                let token = token.clone();
                // Without a handler the default action ends the process, which is safe as well.
                let Ok(mut stream) = signal(kind) else { continue };
                tokio::spawn(async move {
                    while stream.recv().await.is_some() {
                        if number == HANGUP && !HANGUP_ENDS.load(Ordering::Relaxed) {
                            continue;
                        }
                        let (order, before) = (Ordering::SeqCst, Ordering::SeqCst);
                        match RECEIVED.compare_exchange(0, number, order, before) {
                            Ok(_) => {
                                let _ = SINCE.set(Instant::now());
                                token.cancel();
                            }
                            Err(first) if is_of_runner(first, number) => {}
                            Err(_) => end_now(number),
                        }
                    }
                });
            }
            token
        })
        .clone()
}

/// As [`watch`], in a job of a workflow, whose runner says twice that it is to end.
pub fn watch_runner() -> CancellationToken {
    OF_RUNNER.store(true, Ordering::Relaxed);
    watch()
}

/// The runner sends SIGTERM 7.5 seconds after SIGINT by itself. Nobody has lost patience, and the outputs may not be
/// written yet.
fn is_of_runner(first: u8, second: u8) -> bool {
    OF_RUNNER.load(Ordering::Relaxed) && (first, second) == (2, 15)
}

/// What is left of the time that the runner of a job gives after its first signal; `otherwise` where there is no runner
/// or no signal.
pub fn time_left(runner_lets: Duration, otherwise: Duration) -> Duration {
    match SINCE.get() {
        Some(since) if OF_RUNNER.load(Ordering::Relaxed) => {
            runner_lets.saturating_sub(since.elapsed())
        }
        Some(_) | None => otherwise,
    }
}

/// Whether whoever started this process had it ignore a signal, as `proc_pid_status(5)` says it.
fn is_ignored(number: u8) -> bool {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

/// As [`watch`], for a process that serves until it is told to stop: without its terminal it ends as by SIGTERM.
pub fn watch_serving() -> CancellationToken {
    HANGUP_ENDS.store(true, Ordering::Relaxed);
    watch()
}

/// Resolves when a signal has come and this much time has passed since then.
pub async fn had_time(patience: Duration) {
    let Some(token) = TOKEN.get() else { return std::future::pending().await };
    token.cancelled().await;
    tokio::time::sleep(patience).await;
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
    // A thread of its own writes what was said last, in no time as a rule.
    printing::flush(Some(Duration::from_millis(100)));
    std::process::exit(i32::from(128 + number));
}
