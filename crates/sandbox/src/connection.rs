//! One connection to a guest: a task that reads, a task that writes, and the calls between them.
//! [`super::client`] makes calls; this file keeps the books and the bounds.
//!
//! The first violation of the protocol ends the connection and every call on it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use super::client::GuestError;
use super::streams::{self, Streams};
use patchwright_guest::protocol::{
    Answer, DATA_CHUNK, Frame, FrameKind, HEADER, Hello, Request, VERSION, decode_header,
    encode_header,
};

/// `Data` frames on their way to the guest.
const SENDING: usize = 8;

/// Frames that may wait to be written to a guest that goes on sending.
const MAX_QUEUED: usize = 1 << 13;

/// Calls whose answers nobody waits for any more.
const MAX_ABANDONED: usize = 4096;

/// Bytes that may still arrive for such calls.
const MAX_STALE_BYTES: u64 = 256 << 20;

/// Largest hello in bytes, and longest list and text in it.
const MAX_HELLO: usize = 16 << 10;

/// Bytes that are read of a text in place of a frame, and how long it may take.
const MAX_WORDS: usize = 600;
const WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// The host's end. Dropping it closes the guest's input.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    sender: Sender,
    next_call: AtomicU32,
    ended: watch::Receiver<bool>,
}

/// The way to the guest. Clones share it.
#[derive(Clone)]
pub(super) struct Sender {
    /// Weak: holding this must not keep the guest's standard input open.
    outgoing: mpsc::WeakUnboundedSender<Outgoing>,
    sending: Arc<Semaphore>,
    shared: Arc<Shared>,
}

/// What the tasks and the calls share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    streams: Streams,
    /// Frames that were not written yet.
    queued: AtomicUsize,
}

#[derive(Default)]
struct State {
    waiting: HashMap<u32, Waiting>,
    abandoned: HashSet<u32>,
    stale_bytes: u64,
    /// Why the connection ended.
    dead: Option<GuestError>,
}

struct Waiting {
    answer: oneshot::Sender<Answer>,
    data: Option<mpsc::Sender<Bytes>>,
}

enum Outgoing {
    Frame { kind: FrameKind, call: u32, body: Vec<u8>, _permit: Option<OwnedSemaphorePermit> },
    Close,
}

