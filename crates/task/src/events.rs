//! Where the events of a run go: to stdout with `--json`, and to whoever drives the run from this process.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::run::Run;
use patchwright_base::error::Failure;
use patchwright_base::ui::{StreamEvent, Ui};
use patchwright_journal::{self as journal, Redact};
use patchwright_types::events::{Event, FORMAT};

/// Somebody in this process who is told what happens in a run, and in which of its attempts where it has several. Called
/// from the loop, so it must not block. What it hands on to others it redacts itself.
#[derive(Clone)]
pub struct Watcher(Arc<Listener>);

type Listener = dyn Fn(Option<u32>, &Event<'_>) + Send + Sync;

impl Watcher {
    pub fn new(told: impl Fn(Option<u32>, &Event<'_>) + Send + Sync + 'static) -> Watcher {
        Watcher(Arc::new(told))
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

/// Tells of one run.
#[derive(Clone)]
pub(super) struct EventTeller {
    ui: Ui,
    watcher: Option<Watcher>,
    redact: Redact,
}

/// An event without what must not be printed.
#[derive(Serialize)]
#[serde(transparent)]
struct Redacted(Value);

impl StreamEvent for Redacted {}

impl EventTeller {
    /// This teller on another printer.
    pub(super) fn with_ui(&self, ui: Ui) -> EventTeller {
        EventTeller { ui, ..self.clone() }
    }

    pub(super) fn tell(&self, event: &Event<'_>) {
        if let Some(Watcher(told)) = &self.watcher {
            told(self.ui.attempt, event);
        }
        if self.ui.json
            && let Ok(mut value) = serde_json::to_value(event)
        {
            // Before it is one text, in which a secret may be written with escapes.
            journal::redact_strings(&mut value, &self.redact);
            self.ui.event(&Redacted(value));
        }
    }
}

impl Run<'_> {
    pub(super) fn events(&self) -> EventTeller {
        let (ui, watcher) = (self.environment.ui, self.environment.watcher.clone());
        EventTeller { ui, watcher, redact: self.world.redaction() }
    }

    pub(super) fn tell(&self, event: &Event<'_>) {
        self.events().tell(event);
    }

    /// The first event of a run.
    pub(super) fn tell_begun(&self) {
        self.tell(&Event::Run {
            format: FORMAT,
            run: &self.folder.id,
            version: patchwright_base::VERSION,
            task: self.task.kind.word(),
            subject: self.subject(),
            model: &self.world.model.slug,
            resumed: !self.folder.recorded.is_empty(),
            folder: &self.folder.path,
        });
    }

    /// What the run leaves on this machine.
    pub(super) fn tell_files(&self) {
        let Ok(entries) = fs_err::read_dir(&self.folder.path) else { return };
        let files = entries.filter_map(Result::ok).filter(|entry| entry.path().is_file());
        let mut files: Vec<String> =
            files.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        files.sort();
        self.tell(&Event::Files { folder: &self.folder.path, files });
    }
}

/// The end of a command that has no result.
pub fn failed(failure: &Failure) -> Event<'_> {
    let hints = failure.hints.iter().map(|hint| hint.text.clone());
    Event::Failure {
        conclusion: failure.kind.conclusion(),
        exit_code: failure.kind.exit_code(),
        message: &failure.message,
        cause: failure.cause.as_ref().map(|cause| format!("{cause:#}")),
        hints: hints.collect(),
    }
}
