//! What a run has reached: by host, with bytes and refusals. Bounded, whatever names are asked for.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Refused;

/// Most bytes that one run moves, both ways together.
const MAX_BYTES: u64 = 32 << 30;

/// Hosts up to which refused ones are listed; the rest is summed up.
const MAX_HOSTS: usize = 200;
/// Hosts up to which reached ones are listed; higher, because names that somebody makes up must not push them out.
const MAX_REACHED: usize = MAX_HOSTS + 1000;

/// Under which further hosts are summed up.
const OTHERS: &str = "(others)";

/// What became of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HostUse {
    /// Host and port.
    pub host: String,
    /// Connections and requests that were let through.
    pub connections: u64,
    /// Bytes that came from the host.
    pub bytes_in: u64,
    /// Bytes that went to it.
    pub bytes_out: u64,
    /// Attempts that were refused, and why the last one was.
    pub refused: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It was refused because it is not among the allowed hosts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unlisted: bool,
    /// It was refused because its name leads to this address, which is not public: allowed are names with addresses of
    /// their own (`name=address`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

impl HostUse {
    /// Adds what became of the same host elsewhere.
    pub fn add(&mut self, other: HostUse) {
        self.host = other.host;
        self.connections += other.connections;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.refused += other.refused;
        self.reason = other.reason.or(self.reason.take());
        self.is_unlisted |= other.is_unlisted;
        self.address = other.address.or(self.address);
    }
}

/// The books of one run.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    hosts: Mutex<BTreeMap<String, Row>>,
    total: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Row {
    connections: u64,
    refused: u64,
    reason: Option<String>,
    is_unlisted: bool,
    address: Option<IpAddr>,
    meter: Arc<Meter>,
}

/// Counts the bytes of one host.
#[derive(Debug, Default)]
pub(super) struct Meter {
    inward: AtomicU64,
    outward: AtomicU64,
    total: Arc<AtomicU64>,
    /// The other side sends nothing more.
    ended: AtomicBool,
}

impl Ledger {
    /// A connection is let through; its bytes go to the meter.
    pub(super) fn connected(&self, host: &str) -> Arc<Meter> {
        self.with(host, MAX_REACHED, |row| {
            row.connections += 1;
            Arc::clone(&row.meter)
        })
    }

    pub(super) fn refused(&self, host: &str, why: &Refused) {
        self.with(host, MAX_HOSTS, |row| {
            row.refused += 1;
            row.reason = Some(why.to_string());
            row.is_unlisted |= matches!(why, Refused::Host(_) | Refused::Port(..));
            if let Refused::Private(_, address) = why {
                row.address = Some(*address);
            }
        });
    }

    pub(super) fn used(&self) -> Vec<HostUse> {
        let used = self.lock();
        let used = used.iter().map(|(host, row)| HostUse {
            host: host.clone(),
            connections: row.connections,
            bytes_in: row.meter.inward.load(Ordering::Relaxed),
            bytes_out: row.meter.outward.load(Ordering::Relaxed),
            refused: row.refused,
            reason: row.reason.clone(),
            is_unlisted: row.is_unlisted,
            address: row.address,
        });
        used.collect()
    }

    fn with<T>(&self, host: &str, most: usize, act: impl FnOnce(&mut Row) -> T) -> T {
        let mut hosts = self.lock();
        let is_full = hosts.len() >= most && !hosts.contains_key(host);
        let host = if is_full { OTHERS } else { host };
        let row = hosts.entry(host.to_owned()).or_insert_with(|| Row {
            meter: Arc::new(Meter { total: Arc::clone(&self.total), ..Meter::default() }),
            ..Row::default()
        });
        act(row)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Row>> {
        self.hosts.lock()
    }
}

impl Meter {
    /// Bytes that came from the host.
    ///
    /// # Errors
    /// When the run has had all it may have.
    pub(super) fn came(&self, bytes: u64) -> Result<(), Refused> {
        self.inward.fetch_add(bytes, Ordering::Relaxed);
        self.count(bytes)
    }

    pub(super) fn went(&self, bytes: u64) -> Result<(), Refused> {
        self.outward.fetch_add(bytes, Ordering::Relaxed);
        self.count(bytes)
    }

    /// The other side has closed its direction.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Both ways together; for seeing whether anything moves.
    pub(super) fn moved(&self) -> u64 {
        self.inward.load(Ordering::Relaxed) + self.outward.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: u64) -> Result<(), Refused> {
        let before = self.total.fetch_add(bytes, Ordering::Relaxed);
        if before > MAX_BYTES { Err(Refused::Bytes) } else { Ok(()) }
    }
}

/// A connection to a host, whose bytes are counted.
pub(super) struct Metered<S> {
    inner: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(super) fn new(inner: S, meter: Arc<Meter>) -> Metered<S> {
        Metered { inner, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let room = buffer.remaining();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let came = (buffer.filled().len() - before) as u64;
        if came == 0 && room > 0 {
            self.meter.ended.store(true, Ordering::Relaxed);
        }
        Poll::Ready(self.meter.came(came).map_err(io::Error::other))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        Poll::Ready(self.meter.went(written as u64).map(|()| written).map_err(io::Error::other))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
