//! The threads of this process, and the runtime on them.

use std::io;
use std::thread::Builder;
use std::time::Duration;

use parking_lot::Mutex;
use patchwright_base::error::{Failure, Result};
use tokio::runtime::Runtime;

/// Threads of the runtime that do not wait for the disk.
const WORKERS: usize = 2;
/// What the smallest command needs at once: the workers, those that wait for the disk, and the printer.
const LEAST: usize = WORKERS + 4;
/// A delivery's run in Docker needs more than 1 MiB where nothing is optimised. Memory is taken as it is used.
const STACK: usize = 4 << 20;
/// Waits, of a tenth of a millisecond each, until ended threads no longer count.
const MOST_WAITS: u32 = 1_000;

/// The runtime of this process. It is only made where enough threads can be had: tokio panics where it can have none, and
/// what it has started by then may be waited for, for ever.
///
/// # Errors
/// When the machine gives none.
pub(crate) fn runtime() -> Result<Runtime> {
    try_threads().map_err(|err| {
        Failure::machine("cannot start: there are too few threads for it").caused_by(err).hint(
            "raise the limit for processes and threads of this user or container (`ulimit -u`, `TasksMax`, \
             `--pids-limit`), or the one for its memory",
        )
    })?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
        .map_err(|err| Failure::machine(format!("cannot start: {err}")))
}

/// Has as many threads at once as are needed at least.
fn try_threads() -> io::Result<()> {
    let before = threads();
    let gate = Mutex::new(());
    std::thread::scope(|scope| {
        // Opened on every way out, because the scope waits for the threads.
        let _closed = gate.lock();
        (0..LEAST).try_for_each(|_| {
            let thread = Builder::new().stack_size(STACK);
            thread.spawn_scoped(scope, || drop(gate.lock())).map(drop)
        })
    })?;
    // They count for a moment longer than they live.
    for _ in 0..MOST_WAITS {
        if threads() <= before {
            break;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// How many there are, by what the kernel says; none where it does not say.
fn threads() -> usize {
    fs_err::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
