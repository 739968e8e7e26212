//! Lines of JSON to a program in the sandbox. A task of its own writes them, because a program that is busy
//! takes none and must be heard all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// The way of lines to a program.
pub(super) struct LineWriter {
    queue: mpsc::UnboundedSender<Vec<u8>>,
    pending: Arc<AtomicUsize>,
    _writer: AbortOnDropHandle<()>,
}

impl LineWriter {
    pub(super) fn new(mut stdin: DuplexStream) -> LineWriter {
        let (queue, mut lines) = mpsc::unbounded_channel::<Vec<u8>>();
        let pending = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&pending);
        let writer = async move {
            while let Some(line) = lines.recv().await {
                // A program that is gone says so by its end.
                let written = stdin.write_all(&line).await;
                left.fetch_sub(line.len(), Ordering::Relaxed);
                if written.is_err() {
                    return;
                }
            }
        };
        let writer = AbortOnDropHandle::new(tokio::spawn(writer));
        LineWriter { queue, pending, _writer: writer }
    }

    /// Queues a line of JSON.
    pub(super) fn send(&self, line: &impl Serialize) {
        let mut bytes = serde_json::to_vec(line).unwrap_or_default();
        bytes.push(b'\n');
        self.pending.fetch_add(bytes.len(), Ordering::Relaxed);
        // Nobody takes it when the script has ended.
        let _ = self.queue.send(bytes);
    }

    /// Bytes that are queued.
    pub(super) fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }
}
