//! The server's connections, so that a test can tell when everything that was sent to it has been
//! dealt with: a client that was killed may have left a request in a socket that nobody has read.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// All open connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Sockets(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    last: u64,
    sockets: BTreeMap<u64, Socket>,
}

#[derive(Debug)]
struct Socket {
    /// Something was read that belongs to no request which has been dealt with.
    is_busy: bool,
    /// A copy of the socket, to look at what nobody has read yet.
    peek: std::net::TcpStream,
}

/// One connection, as handlers know it.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    id: u64,
    sockets: Sockets,
}

impl Connection {
    /// The request that was read last has been dealt with.
    pub(super) fn settle(&self) {
        let mut open = self.sockets.0.lock();
        if let Some(socket) = open.sockets.get_mut(&self.id) {
            socket.is_busy = false;
        }
    }

    /// Whether no other connection has anything that is still to be dealt with.
    pub(super) fn others_are_idle(&self) -> bool {
        let open = self.sockets.0.lock();
        open.sockets.iter().filter(|(id, _)| **id != self.id).all(|(_, socket)| {
            let unread = socket.peek.peek(&mut [0]);
            let nothing = unread.is_err_and(|err| err.kind() == io::ErrorKind::WouldBlock);
            nothing && !socket.is_busy
        })
    }
}

/// Accepts, and keeps the list.
pub(super) struct Watched {
    pub(super) listener: tokio::net::TcpListener,
    pub(super) sockets: Sockets,
}

impl Listener for Watched {
    type Io = Stream;
    type Addr = Connection;

    async fn accept(&mut self) -> (Stream, Connection) {
        let (stream, _): (TcpStream, SocketAddr) = Listener::accept(&mut self.listener).await;
        let peek = std::net::TcpStream::from(stream.as_fd().try_clone_to_owned().unwrap());
        let mut open = self.sockets.0.lock();
        open.last += 1;
        let id = open.last;
        open.sockets.insert(id, Socket { is_busy: false, peek });
        let connection = Connection { id, sockets: self.sockets.clone() };
        (Stream { stream, connection: connection.clone() }, connection)
    }

    fn local_addr(&self) -> io::Result<Connection> {
        Ok(Connection { id: 0, sockets: self.sockets.clone() })
    }
}

impl Connected<IncomingStream<'_, Watched>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Watched>) -> Connection {
        stream.remote_addr().clone()
    }
}

/// A connection that is busy once something was read from it.
pub(super) struct Stream {
    stream: TcpStream,
    connection: Connection,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.sockets.0.lock().sockets.remove(&self.connection.id);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            let mut open = self.connection.sockets.0.lock();
            if let Some(socket) = open.sockets.get_mut(&self.connection.id) {
                socket.is_busy = true;
            }
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
