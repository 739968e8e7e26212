//! The host's end of streams with credit: those of piped commands, and those that the guest opens.
//!
//! The reader of the guest's frames puts bytes here and never waits, so a slow reader stops its own
//! stream and nothing else. What a stream holds is bounded by the credit that was given; a guest that
//! sends beyond it, or after the end, has broken the protocol.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::{Notify, mpsc};

use super::client::GuestError;
use super::connection::Sender;
use patchwright_guest::protocol::{FrameKind, MAX_OPENED, OPENED, WINDOW};

/// Bytes of one `Data` frame of a stream.
const CHUNK: usize = 64 << 10;

/// The streams of one connection.
#[derive(Default)]
pub(super) struct Streams {
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    open: HashMap<u32, Arc<Shared>>,
    /// How many of them the guest opened.
    opened: usize,
    /// Takes the streams that the guest opens; it may not open any without.
    acceptor: Option<Acceptor>,
}

struct Acceptor {
    to: mpsc::UnboundedSender<Stream>,
    sender: Sender,
}

/// What the reader of frames and the user of a stream share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something has arrived.
    arrived: Notify,
    /// More may be sent, or nothing more.
    sendable: Notify,
}

#[derive(Default)]
struct State {
    received: BytesMut,
    /// Bytes that the guest may still send.
    window: usize,
    /// Bytes that were taken and not given back as credit.
    taken: usize,
    from_guest: Way,
    /// Bytes that may be sent.
    credit: usize,
    to_guest: Way,
    dead: Option<GuestError>,
}

/// One direction of a stream.
#[derive(Default)]
struct Way {
    /// The sender said that nothing more comes.
    has_ended: bool,
    /// The receiver wants no more.
    is_refused: bool,
}

/// A stream in use. Dropping it closes it.
pub struct Stream {
    id: u32,
    shared: Arc<Shared>,
    sender: Sender,
}

impl Streams {
    /// A stream for a call that is about to be made.
    pub(super) fn add(&self, id: u32, sender: Sender) -> Stream {
        let shared = Arc::new(Shared::new());
        self.lock().open.insert(id, Arc::clone(&shared));
        Stream { id, shared, sender }
    }

    /// From now on the guest may open streams.
    pub(super) fn accept(&self, sender: Sender) -> mpsc::UnboundedReceiver<Stream> {
        let (to, streams) = mpsc::unbounded_channel();
        self.lock().acceptor = Some(Acceptor { to, sender });
        streams
    }

    /// Bytes from the guest; false when there is no such stream.
    pub(super) fn data(&self, id: u32, body: &[u8]) -> Result<bool, GuestError> {
        let mut books = self.lock();
        let Some(shared) = books.open.get(&id).cloned() else { return Ok(false) };
        let is_over = shared.push(id, body)?;
        if is_over && id >= OPENED {
            books.close(id);
        }
        Ok(true)
    }

    /// The guest takes more. For a stream that is gone it comes too late, which is no fault.
    pub(super) fn credit(&self, id: u32, body: &[u8]) -> Result<(), GuestError> {
        let broken = |what: &str| GuestError::Protocol(format!("{what} for stream {id}"));
        let more = <[u8; 4]>::try_from(body).map_err(|_| broken("a credit of an odd length"))?;
        let Some(shared) = self.lock().open.get(&id).cloned() else { return Ok(()) };
        let mut state = shared.lock();
        state.credit += u32::from_be_bytes(more) as usize;
        if state.credit > WINDOW {
            return Err(broken("more credit than there can be"));
        }
        shared.sendable.notify_one();
        Ok(())
    }

    /// The guest takes no more.
    pub(super) fn refuse(&self, id: u32) {
        if let Some(shared) = self.lock().open.get(&id) {
            shared.lock().to_guest.is_refused = true;
            shared.sendable.notify_one();
        }
    }

    /// The guest opens a stream.
    pub(super) fn open(&self, id: u32) -> Result<(), GuestError> {
        let broken =
            |what: &str| Err(GuestError::Protocol(format!("stream {id} was opened {what}")));
        let mut books = self.lock();
        let Some(acceptor) = &books.acceptor else { return broken("without being asked for") };
        if id < OPENED || books.open.contains_key(&id) {
            return broken("under a wrong number");
        }
        if books.opened >= MAX_OPENED {
            return broken("beyond the number allowed");
        }
        let shared = Arc::new(Shared::new());
        let stream = Stream { id, shared: Arc::clone(&shared), sender: acceptor.sender.clone() };
        // When nobody takes it, it is dropped, and so closed, once the books are free.
        let unwanted = acceptor.to.send(stream).err();
        books.open.insert(id, shared);
        books.opened += 1;
        drop(books);
        drop(unwanted);
        Ok(())
    }

    /// The call of a stream was answered: nothing more can come.
    pub(super) fn answered(&self, id: u32) {
        if let Some(shared) = self.lock().open.remove(&id) {
            let mut state = shared.lock();
            state.from_guest.has_ended = true;
            state.to_guest.is_refused = true;
            shared.wake();
        }
    }

    /// Both ways of a stream that the guest opened may have ended.
    pub(super) fn settle(&self, id: u32) {
        let mut books = self.lock();
        let Some(shared) = books.open.get(&id) else { return };
        if id >= OPENED && shared.lock().is_over() {
            books.close(id);
        }
    }

