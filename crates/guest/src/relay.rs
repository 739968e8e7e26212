//! The guest's end of the relay: listens on the sandbox's loopback, and makes every connection a stream
//! to the host, which decides what becomes of it. One thread serves all of them.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};

use super::flow::{Buffer, Flow, Lane, PassWait, Send, Wake};
use super::process::timespec;
use super::protocol::{FrameKind, MAX_OPENED, OPENED};

/// How long to wait at most before looking again.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// A relay that listens.
#[derive(Debug)]
pub(super) struct Relay {
    listener: TcpListener,
    port: u16,
}

/// What the relay needs of the server.
pub(super) trait Host {
    fn send(&self, kind: FrameKind, id: u32, body: &[u8]);
    /// Frames of this stream go to the flow from now on.
    fn add(&self, id: u32, flow: Arc<Flow>);
    fn remove(&self, id: u32);
}

impl Relay {
    /// Listens on a port that the kernel chooses.
    pub(super) fn bind() -> Result<Relay, String> {
        let failed = |err: std::io::Error| format!("the relay cannot listen: {err}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        // Listening works on a loopback that is down, connecting does not.
        knock(&listener).map_err(failed)?;
        let set = listener.set_nonblocking(true).and_then(|()| listener.local_addr());
        let port = set.map_err(failed)?.port();
        Ok(Relay { listener, port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// What programs look at to find the relay.
    pub(super) fn env(&self) -> impl Iterator<Item = (String, String)> {
        let proxy = format!("http://127.0.0.1:{}", self.port);
        let own = "localhost,127.0.0.1,::1".to_owned();
        let port = self.port;
        let java = format!(
            "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort={port} -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort={port}"
        );
        // These two look at no other variable.
        let more = [
            ("JAVA_TOOL_OPTIONS", java),
            ("YARN_HTTP_PROXY", proxy.clone()),
            ("YARN_HTTPS_PROXY", proxy.clone()),
        ];
        let pairs = [
            ("HTTP_PROXY", proxy.clone()),
            ("HTTPS_PROXY", proxy.clone()),
            ("ALL_PROXY", proxy),
            ("NO_PROXY", own),
        ];
        let both = pairs.into_iter().flat_map(|(name, value)| {
            [(name.to_owned(), value.clone()), (name.to_ascii_lowercase(), value)]
        });
        both.chain(more.map(|(name, value)| (name.to_owned(), value)))
    }

    /// Serves until the guest ends.
    pub(super) fn serve(self, host: &dyn Host) -> Result<(), String> {
        let wake = Wake::new().map_err(|err| format!("the relay cannot wait: {err}"))?;
        let mut lanes: Vec<Lane> = Vec::new();
        let mut next = 0;
        let mut buffer = Buffer::new();
        loop {
            let send = |kind: FrameKind, id: u32, body: &[u8]| host.send(kind, id, body);
            let is_full = lanes.len() >= MAX_OPENED;
            let mut flags = vec![(wake.fd(), PollFlags::IN)];
            let mut ended = Vec::new();
            let wanted: Vec<_> =
                lanes.iter_mut().map(|lane| pass(lane, &send, &mut buffer)).collect();
            for (lane, wanted) in lanes.iter().zip(&wanted) {
                if lane.is_done() {
                    ended.push(lane.id);
                }
                let mut events = PollFlags::empty();
                events.set(PollFlags::OUT, wanted.to_write);
                events.set(PollFlags::IN, wanted.to_read);
                let socket = lane.to.as_ref().or(lane.from.as_ref());
                if let Some(socket) = socket.filter(|_| !events.is_empty()) {
                    flags.push((std::os::fd::AsFd::as_fd(socket), events));
                }
            }
            if !is_full {
                flags.push((std::os::fd::AsFd::as_fd(&self.listener), PollFlags::IN));
            }
            if ended.is_empty() {
                let mut fds: Vec<PollFd<'_>> = flags
                    .iter()
                    .map(|(fd, events)| PollFd::from_borrowed_fd(*fd, *events))
                    .collect();
                let _ = rustix::event::poll(&mut fds, Some(&timespec(POLL_INTERVAL)));
            }
            wake.clear();
            for id in &ended {
                host.remove(*id);
            }
            lanes.retain(|lane| !ended.contains(&lane.id));
            while lanes.len() < MAX_OPENED
                && let Ok((stream, _)) = self.listener.accept()
            {
                lanes.extend(open(stream, &mut next, &wake, host));
            }
        }
    }
}

/// Connects once, as a command will.
fn knock(listener: &TcpListener) -> std::io::Result<()> {
    TcpStream::connect(listener.local_addr()?)?;
    listener.accept().map(drop)
}

/// Moves what can be moved; a stream that the host has closed is closed here too.
fn pass(lane: &mut Lane, send: Send<'_>, buffer: &mut Buffer) -> PassWait {
    if lane.is_cancelled() {
        lane.close_to();
        lane.end(send);
        return PassWait::default();
    }
    lane.pass(send, buffer)
}

/// A stream for a connection.
fn open(stream: TcpStream, next: &mut u32, wake: &Wake, host: &dyn Host) -> Option<Lane> {
    stream.set_nonblocking(true).ok()?;
    let _ = stream.set_nodelay(true);
    let other: OwnedFd = stream.try_clone().ok()?.into();
    let id = OPENED | *next;
    *next = next.wrapping_add(1) & (OPENED - 1);
    let flow = Arc::new(Flow::new(wake.clone()));
    host.add(id, Arc::clone(&flow));
    host.send(FrameKind::Open, id, &[]);
    Some(Lane::new(id, flow, other, stream.into(), true))
}
