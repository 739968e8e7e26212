//! Reads a request's body within bounds: so many bytes, so much time, so much memory for all requests
//! together.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

/// GitHub sends no payload above this
/// (<https://docs.github.com/en/webhooks/webhook-events-and-payloads#payload-cap>).
pub(super) const LARGEST: usize = 25 << 20;
/// What every request may have without asking; beyond it they share [`BodyBudget`].
const FREE: usize = 64 << 10;
/// Bytes of larger bodies that are held at any time.
const SHARED: usize = 128 << 20;
/// A refused request may send so much more, which is thrown away: clients that are cut off in the
/// middle of sending do not read the answer.
const MOST_DRAINED: usize = 64 << 20;
const LONGEST_DRAIN: Duration = Duration::from_secs(20);

/// Memory for bodies.
#[derive(Clone)]
pub(super) struct BodyBudget(Arc<Semaphore>);

/// A body, and the memory that it holds until it is dropped.
pub(super) struct ReceivedBody {
    pub(super) bytes: Vec<u8>,
    pub(super) room: Option<OwnedSemaphorePermit>,
}

/// Why a body was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLarge,
    TooSlow,
    NoRoom,
    Broken,
}

impl BodyBudget {
    pub(super) fn new() -> BodyBudget {
        BodyBudget(Arc::new(Semaphore::new(SHARED)))
    }

    fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(bytes).ok()
    }
}

/// Reads all of a body; `each` sees its pieces as they come.
pub(super) async fn read(
    body: &mut axum::body::BodyDataStream,
    deadline: Instant,
    room: &BodyBudget,
    mut each: impl FnMut(&[u8]),
) -> Result<ReceivedBody, BodyError> {
    let mut held = ReceivedBody { bytes: Vec::new(), room: None };
    loop {
        let piece = match timeout_at(deadline, body.next()).await {
            Err(_) => return Err(BodyError::TooSlow),
            Ok(None) => return Ok(held),
            Ok(Some(Err(_))) => return Err(BodyError::Broken),
            Ok(Some(Ok(piece))) => piece,
        };
        let (had, has) = (held.bytes.len(), held.bytes.len() + piece.len());
        if has > LARGEST {
            return Err(BodyError::TooLarge);
        }
        let more = has.saturating_sub(FREE) - had.saturating_sub(FREE);
        if more > 0 {
            let taken = room.take(more).ok_or(BodyError::NoRoom)?;
            match &mut held.room {
                Some(room) => room.merge(taken),
                none => *none = Some(taken),
            }
        }
        each(&piece);
        held.bytes.extend_from_slice(&piece);
    }
}

/// Throws away what is still sent, for a while.
pub(super) async fn drain(body: &mut axum::body::BodyDataStream) {
    let sent = async {
        let mut left = MOST_DRAINED;
        while let Some(Ok(piece)) = body.next().await {
            let Some(rest) = left.checked_sub(piece.len()) else { return };
            left = rest;
        }
    };
    // Whoever still sends after that is cut off.
    let _ = timeout(LONGEST_DRAIN, sent).await;
}

/// The length that a request announces.
pub(super) fn announced(headers: &axum::http::HeaderMap) -> Option<u64> {
    headers.get(axum::http::header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// The body as a stream of pieces.
pub(super) fn pieces(body: Body) -> axum::body::BodyDataStream {
    body.into_data_stream()
}
