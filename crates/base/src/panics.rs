//! Panics, which are defects of this program, as lines of the log: in its format, and without secrets. The standard hook
//! writes plain text, in the middle of a log of JSON lines as well, and may write what the panic's words hold.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};

use crate::ui::Ui;

/// Has every panic from now on told by `ui`.
pub fn tell(ui: Ui) {
    panic::set_hook(Box::new(move |info| ui.failure_now(&words(info, &Backtrace::capture()))));
}

/// Thread, place and message; and the frames, when `RUST_BACKTRACE` asks for them.
fn words(info: &PanicHookInfo<'_>, frames: &Backtrace) -> String {
    let thread = std::thread::current();
    let place = info.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let message = info.payload_as_str().unwrap_or("no words");
    let thread = thread.name().unwrap_or("without a name");
    let said = format!("error: thread `{thread}` panicked{place}: {message}");
    match frames.status() {
        BacktraceStatus::Captured => format!("{said}\n{frames}"),
        _ => said,
    }
}