    /// Ends every stream; later ones are the business of the calls.
    pub(super) fn die(&self, reason: &GuestError) {
        let mut books = self.lock();
        books.acceptor = None;
        books.opened = 0;
        for (_, shared) in books.open.drain() {
            shared.lock().dead.get_or_insert_with(|| reason.clone());
            shared.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock()
    }
}

impl Books {
    fn close(&mut self, id: u32) {
        if self.open.remove(&id).is_some() {
            self.opened = self.opened.saturating_sub(1);
        }
    }
}

impl Shared {
    fn new() -> Shared {
        let state = State { window: WINDOW, credit: WINDOW, ..State::default() };
        Shared { state: Mutex::new(state), ..Shared::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn wake(&self) {
        self.arrived.notify_one();
        self.sendable.notify_one();
    }

    /// True when both ways have ended.
    fn push(&self, id: u32, body: &[u8]) -> Result<bool, GuestError> {
        let mut state = self.lock();
        if state.from_guest.has_ended {
            return Err(GuestError::Protocol(format!("bytes after the end of stream {id}")));
        }
        let Some(window) = state.window.checked_sub(body.len()) else {
            return Err(GuestError::Protocol(format!("bytes beyond the credit of stream {id}")));
        };
        state.window = window;
        if body.is_empty() {
            state.from_guest.has_ended = true;
        } else if !state.from_guest.is_refused {
            state.received.extend_from_slice(body);
        }
        self.arrived.notify_one();
        Ok(state.is_over())
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.from_guest.has_ended && self.to_guest.has_ended
    }
}

impl Stream {
    /// The next bytes; `None` at the end.
    pub async fn receive(&self) -> Result<Option<Bytes>, GuestError> {
        loop {
            {
                let mut state = self.shared.lock();
                if !state.received.is_empty() {
                    let bytes = state.received.split().freeze();
                    state.taken += bytes.len();
                    if state.taken >= WINDOW / 2 && !state.from_guest.has_ended {
                        let taken = std::mem::take(&mut state.taken);
                        state.window += taken;
                        let taken = u32::try_from(taken).unwrap_or(u32::MAX).to_be_bytes();
                        self.sender.send(FrameKind::Credit, self.id, taken.to_vec());
                    }
                    return Ok(Some(bytes));
                }
                if state.from_guest.has_ended {
                    return Ok(None);
                }
                if let Some(dead) = &state.dead {
                    return Err(dead.clone());
                }
            }
            self.shared.arrived.notified().await;
        }
    }

    /// Sends bytes as fast as the guest takes them; false when it wants no more.
    pub async fn send(&self, mut bytes: &[u8]) -> Result<bool, GuestError> {
        while !bytes.is_empty() {
            let room = loop {
                {
                    let state = self.shared.lock();
                    if let Some(dead) = &state.dead {
                        return Err(dead.clone());
                    }
                    if state.to_guest.is_refused || state.to_guest.has_ended {
                        return Ok(false);
                    }
                    if state.credit > 0 {
                        break state.credit;
                    }
                }
                self.shared.sendable.notified().await;
            };
            // Nobody else takes from this stream's credit meanwhile.
            let permit = self.sender.permit().await;
            let (now, later) = bytes.split_at(bytes.len().min(room).min(CHUNK));
            self.shared.lock().credit -= now.len();
            self.sender.send_with(FrameKind::Data, self.id, now.to_vec(), permit);
            bytes = later;
        }
        Ok(true)
    }

    /// Nothing more will be sent.
    pub fn end(&self) {
        {
            let mut state = self.shared.lock();
            if state.to_guest.has_ended || state.dead.is_some() {
                return;
            }
            state.to_guest.has_ended = true;
        }
        self.sender.send(FrameKind::Data, self.id, Vec::new());
        self.sender.settle(self.id);
    }

    /// What still comes is thrown away, and the guest is told to send no more.
    pub fn refuse(&self) {
        if self.deafen() {
            self.sender.send(FrameKind::Refuse, self.id, Vec::new());
        }
    }

    /// True when more may come.
    fn deafen(&self) -> bool {
        let mut state = self.shared.lock();
        let was_deaf = std::mem::replace(&mut state.from_guest.is_refused, true);
        state.received = BytesMut::new();
        !was_deaf && !state.from_guest.has_ended && state.dead.is_none()
    }

    /// Sends what `from` gives, until its end; false when the guest wants no more before.
    pub async fn send_all(&self, mut from: impl AsyncRead + Unpin) -> Result<bool, GuestError> {
        let mut buffer = BytesMut::with_capacity(CHUNK);
        loop {
            buffer.clear();
            // A source that breaks has ended.
            if from.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                self.end();
                return Ok(true);
            }
            if !self.send(&buffer).await? {
                return Ok(false);
            }
        }
    }

    /// Gives what comes to `to`, until the end; false when `to` takes no more before.
    pub async fn receive_all(&self, mut to: impl AsyncWrite + Unpin) -> Result<bool, GuestError> {
        while let Some(bytes) = self.receive().await? {
            if to.write_all(&bytes).await.is_err() {
                self.refuse();
                return Ok(false);
            }
        }
        let _ = to.shutdown().await;
        Ok(true)
    }

    /// Moves bytes both ways until both have ended, or one end takes no more.
    pub async fn carry(self, other: DuplexStream) {
        let (from, to) = tokio::io::split(other);
        let is_whole = |done: Result<bool, GuestError>| match done {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(()),
        };
        let sending = async { is_whole(self.send_all(from).await) };
        let receiving = async { is_whole(self.receive_all(to).await) };
        // Leaving early drops both halves, which the other side sees.
        let _ = tokio::try_join!(sending, receiving);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.deafen();
        let is_over = {
            let mut state = self.shared.lock();
            let is_over = state.is_over() || state.dead.is_some();
            state.to_guest.has_ended = true;
            is_over
        };
        // The stream of a call ends with the call.
        if self.id >= OPENED && !is_over {
            self.sender.send(FrameKind::Cancel, self.id, Vec::new());
            self.sender.settle(self.id);
        }
    }
}
