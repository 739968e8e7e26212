//! The log for developers, and what keeps this process's memory private.
//!
//! The log goes to stderr, is off unless asked for, and passes every line through the redactor. With
//! `PATCHWRIGHT_LOG_FORMAT=json` all that stderr gets is one JSON object a line, so that programs can
//! read it.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::printing::{self, Stream};
use crate::redact::Redactor;

static JSON: AtomicBool = AtomicBool::new(false);

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    /// One object a line, with `timestamp`, `level`, `target`, `message` and the fields of the event.
    Json,
}

/// Somebody else who gets the events of the log.
pub type OtherLog = Box<dyn Layer<Registry> + Send + Sync>;

/// The level of what goes to another log, where `RUST_LOG` says nothing.
const OTHER_LEVEL: &str = "info";

/// Whatever is printed on stderr from now on looks like this. Before anything else is said, so that a reader of JSON lines
/// gets nothing but these.
pub fn set_format(format: Format) {
    JSON.store(format == Format::Json, Ordering::Relaxed);
}

/// Starts the log at `level`, or as `RUST_LOG` says; nothing goes to stderr when neither is given. It looks as
/// [`set_format`] says.
pub fn start(
    level: Option<&str>,
    rust_log: Option<&str>,
    redactor: &'static Redactor,
    other: Option<OtherLog>,
) {
    let format = if is_json() { Format::Json } else { Format::Text };
    let filter = |directives: &str| EnvFilter::try_new(directives).ok();
    let mut layers: Vec<OtherLog> = Vec::new();
    if let Some(filter) = rust_log.or(level).and_then(filter) {
        let log = fmt::layer().with_ansi(false).with_writer(RedactedStderr { redactor });
        layers.push(match format {
            Format::Text => log.with_filter(filter).boxed(),
            Format::Json => {
                let log = log.json().flatten_event(true).with_current_span(false);
                log.with_filter(filter).boxed()
            }
        });
    }
    if let (Some(other), Some(filter)) = (other, filter(rust_log.unwrap_or(OTHER_LEVEL))) {
        layers.push(other.with_filter(filter).boxed());
    }
    if !layers.is_empty() {
        // A second start (in tests) keeps the first log.
        let _ = tracing_subscriber::registry().with(layers).try_init();
    }
}

/// Whether everything on stderr has to be JSON.
pub fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// No core dumps, and no other process of this user may read our memory: it holds the keys.
pub fn protect_process() {
    use rustix::process::{DumpableBehavior, Resource, Rlimit};
    let _ =
        rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

#[derive(Clone)]
struct RedactedStderr {
    redactor: &'static Redactor,
}

impl<'a> MakeWriter<'a> for RedactedStderr {
    type Writer = RedactedStderr;

    fn make_writer(&'a self) -> RedactedStderr {
        self.clone()
    }
}

impl Write for RedactedStderr {
    /// The formatter hands over one whole event at a time, so a secret is never split over writes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = self.redactor.redact(&String::from_utf8_lossy(bytes));
        printing::print(Stream::Err, text);
        Ok(bytes.len())
    }

    /// What is printed is written soon; see [`printing`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
