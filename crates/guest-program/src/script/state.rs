//! What the functions that a script calls share: calls that wait for their results, timers, stored
//! values, rejected promises, and the bounds on all of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::{Function, Persistent};

use patchwright_guest::script::lines::{FromScript, Limits};

/// Longest text of one `text()`, in bytes; the middle of longer ones is left out.
const MAX_TEXT: usize = 256 << 10;

/// Timers that may be set at the same time.
pub(super) const MAX_TIMERS: usize = 1000;

pub(super) type Saved = Persistent<Function<'static>>;

/// How long the script has computed.
#[derive(Debug)]
pub(super) struct Busy {
    limit: Duration,
    used: Cell<Duration>,
    since: Cell<Option<Instant>>,
    over: Cell<bool>,
}

impl Busy {
    pub(super) fn new(limit: Duration) -> Busy {
        Busy { limit, used: Cell::default(), since: Cell::default(), over: Cell::default() }
    }

    pub(super) fn begin(&self) {
        self.since.set(Some(Instant::now()));
    }

    pub(super) fn end(&self) {
        if let Some(since) = self.since.take() {
            self.used.set(self.used.get() + since.elapsed());
        }
    }

    /// True from the moment on in which the limit is reached.
    pub(super) fn is_over(&self) -> bool {
        let now = self.since.get().map_or(Duration::ZERO, |since| since.elapsed());
        if self.used.get() + now > self.limit {
            self.over.set(true);
        }
        self.over.get()
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }
}

/// Shared by the script's functions.
pub(super) struct State {
    out: RefCell<io::BufWriter<io::Stdout>>,
    pub(super) limits: Limits,
    pub(super) busy: Rc<Busy>,
    next: Cell<u64>,
    calls: Cell<usize>,
    /// Resolve and reject of calls that wait.
    pub(super) waiting: RefCell<HashMap<u64, (Saved, Saved)>>,
    /// By when they are due.
    pub(super) timers: RefCell<BTreeMap<(Instant, u64), Saved>>,
    pub(super) stored: RefCell<BTreeMap<String, String>>,
    /// Promises that were rejected while nobody listened, by identity.
    pub(super) rejected: RefCell<Vec<(u64, String)>>,
    shown: Cell<usize>,
    left_out: Cell<usize>,
    images: Cell<usize>,
    /// The script asked to end, or the host is gone.
    pub(super) exited: Cell<bool>,
}

impl State {
    pub(super) fn new(limits: Limits, busy: Rc<Busy>, stored: BTreeMap<String, String>) -> State {
        State {
            out: RefCell::new(io::BufWriter::new(io::stdout())),
            limits,
            busy,
            next: Cell::new(1),
            calls: Cell::default(),
            waiting: RefCell::default(),
            timers: RefCell::default(),
            stored: RefCell::new(stored),
            rejected: RefCell::default(),
            shown: Cell::default(),
            left_out: Cell::default(),
            images: Cell::default(),
            exited: Cell::default(),
        }
    }

    /// Sends a line. A host that is gone ends the script.
    pub(super) fn send(&self, line: &FromScript) {
        let mut out = self.out.borrow_mut();
        let sent = serde_json::to_writer(&mut *out, line)
            .map_err(io::Error::from)
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush());
        if sent.is_err() {
            self.exited.set(true);
        }
    }

    pub(super) fn id(&self) -> u64 {
        let id = self.next.get();
        self.next.set(id + 1);
        id
    }

    /// Counts a call; false when there were too many.
    pub(super) fn may_call(&self) -> bool {
        self.calls.set(self.calls.get() + 1);
        self.calls.get() <= self.limits.calls
    }

    /// Shows a text, as much of it as there is room for.
    pub(super) fn show(&self, text: &str) {
        if self.exited.get() {
            return;
        }
        let room = self.limits.text.saturating_sub(self.shown.get()).min(MAX_TEXT);
        if text.len() <= room {
            self.shown.set(self.shown.get() + text.len());
            return self.send(&FromScript::Text(text.to_owned()));
        }
        if room < 1024 {
            self.left_out.set(self.left_out.get() + text.len());
            return;
        }
        let head = &text[..text.floor_char_boundary(room / 2)];
        let tail = &text[text.ceil_char_boundary(text.len() - room / 2)..];
        let missing = text.len() - head.len() - tail.len();
        self.shown.set(self.shown.get() + head.len() + tail.len());
        self.send(&FromScript::Text(format!(
            "{head}\n[… {missing} bytes left out here …]\n{tail}"
        )));
    }

    /// Shows a picture; false when there were too many.
    pub(super) fn show_image(&self, url: String) -> bool {
        self.images.set(self.images.get() + 1);
        if self.images.get() > self.limits.images {
            return false;
        }
        if !self.exited.get() {
            self.send(&FromScript::Image(url));
        }
        true
    }

    /// Says that it is over.
    pub(super) fn finish(&self, error: Option<String>) {
        let left_out = self.left_out.get();
        if left_out > 0 {
            let note = format!("[… {left_out} bytes of later texts left out …]");
            self.send(&FromScript::Text(note));
        }
        self.send(&FromScript::Done { error });
    }
}