impl Connection {
    /// Waits for the hello, then starts both tasks.
    pub(crate) async fn open<R, W>(reader: R, writer: W) -> Result<(Hello, Connection), GuestError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let mut reader = BufReader::with_capacity(64 << 10, reader);
        let hello = read_hello(&mut reader).await?;
        let shared = Arc::new(Shared::default());
        let (outgoing, queue) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(false);
        tokio::spawn(write_all(writer, queue, Arc::clone(&shared)));
        let reading = Arc::clone(&shared);
        tokio::spawn(async move {
            let reason = read_all(&mut reader, &reading).await;
            reading.die(reason);
            let _ = end.send(true);
        });
        let sender = Sender {
            outgoing: outgoing.downgrade(),
            sending: Arc::new(Semaphore::new(SENDING)),
            shared: Arc::clone(&shared),
        };
        let next_call = AtomicU32::new(1);
        Ok((hello, Connection { shared, outgoing, sender, next_call, ended }))
    }

    /// Sends a request; its answer, and its bytes if `data` is given, come to the result.
    pub(crate) fn begin(
        &self,
        request: &Request,
        data: Option<mpsc::Sender<Bytes>>,
    ) -> Result<Call<'_>, GuestError> {
        self.begin_with(request, data, |_| ()).map(|(call, ())| call)
    }

    /// Sends a request whose call has a stream with credit.
    pub(super) fn begin_stream(
        &self,
        request: &Request,
    ) -> Result<(Call<'_>, streams::Stream), GuestError> {
        self.begin_with(request, None, |id| self.shared.streams.add(id, self.sender.clone()))
    }

    /// The streams that the guest opens from now on.
    pub(super) fn accept(&self) -> mpsc::UnboundedReceiver<streams::Stream> {
        self.shared.streams.accept(self.sender.clone())
    }

    /// `prepare` is called with the number of the call before anything is sent.
    fn begin_with<T>(
        &self,
        request: &Request,
        data: Option<mpsc::Sender<Bytes>>,
        prepare: impl FnOnce(u32) -> T,
    ) -> Result<(Call<'_>, T), GuestError> {
        let body =
            serde_json::to_vec(request).map_err(|err| GuestError::Failed(err.to_string()))?;
        let id = self.next_call.fetch_add(1, Ordering::Relaxed);
        encode_header(FrameKind::Request, id, body.len()).map_err(|_| {
            GuestError::Failed(format!("the arguments are too large: {} bytes", body.len()))
        })?;
        let (sender, answer) = oneshot::channel();
        {
            let mut state = self.shared.lock();
            if let Some(dead) = &state.dead {
                return Err(dead.clone());
            }
            state.waiting.insert(id, Waiting { answer: sender, data });
        }
        let prepared = prepare(id);
        self.queue(FrameKind::Request, id, body, None);
        Ok((Call { connection: self, id, answer, answered: false }, prepared))
    }

    fn queue(
        &self,
        kind: FrameKind,
        call: u32,
        body: Vec<u8>,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        self.shared.queued.fetch_add(1, Ordering::Relaxed);
        // When the writer is gone the reader says why.
        let _ = self.outgoing.send(Outgoing::Frame { kind, call, body, _permit: permit });
    }

    /// Closes the guest's input, waits up to `wait` for the end of its output.
    pub(crate) async fn close(&self, wait: Duration) {
        let _ = self.outgoing.send(Outgoing::Close);
        let mut ended = self.ended.clone();
        let _ = tokio::time::timeout(wait, ended.wait_for(|ended| *ended)).await;
        self.shared.die(GuestError::Gone("the connection was closed".to_owned()));
    }
}

/// A call that was sent. Dropping it before the answer cancels it.
pub(crate) struct Call<'a> {
    connection: &'a Connection,
    id: u32,
    answer: oneshot::Receiver<Answer>,
    answered: bool,
}

impl<'a> Call<'a> {
    /// Waits for the answer. Must not be called again after it has come.
    pub(crate) async fn answer(&mut self) -> Result<Answer, GuestError> {
        let answer = (&mut self.answer).await;
        self.answered = true;
        answer.map_err(|_| self.connection.shared.cause_of_death())
    }

    /// The way to send bytes of the call's stream while waiting for its answer.
    pub(crate) fn stream(&self) -> Stream<'a> {
        Stream { connection: self.connection, call: self.id }
    }

    /// Tells the guest to stop the call; an answer may still come.
    pub(crate) fn cancel(&self) {
        self.connection.queue(FrameKind::Cancel, self.id, Vec::new(), None);
    }

    /// Nothing more will come on the call's stream.
    pub(crate) fn end_data(&self) {
        if let Some(waiting) = self.connection.shared.lock().waiting.get_mut(&self.id) {
            waiting.data = None;
        }
    }
}

/// Where the bytes of a call's stream go.
#[derive(Clone, Copy)]
pub(crate) struct Stream<'a> {
    connection: &'a Connection,
    call: u32,
}

impl Stream<'_> {
    /// Sends bytes of the call's stream; none ends it. Waits while too much is on its way.
    pub(crate) async fn send(&self, body: Vec<u8>) -> Result<(), GuestError> {
        let permit = self.connection.sender.permit().await;
        if let Some(dead) = &self.connection.shared.lock().dead {
            return Err(dead.clone());
        }
        self.connection.queue(FrameKind::Data, self.call, body, permit);
        Ok(())
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let mut state = self.connection.shared.lock();
        if state.waiting.remove(&self.id).is_some() {
            state.abandoned.insert(self.id);
            drop(state);
            self.cancel();
        }
    }
}

