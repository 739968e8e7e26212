//! The guest's end of a stream with credit: what has come from the host and waits, and how much may be
//! sent. The reader of the host's frames fills it and never waits; whoever moves the bytes is woken.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::Shutdown;

use super::protocol::{FrameKind, WINDOW};

/// Bytes of one `Data` frame of a stream.
const CHUNK: usize = 64 << 10;

/// Sends a frame to the host; errors are seen by the reader of its frames too.
pub(super) type Send<'a> = &'a dyn Fn(FrameKind, u32, &[u8]);

/// Wakes a thread that waits in `poll`.
#[derive(Clone, Debug)]
pub(super) struct Wake(Arc<OwnedFd>);

impl Wake {
    pub(super) fn new() -> std::io::Result<Wake> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Wake(Arc::new(rustix::event::eventfd(0, flags)?)))
    }

    pub(super) fn wake(&self) {
        // It can only fail when it is awake already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Takes note of having been woken.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

/// What the reader of frames and the mover of bytes share.
#[derive(Debug)]
pub(super) struct Flow {
    state: Mutex<State>,
    wake: Wake,
}

#[derive(Debug)]
struct State {
    /// From the host, at most [`WINDOW`] bytes.
    waiting: VecDeque<u8>,
    /// The host sends no more.
    has_ended: bool,
    /// Bytes that may be sent.
    credit: usize,
    /// The host wants no more.
    is_refused: bool,
    is_cancelled: bool,
}

impl Flow {
    pub(super) fn new(wake: Wake) -> Flow {
        let state = State {
            waiting: VecDeque::new(),
            has_ended: false,
            credit: WINDOW,
            is_refused: false,
            is_cancelled: false,
        };
        Flow { state: Mutex::new(state), wake }
    }

    pub(super) fn wake(&self) -> &Wake {
        &self.wake
    }

    /// Bytes from the host; none means the end.
    pub(super) fn push(&self, bytes: &[u8]) {
        let mut state = self.lock();
        if bytes.is_empty() {
            state.has_ended = true;
        } else if !state.has_ended && state.waiting.len() + bytes.len() <= WINDOW {
            state.waiting.extend(bytes);
        }
        drop(state);
        self.wake.wake();
    }

    /// The body of a `Credit` frame.
    pub(super) fn credit(&self, body: &[u8]) {
        let Ok(more) = <[u8; 4]>::try_from(body) else { return };
        let mut state = self.lock();
        state.credit = (state.credit + u32::from_be_bytes(more) as usize).min(WINDOW);
        drop(state);
        self.wake.wake();
    }

    pub(super) fn refuse(&self) {
        self.lock().is_refused = true;
        self.wake.wake();
    }

    pub(super) fn cancel(&self) {
        self.lock().is_cancelled = true;
        self.wake.wake();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// A stream between the host and two ends here, which must not block.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: u32,
    pub(super) flow: Arc<Flow>,
    /// Where the host's bytes go, until it is closed.
    pub(super) to: Option<OwnedFd>,
    /// Where bytes for the host come from, until the end.
    pub(super) from: Option<OwnedFd>,
    /// Both are one socket, so closing means shutting down.
    pub(super) is_socket: bool,
    /// Bytes taken from the host and not given back as credit.
    taken: usize,
}

/// Room for one frame, shared by the lanes of a thread.
#[derive(Debug)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub(super) fn new() -> Buffer {
        Buffer(vec![0; CHUNK])
    }
}

/// What to wait for before the next [`Lane::pass`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PassWait {
    pub(super) to_write: bool,
    pub(super) to_read: bool,
}

impl Lane {
    pub(super) fn new(
        id: u32,
        flow: Arc<Flow>,
        to: OwnedFd,
        from: OwnedFd,
        is_socket: bool,
    ) -> Lane {
        Lane { id, flow, to: Some(to), from: Some(from), is_socket, taken: 0 }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.flow.lock().is_cancelled
    }

    /// Neither way has more to move.
    pub(super) fn is_done(&self) -> bool {
        self.to.is_none() && self.from.is_none()
    }

    /// Moves what can be moved at once.
    pub(super) fn pass(&mut self, send: Send<'_>, buffer: &mut Buffer) -> PassWait {
        let to_write = self.pass_in(send);
        let to_read = self.pass_out(send, buffer);
        PassWait { to_write, to_read }
    }

    /// From the host. True when more waits for the other end to take it.
    fn pass_in(&mut self, send: Send<'_>) -> bool {
        while let Some(to) = &self.to {
            let mut state = self.flow.lock();
            if state.waiting.is_empty() {
                if state.has_ended {
                    drop(state);
                    self.close_to();
                }
                return false;
            }
            let (front, _) = state.waiting.as_slices();
            match rustix::io::write(to, front) {
                Ok(count) => {
                    state.waiting.drain(..count);
                    drop(state);
                    self.taken += count;
                    if self.taken >= WINDOW / 2 {
                        self.give_back(send);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => {
                    state.waiting.clear();
                    drop(state);
                    self.close_to();
                    send(FrameKind::Refuse, self.id, &[]);
                }
            }
        }
        // Nobody takes it: what is on its way gets lost here.
        self.flow.lock().waiting.clear();
        false
    }

    fn give_back(&mut self, send: Send<'_>) {
        let taken = u32::try_from(self.taken).unwrap_or(u32::MAX);
        self.taken = 0;
        send(FrameKind::Credit, self.id, &taken.to_be_bytes());
    }

    /// To the host, at most one frame. True when there is credit for more.
    fn pass_out(&mut self, send: Send<'_>, buffer: &mut Buffer) -> bool {
        let (credit, is_refused) = {
            let state = self.flow.lock();
            (state.credit, state.is_refused)
        };
        if is_refused {
            self.end(send);
        }
        let Some(from) = &self.from else { return false };
        if credit == 0 {
            return false;
        }
        let room = credit.min(buffer.0.len());
        match rustix::io::read(from, buffer.0.get_mut(..room).unwrap_or_default()) {
            Ok(0) => self.end(send),
            Ok(count) => {
                let mut state = self.flow.lock();
                state.credit = state.credit.saturating_sub(count);
                drop(state);
                send(FrameKind::Data, self.id, buffer.0.get(..count).unwrap_or_default());
                return credit > count;
            }
            Err(Errno::INTR | Errno::AGAIN) => return true,
            Err(_) => self.end(send),
        }
        false
    }

    /// Nothing more goes to the host.
    pub(super) fn end(&mut self, send: Send<'_>) {
        let Some(from) = self.from.take() else { return };
        if self.is_socket {
            let _ = rustix::net::shutdown(&from, Shutdown::Read);
        }
        send(FrameKind::Data, self.id, &[]);
    }

    /// Nothing more goes to the other end.
    pub(super) fn close_to(&mut self) {
        let Some(to) = self.to.take() else { return };
        if self.is_socket {
            let _ = rustix::net::shutdown(&to, Shutdown::Write);
        }
    }
}
