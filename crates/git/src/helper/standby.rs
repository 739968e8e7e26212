//! A helper that is started ahead of its job, so that whoever needs it does not wait for it. It has read nothing before it
//! gets its job, and ends when this process does, with which its input ends.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::{Condvar, Mutex};

use super::process::Helper;

static READY: Mutex<StandbyHelper> = Mutex::new(StandbyHelper::Nothing);
static CHANGED: Condvar = Condvar::new();

/// The one that is kept ready.
enum StandbyHelper {
    Nothing,
    Coming,
    There(Helper),
}

/// Has one started, unless there is one. Returns at once; where it cannot be started, the job says so.
pub(super) fn make() {
    let mut ready = READY.lock();
    if matches!(*ready, StandbyHelper::Nothing)
        && starter().is_some_and(|starter| starter.send(()).is_ok())
    {
        *ready = StandbyHelper::Coming;
    }
}

/// The one that was made ready; `None` when nobody has asked for one, or it did not come to anything.
pub(super) fn take() -> Option<Helper> {
    let mut ready = READY.lock();
    while matches!(*ready, StandbyHelper::Coming) {
        CHANGED.wait(&mut ready);
    }
    match std::mem::replace(&mut *ready, StandbyHelper::Nothing) {
        StandbyHelper::There(helper) => helper.if_alive(),
        StandbyHelper::Nothing | StandbyHelper::Coming => None,
    }
}

/// The thread that starts them. It never ends: a helper that has its job is killed by the kernel at the end of the
/// thread that has started it, and threads that are lent for a while do end.
fn starter() -> Option<&'static Sender<()>> {
    static STARTER: OnceLock<Option<Sender<()>>> = OnceLock::new();
    let start = || {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new().name("git-helpers".to_owned());
        thread.spawn(move || work(&receiver)).ok().map(|_| sender)
    };
    STARTER.get_or_init(start).as_ref()
}

fn work(asked: &Receiver<()>) {
    while let Ok(()) = asked.recv() {
        let started = Helper::start().map_or(StandbyHelper::Nothing, StandbyHelper::There);
        *READY.lock() = started;
        CHANGED.notify_all();
    }
}
