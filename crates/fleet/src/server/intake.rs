//! Stores deliveries: one writer takes what has come in since its last transaction and stores it in
//! the next one, so that a burst costs few of them. Whoever hands one in is answered when it is on
//! disk. The queue is bounded; what does not fit is refused before it is acknowledged.

use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::deliver;
use crate::store::{Store, StoreResult};
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
    pub(super) fn start(store: Store) -> (Intake, JoinHandle<()>) {
        let (queue, waiting) = mpsc::channel(LONGEST_QUEUE);
        (Intake { queue }, tokio::spawn(write(store, waiting)))
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

    /// The writer is there.
    pub(super) fn is_open(&self) -> bool {
        !self.queue.is_closed()
    }
}

async fn write(store: Store, mut queue: mpsc::Receiver<Waiting>) {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, MOST_AT_ONCE).await > 0 {
        let mut deliveries = Vec::with_capacity(batch.len());
        let mut answers = Vec::with_capacity(batch.len());
        // The permits are kept until the answer, because the bodies stay in memory until then.
        for Waiting { delivery, room, stored } in batch.drain(..) {
            deliveries.push(delivery);
            answers.push((stored, room));
        }
        match put(&store, &mut deliveries).await {
            Ok(new) => {
                for ((stored, _), new) in answers.into_iter().zip(new) {
                    // The client may have closed its connection; the delivery is stored all the
                    // same.
                    let _ = stored.send(new);
                }
            }
            // Dropping the senders gives every waiting request an error.
            Err(err) => tracing::error!(%err, deliveries = deliveries.len(), "not stored"),
        }
    }
}

async fn put(store: &Store, deliveries: &mut [Delivery]) -> StoreResult<Vec<bool>> {
    let now = store.now().await?;
    for delivery in &mut *deliveries {
        delivery.received_at = now;
    }
    store.put_deliveries(deliveries, &deliver::job_of).await
}
