//! Stores deliveries: one writer takes what has come in since its last transaction and stores it in
//! the next one, so that a burst costs few of them. Whoever hands one in is answered when it is on
//! disk. The queue is bounded; what does not fit is refused before it is acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::delivery_job;
use crate::store::{Store, StoreResult};
use patchwright_base::ui::Ui;
use patchwright_task::event::TriggerConfig;
use patchwright_types::campaign::Delivery;

/// Deliveries that wait for the writer.
const LONGEST_QUEUE: usize = 2048;
/// Deliveries in one transaction.
const MOST_AT_ONCE: usize = 256;
/// GitHub waits ten seconds for an answer; a delivery that is stored later is known when it comes again.
const PATIENCE: Duration = Duration::from_secs(9);

/// Where deliveries are handed in. Cheap to clone; the writer ends when the last one is gone.
#[derive(Clone)]
pub(super) struct Intake {
    queue: mpsc::Sender<Waiting>,
    /// Nothing could be stored the last time.
    failing: Arc<AtomicBool>,
}

struct Waiting {
    delivery: Delivery,
    /// Memory of the body.
    room: Option<OwnedSemaphorePermit>,
    stored: oneshot::Sender<bool>,
}

/// Why a delivery was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntakeError {
    /// Too many are waiting.
    Full,
    /// The database did not take it, or not in time.
    Failed,
}

impl Intake {
    pub(super) fn start(store: Store, ui: Ui, config: TriggerConfig) -> (Intake, JoinHandle<()>) {
        let (queue, waiting) = mpsc::channel(LONGEST_QUEUE);
        let failing = Arc::new(AtomicBool::new(false));
        let writer = tokio::spawn(write(store, waiting, (ui, config), Arc::clone(&failing)));
        (Intake { queue, failing }, writer)
    }

    /// Stores a delivery and its job; false when it was there already.
    pub(super) async fn put(
        &self,
        delivery: Delivery,
        room: Option<OwnedSemaphorePermit>,
    ) -> Result<bool, IntakeError> {
        let (stored, answer) = oneshot::channel();
        let waiting = Waiting { delivery, room, stored };
        // Refusing at once is better than waiting: GitHub gives up after ten seconds either way.
        self.queue.try_send(waiting).map_err(|err| match err {
            mpsc::error::TrySendError::Full(_) => IntakeError::Full,
            mpsc::error::TrySendError::Closed(_) => IntakeError::Failed,
        })?;
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(new)) => Ok(new),
            Ok(Err(_)) | Err(_) => Err(IntakeError::Failed),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Whether the database takes deliveries. After one that it did not take, a small write finds out: a server that is
    /// said to be ill may get no further deliveries.
    pub(super) async fn stores(&self, store: &Store, ui: Ui) -> bool {
        if !self.failing.load(Ordering::Relaxed) {
            return true;
        }
        let written = store.set_value("health", "asked").await.is_ok();
        if written {
            stored(&self.failing, ui);
        }
        written
    }

    /// The writer is there.
    pub(super) fn is_open(&self) -> bool {
        !self.queue.is_closed()
    }
}

/// The database took something; said once.
fn stored(failing: &AtomicBool, ui: Ui) {
    if failing.swap(false, Ordering::Relaxed) {
        ui.say("deliveries are stored again");
    }
}

async fn write(
    store: Store,
    mut queue: mpsc::Receiver<Waiting>,
    (ui, config): (Ui, TriggerConfig),
    failing: Arc<AtomicBool>,
) {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, MOST_AT_ONCE).await > 0 {
        let mut deliveries = Vec::with_capacity(batch.len());
        let mut answers = Vec::with_capacity(batch.len());
        // The permits are kept until the answer, because the bodies stay in memory until then.
        for Waiting { delivery, room, stored } in batch.drain(..) {
            deliveries.push(delivery);
            answers.push((stored, room));
        }
        match put(&store, &mut deliveries, &config).await {
            Ok(new) => {
                stored(&failing, ui);
                for ((stored, _), new) in answers.into_iter().zip(new) {
                    // The client may have closed its connection; the delivery is stored all the
                    // same.
                    let _ = stored.send(new);
                }
            }
            // Dropping the senders gives every waiting request an error.
            Err(err) => {
                tracing::error!(%err, deliveries = deliveries.len(), "not stored");
                if !failing.swap(true, Ordering::Relaxed) {
                    ui.failure(&format!(
                        "deliveries cannot be stored: {err}; GitHub is told so, and they have to be delivered again"
                    ));
                }
            }
        }
    }
}

async fn put(
    store: &Store,
    deliveries: &mut [Delivery],
    config: &TriggerConfig,
) -> StoreResult<Vec<bool>> {
    let now = store.now().await?;
    for delivery in &mut *deliveries {
        delivery.received_at = now;
    }
    store.put_deliveries(deliveries, &|delivery| delivery_job::job_of(delivery, config)).await
}
