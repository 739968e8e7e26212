//! Waits for servers that do not answer, or that are asked too often, said to people when they last. Requests are made far
//! below whoever talks to people, and many of one process wait for the same server: it is said once for each server, until
//! it answers.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::ui::Ui;

/// A wait of this length, or so many attempts in vain, is worth a line: most trouble is over before.
pub const NOTICEABLE: Duration = Duration::from_secs(5);
pub const ATTEMPTS: u32 = 3;

static UI: OnceLock<Ui> = OnceLock::new();
/// Servers that are waited for, as was said.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
/// There are some.
static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Has waits from now on told by `ui`. Without it nobody is told.
pub fn tell(ui: Ui) {
    let _ = UI.set(ui);
}

/// Says what is waited for, and until when, unless that was said of this server and it has not answered since.
pub fn begun(server: &str, words: impl FnOnce() -> String) {
    let Some(ui) = UI.get() else { return };
    if SAID.lock().insert(server.to_owned()) {
        IS_ANY.store(true, Ordering::Relaxed);
        ui.warn(&words());
    }
}

/// The server answers.
pub fn over(server: &str) {
    if !IS_ANY.load(Ordering::Relaxed) {
        return;
    }
    let mut said = SAID.lock();
    if said.remove(server)
        && let Some(ui) = UI.get()
    {
        ui.say(&format!("{server} answers again"));
    }
    IS_ANY.store(!said.is_empty(), Ordering::Relaxed);
}

/// A wait, for people: `40 s`, `5 minutes`.
pub fn in_words(wait: Duration) -> String {
    match wait.as_secs() {
        seconds @ 0..120 => format!("{} s", seconds.max(1)),
        seconds => format!("{} minutes", seconds.div_ceil(60)),
    }
}
