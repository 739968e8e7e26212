//! The printer. stdout is data, stderr is talk; nothing else in the program prints.
//!
//! Under GitHub Actions a line that starts with `::` or `##[` is a command to the runner, so text is
//! made safe line by line before it is printed; only [`Ui::workflow_command`] prints commands. Models
//! choose much of what is printed, so everything but documents passes through redaction.

use parking_lot::{Mutex, MutexGuard};
use std::io::{self, Write as _};

use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::json;

use crate::clock::Clock;
use crate::printing::{self, Stream};
use crate::redact::Redactor;
use crate::redact::keys::without_keys;
use crate::telemetry;
use crate::text::safe_log;

/// How much to say on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    Quiet,
    Normal,
    Verbose,
}

/// A line of the documented stream: nothing else is printed as an event.
pub trait StreamEvent: Serialize {}

/// Where words go.
#[derive(Clone, Copy, Debug)]
pub struct Ui {
    pub verbosity: Verbosity,
    /// stdout carries JSON lines.
    pub json: bool,
    /// Running inside GitHub Actions.
    pub actions: bool,
    /// Knows what must not be printed.
    pub secrets: Option<&'static Redactor>,
    /// The number of the attempt that speaks, where there are several at the work.
    pub attempt: Option<u32>,
}

impl Ui {
    /// For words that need no environment and no secrets: they are the program's own.
    pub fn plain() -> Ui {
        Ui {
            verbosity: Verbosity::Normal,
            json: false,
            actions: false,
            secrets: None,
            attempt: None,
        }
    }

    /// For one of many runs that would talk at once: what it does is in its own folder, and only `-v`
    /// shows it here.
    #[must_use]
    pub fn among_many(self) -> Ui {
        let verbosity = match self.verbosity {
            Verbosity::Verbose => Verbosity::Verbose,
            Verbosity::Normal | Verbosity::Quiet => Verbosity::Quiet,
        };
        Ui { verbosity, json: false, ..self }
    }

    /// For one of several attempts at the same work, which speak at once.
    #[must_use]
    pub fn of_attempt(self, attempt: u32) -> Ui {
        Ui { attempt: Some(attempt), ..self }
    }

