//! What goes to the client: one message a line on standard output, handed over by one thread, so that a client that
//! reads slowly holds up no run. One that does not read at all is taken for gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::messages::{SessionUpdate, Update};
use super::rpc::{Id, Outgoing, RpcError, Version};
use patchwright_base::printing;
use patchwright_base::ui::Ui;
use patchwright_journal::{self as journal, Redact};

/// Bytes that wait for the client.
const MAX_WAITING: usize = 64 << 20;
/// How long the last messages may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Hands messages over. Clones write to the same client.
#[derive(Clone)]
pub(super) struct Client {
    lines: Sender<String>,
    waiting: Arc<AtomicUsize>,
    gone: CancellationToken,
    redact: Redact,
}

/// The thread that writes.
pub(super) struct Writer(JoinHandle<()>);

impl Client {
    pub(super) fn start(ui: Ui, redact: Redact) -> (Client, Writer) {
        let (lines, written) = channel::<String>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        let writer = tokio::task::spawn_blocking(move || {
            for line in written {
                ui.document(&line);
                left.fetch_sub(line.len(), Ordering::Relaxed);
            }
        });
        let gone = CancellationToken::new();
        (Client { lines, waiting, gone, redact }, Writer(writer))
    }

    pub(super) fn answer(&self, id: Id, result: impl Serialize) {
        self.send(&Outgoing::Result { jsonrpc: Version::Two, id, result });
    }

    pub(super) fn refuse(&self, id: Option<Id>, error: RpcError) {
        self.send(&Outgoing::<()>::Error { jsonrpc: Version::Two, id, error });
    }

    pub(super) fn update(&self, session: &str, update: Update) {
        let params = SessionUpdate { session_id: session, update };
        let (jsonrpc, method) = (Version::Two, "session/update");
        self.send(&Outgoing::Notification { jsonrpc, method, params });
    }

    /// Resolves when the client reads nothing any more.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    fn send<T: Serialize>(&self, message: &Outgoing<T>) {
        let Ok(mut value) = serde_json::to_value(message) else { return };
        journal::redact_strings(&mut value, &self.redact);
        let line = value.to_string();
        let length = line.len();
        if self.waiting.fetch_add(length, Ordering::Relaxed) + length > MAX_WAITING {
            self.gone.cancel();
        }
        if !self.gone.is_cancelled() {
            // The writer goes with the process, and not before.
            let _ = self.lines.send(line);
        }
    }
}

impl Writer {
    /// Until everything is written, or the client has had its time. The last clone of [`Client`] has to be gone.
    pub(super) async fn finish(self) {
        let handed_over = tokio::time::timeout(PATIENCE, self.0).await.is_ok();
        let written = tokio::task::spawn_blocking(|| printing::flush(Some(PATIENCE)));
        if !handed_over || !written.await.unwrap_or_default() {
            printing::abandon();
        }
    }
}