impl Sender {
    /// Waits while too much is on its way.
    pub(super) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.sending).acquire_owned().await.ok()
    }

    pub(super) fn send(&self, kind: FrameKind, id: u32, body: Vec<u8>) {
        self.send_with(kind, id, body, None);
    }

    pub(super) fn send_with(
        &self,
        kind: FrameKind,
        call: u32,
        body: Vec<u8>,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        // When the writer is gone the reader says why.
        if let Some(outgoing) = self.outgoing.upgrade() {
            self.shared.queued.fetch_add(1, Ordering::Relaxed);
            let _ = outgoing.send(Outgoing::Frame { kind, call, body, _permit: permit });
        }
    }

    pub(super) fn settle(&self, id: u32) {
        self.shared.streams.settle(id);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Ends every call. The first reason stays.
    fn die(&self, reason: GuestError) {
        let mut state = self.lock();
        let reason = state.dead.get_or_insert(reason).clone();
        state.waiting.clear();
        state.abandoned.clear();
        drop(state);
        self.streams.die(&reason);
    }

    fn cause_of_death(&self) -> GuestError {
        let dead = self.lock().dead.clone();
        dead.unwrap_or_else(|| GuestError::Gone("the connection ended".to_owned()))
    }

    fn answered(&self, call: u32, body: &[u8]) -> Result<(), GuestError> {
        self.streams.answered(call);
        let waiting = {
            let mut state = self.lock();
            if state.abandoned.remove(&call) {
                return Ok(());
            }
            state.waiting.remove(&call)
        };
        let Some(waiting) = waiting else {
            return Err(GuestError::Protocol(format!(
                "an answer to call {call}, which nobody made"
            )));
        };
        let answer = serde_json::from_slice(body)
            .map_err(|err| GuestError::Protocol(format!("an answer that cannot be read: {err}")))?;
        let _ = waiting.answer.send(answer);
        Ok(())
    }

    async fn data(&self, call: u32, body: Vec<u8>) -> Result<(), GuestError> {
        if self.streams.data(call, &body)? {
            return Ok(());
        }
        let sender = {
            let mut state = self.lock();
            match state.waiting.get(&call) {
                Some(waiting) => waiting.data.clone(),
                None if state.abandoned.contains(&call) => {
                    state.stale_bytes += body.len() as u64 + HEADER as u64;
                    if state.stale_bytes > MAX_STALE_BYTES {
                        return Err(GuestError::Protocol("bytes for calls that have ended".into()));
                    }
                    return Ok(());
                }
                None => None,
            }
        };
        let Some(sender) = sender else {
            return Err(GuestError::Protocol(format!("bytes for call {call}, which takes none")));
        };
        if sender.send(Bytes::from(body)).await.is_err() {
            // Its reader has given up; the call is about to be dropped.
            let mut state = self.lock();
            state.stale_bytes += DATA_CHUNK as u64;
            if state.stale_bytes > MAX_STALE_BYTES {
                return Err(GuestError::Protocol("bytes for calls that have ended".into()));
            }
        }
        Ok(())
    }
}

/// The one field of a hello that every version has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

async fn read_hello(reader: &mut (impl AsyncRead + Unpin)) -> Result<Hello, GuestError> {
    let Some(frame) = read_frame(reader, MAX_HELLO).await? else {
        return Err(GuestError::Gone("it ended before it said hello".to_owned()));
    };
    if frame.kind != FrameKind::Hello {
        return Err(GuestError::Protocol("it did not begin with a hello".to_owned()));
    }
    let unreadable = |err| GuestError::Protocol(format!("a hello that cannot be read: {err}"));
    // Of another version, the other fields may have another form.
    let Version { version } = serde_json::from_slice(&frame.body).map_err(unreadable)?;
    if version != VERSION {
        return Err(GuestError::Protocol(format!("version {version} instead of {VERSION}")));
    }
    serde_json::from_slice(&frame.body).map_err(unreadable)
}