    /// A line of talk.
    pub fn say(self, line: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.talk(Level::Info, line);
        }
    }

    /// A line of talk about what may be wrong, was left undone, or is tried again.
    pub fn warn(self, line: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.talk(Level::Warn, line);
        }
    }

    /// As [`Ui::warn`], also from one of many runs: what it tells has cost something, and is nowhere else.
    pub fn warn_all(self, line: &str) {
        self.talk(Level::Warn, line);
    }

    /// A line of talk that only `-v` shows.
    pub fn detail(self, line: &str) {
        if self.verbosity >= Verbosity::Verbose {
            self.talk(Level::Info, line);
        }
    }

    /// A failure; shown whatever the verbosity.
    pub fn failure(self, text: &str) {
        self.talk(Level::Error, text);
    }

    /// The final message, on stdout, unless stdout carries JSON or there is none.
    pub fn data(self, text: &str) {
        if !self.json && !text.is_empty() {
            // The log of a job is where whoever may read the repository can read it.
            Ui::out(&if self.actions { self.clean(text) } else { safe_log(&self.redact(text)) });
        }
    }

    /// One event on stdout, with `--json`.
    pub fn event<T: StreamEvent>(self, event: &T) {
        self.record(event);
    }

    /// One JSON line on stdout, with `--json`, of a command whose output is no stream of events.
    pub fn record<T: Serialize>(self, record: &T) {
        if self.json
            && let Ok(mut event) = serde_json::to_value(record)
        {
            if let (Some(attempt), Some(fields)) = (self.attempt, event.as_object_mut()) {
                fields.insert("attempt".to_owned(), attempt.into());
            }
            Ui::out(&self.redact(&event.to_string()));
        }
    }

    /// Raw output of commands whose stdout is a document (`tools`, `apply-patch`). Waits for whoever reads it.
    pub fn document(self, text: &str) {
        printing::print_document(format!("{text}\n"));
    }

    /// A workflow command built by [`annotations`]; printed only under Actions, and on stderr where stdout carries JSON: the
    /// runner reads both.
    pub fn workflow_command(self, command: &str) {
        if self.actions {
            let stream = if self.json { Stream::Err } else { Stream::Out };
            printing::print(stream, format!("{}\n", self.redact(command)));
        }
    }

    /// A text as it may be printed beside the results: keys of well-known services, whoever they belong to, are replaced
    /// like our own secrets.
    pub fn clean(self, text: &str) -> String {
        safe_log(&without_keys(&self.redact(text)))
    }

    fn redact(self, text: &str) -> String {
        self.secrets.map_or_else(|| text.to_owned(), |secrets| secrets.redact(text))
    }

    fn talk(self, level: Level, text: &str) {
        let text = match self.attempt {
            Some(attempt) => format!("[attempt {attempt}] {text}"),
            None => text.to_owned(),
        };
        printing::print(Stream::Err, self.line(level, &text) + "\n");
    }

    /// A line of talk as it is printed.
    fn line(self, level: Level, text: &str) -> String {
        let text = self.clean(text);
        if telemetry::is_json() { as_json(level, &text) } else { text }
    }

    /// A failure that cannot wait for its turn to be printed: the thread that prints may be the one that has failed.
    pub(crate) fn failure_now(self, text: &str) {
        let line = self.line(Level::Error, text) + "\n";
        // A closed stderr must not make it worse.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    fn out(text: &str) {
        printing::print(Stream::Out, format!("{text}\n"));
    }
}

/// Notes why something on stdout was lost: the run goes on, because its results are in its folder, and its end says so. A
/// closed pipe (`| head`) wanted no more, so nothing is lost.
pub fn keep_loss(written: io::Result<()>) {
    if let Err(err) = written
        && err.kind() != io::ErrorKind::BrokenPipe
    {
        LOST.lock().get_or_insert(err.to_string());
    }
}

/// Why not everything is on stdout that was printed there.
pub fn lost() -> Option<String> {
    LOST.lock().clone()
}

/// How bad a line of talk is, for whoever reads it as a line of the log.
#[derive(Clone, Copy, Debug)]
enum Level {
    Info,
    Warn,
    Error,
}

impl Level {
    /// As the log writes it.
    fn word(self) -> &'static str {
        match self {
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        }
    }
}

/// A line of talk beside a log of JSON lines.
fn as_json(level: Level, text: &str) -> String {
    let at = Clock::default().now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    let level = level.word();
    json!({ "timestamp": at, "level": level, "target": "patchwright", "message": text }).to_string()
}

/// Writes something to the terminal with the table out of the way.
pub fn above<T>(write: impl FnOnce() -> T) -> T {
    match &*standing() {
        Some(screen) => screen.suspend(write),
        None => write(),
    }
}

pub fn standing() -> MutexGuard<'static, Option<ProgressBar>> {
    STANDING.lock()
}

/// The first that went wrong on stdout.
static LOST: Mutex<Option<String>> = Mutex::new(None);
/// What other lines are written above of, while a table stands.
static STANDING: Mutex<Option<ProgressBar>> = Mutex::new(None);

#[cfg(test)]
mod tests {
    use crate::ui::Ui;

    #[test]
    fn a_key_of_somebody_else_is_not_printed_beside_the_results() {
        let key = format!("ghp_{}", "aB3dE5gH7jK9".repeat(3));
        let line =
            Ui::plain().clean(&format!("$ curl -H 'Authorization: Bearer {key}' example.com"));
        assert_eq!(line, "$ curl -H 'Authorization: Bearer ***' example.com");
    }
}
