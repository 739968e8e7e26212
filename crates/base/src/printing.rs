//! The thread that writes to stdout and stderr, so that a reader that is slow, or has stopped reading, holds up no run, no
//! deadline and no signal. What is printed is written in its order; [`flush`] waits until it is.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::ui::{above, keep_loss};

/// Bytes that wait for a reader. What is printed beyond them is lost, and stdout's loss is told at the end.
const MAX_WAITING: usize = 64 << 20;
/// Bytes of a document that wait: whoever prints one waits for its reader.
const DOCUMENT_WAITING: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

struct Piece {
    stream: Stream,
    text: String,
}

#[derive(Default)]
struct Waiting {
    bytes: Mutex<usize>,
    /// Something was written.
    written: Condvar,
}

static WAITING: OnceLock<&'static Waiting> = OnceLock::new();
/// Nobody waits for the reader any more.
static ABANDONED: AtomicBool = AtomicBool::new(false);
static QUEUE: OnceLock<Option<Sender<Piece>>> = OnceLock::new();

/// Prints soon. Never waits.
pub(crate) fn print(stream: Stream, text: String) {
    let waiting = waiting();
    let mut bytes = waiting.bytes.lock();
    if *bytes > 0 && bytes.saturating_add(text.len()) > MAX_WAITING {
        if stream == Stream::Out {
            keep_loss(Err(io::Error::other("nobody reads it")));
        }
        return;
    }
    *bytes += text.len();
    drop(bytes);
    hand_over(Piece { stream, text });
}

/// Prints on stdout, and waits while much of it waits.
pub(crate) fn print_document(text: String) {
    let waiting = waiting();
    let mut bytes = waiting.bytes.lock();
    while *bytes > DOCUMENT_WAITING {
        waiting.written.wait(&mut bytes);
    }
    *bytes += text.len();
    drop(bytes);
    hand_over(Piece { stream: Stream::Out, text });
}

/// Waits until everything that was printed is written, at most for as long as `patience` says. Whether it is.
pub fn flush(patience: Option<Duration>) -> bool {
    let Some(waiting) = WAITING.get() else { return true };
    let until = patience.map(|patience| Instant::now() + patience);
    let mut bytes = waiting.bytes.lock();
    while *bytes > 0 && !ABANDONED.load(Ordering::Relaxed) {
        match until {
            Some(until) if waiting.written.wait_until(&mut bytes, until).timed_out() => break,
            Some(_) => {}
            None => waiting.written.wait(&mut bytes),
        }
    }
    *bytes == 0
}

/// What still waits may be lost: its reader has had its time.
pub fn abandon() {
    ABANDONED.store(true, Ordering::Relaxed);
}

fn waiting() -> &'static Waiting {
    WAITING.get_or_init(|| Box::leak(Box::default()))
}

fn hand_over(piece: Piece) {
    let queue = QUEUE.get_or_init(|| {
        let (queue, pieces) = channel::<Piece>();
        let thread = std::thread::Builder::new().name("printer".to_owned());
        let started = thread.spawn(move || pieces.into_iter().for_each(write));
        started.is_ok().then_some(queue)
    });
    let left = match queue {
        Some(queue) => queue.send(piece).err().map(|err| err.0),
        None => Some(piece),
    };
    // There is no thread.
    if let Some(piece) = left {
        write(piece);
    }
}

fn write(piece: Piece) {
    let Piece { stream, text } = piece;
    above(|| match stream {
        Stream::Out => {
            let mut stdout = io::stdout().lock();
            keep_loss(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
        }
        // A closed stderr must not end the run.
        Stream::Err => {
            let _ = io::stderr().lock().write_all(text.as_bytes());
        }
    });
    let waiting = waiting();
    let mut bytes = waiting.bytes.lock();
    *bytes = bytes.saturating_sub(text.len());
    waiting.written.notify_all();
}