/// Hands out what arrives; returns why it stopped.
async fn read_all(reader: &mut (impl AsyncRead + Unpin), shared: &Shared) -> GuestError {
    loop {
        let handled = match read_frame(reader, patchwright_guest::protocol::MAX_FRAME).await {
            Ok(None) => return GuestError::Gone("its stream ended".to_owned()),
            Err(err) => return err,
            Ok(Some(Frame { kind: FrameKind::Response, call, body })) => {
                shared.answered(call, &body)
            }
            Ok(Some(Frame { kind: FrameKind::Data, call, body })) => shared.data(call, body).await,
            Ok(Some(Frame { kind: FrameKind::Credit, call, body })) => {
                shared.streams.credit(call, &body)
            }
            Ok(Some(Frame { kind: FrameKind::Refuse, call, .. })) => {
                shared.streams.refuse(call);
                Ok(())
            }
            Ok(Some(Frame { kind: FrameKind::Open, call, .. })) => shared.streams.open(call),
            Ok(Some(frame)) => {
                Err(GuestError::Protocol(format!("an unexpected frame: {:?}", frame.kind)))
            }
        };
        if let Err(err) = handled {
            return err;
        }
        if shared.lock().abandoned.len() > MAX_ABANDONED {
            return GuestError::Protocol("too many calls without an answer".to_owned());
        }
        if shared.queued.load(Ordering::Relaxed) > MAX_QUEUED {
            return GuestError::Protocol("it does not read what it is sent".to_owned());
        }
    }
}

/// Reads one frame of at most `most` bytes. Memory grows with what arrives, not with what is
/// announced.
async fn read_frame(
    reader: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> Result<Option<Frame>, GuestError> {
    let gone = |err: std::io::Error| GuestError::Gone(format!("its stream broke: {err}"));
    let cut = || GuestError::Gone("its stream ended inside a frame".to_owned());
    let mut header = [0; HEADER];
    let mut filled = 0;
    while filled < HEADER {
        match reader.read(&mut header[filled..]).await.map_err(gone)? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(cut()),
            count => filled += count,
        }
    }
    let (kind, call, length) = match decode_header(header) {
        Ok(decoded) => decoded,
        Err(_) if header.iter().all(|byte| is_text(*byte)) => {
            return Err(GuestError::Words(words(&header, reader).await));
        }
        Err(err) => return Err(GuestError::Protocol(err.to_string())),
    };
    if length > most {
        return Err(GuestError::Protocol(format!("a frame of {length} bytes")));
    }
    let mut body = Vec::with_capacity(length.min(DATA_CHUNK));
    reader.take(length as u64).read_to_end(&mut body).await.map_err(gone)?;
    if body.len() < length {
        return Err(cut());
    }
    Ok(Some(Frame { kind, call, body }))
}

fn is_text(byte: u8) -> bool {
    byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Text where a frame should be: whoever should have started the guest says why it did not. As much of
/// it as a person reads, on one line.
async fn words(start: &[u8], reader: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = start.to_vec();
    let mut rest = reader.take(MAX_WORDS as u64);
    // After the timeout, what has arrived so far is shown.
    let _ = tokio::time::timeout(WORDS_TIMEOUT, rest.read_to_end(&mut text)).await;
    let text = String::from_utf8_lossy(&text);
    let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    shown.trim().to_owned()
}

/// Writes what is queued until the queue or the stream ends; then closes the stream.
async fn write_all(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    shared: Arc<Shared>,
) {
    while let Some(Outgoing::Frame { kind, call, body, _permit }) = queue.recv().await {
        shared.queued.fetch_sub(1, Ordering::Relaxed);
        let Ok(header) = encode_header(kind, call, body.len()) else { continue };
        let written = async {
            // Small frames go out in one write.
            if body.len() <= 64 << 10 {
                writer.write_all(&[&header, body.as_slice()].concat()).await?;
            } else {
                writer.write_all(&header).await?;
                writer.write_all(&body).await?;
            }
            writer.flush().await
        };
        if let Err(err) = written.await {
            shared.die(GuestError::Gone(format!("its input is closed: {err}")));
            break;
        }
    }
    let _ = writer.shutdown().await;
}
