//! Accepts connections and answers on them: how many at once, how long a head may take and how large
//! it may be. What is answered is the router's business.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections at once; fewer where the process may not have as many files open.
const MOST: usize = 1024;
/// Bytes of a request's head.
const LARGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 100;
/// When all places are taken, a new connection gets 503 and `Retry-After`.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\n\
                      connection: close\r\n\r\n";

/// Who is at the other end of the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Serves until `stop` is cancelled, and then until the requests that had begun are answered, for at
/// most as long as a head may take. At most so many connections at once.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    head_timeout: Duration,
    stop: CancellationToken,
    most: usize,
) {
    let places = Arc::new(Semaphore::new(most));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(err) => {
                // Out of files, or a connection that is gone again: later ones may do better.
                tracing::warn!(%err, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            // Never waits: what does not fit into the socket's buffer is not said.
            let _ = stream.try_write(BUSY);
            continue;
        };
        let router = router.clone().layer(Extension(Peer(peer)));
        connections.spawn(connection(stream, router, head_timeout, stop.clone(), place));
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(head_timeout, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections were cut off");
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    head_timeout: Duration,
    stop: CancellationToken,
    _place: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(LARGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(err) = ended {
        tracing::debug!(%err, "a connection broke");
    }
}

/// Half of the files that this process may have open are for connections.
pub(super) fn most() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    MOST.min(files / 2).max(16)
}
