//! A socket in front of the real engine's, through which an engine goes away or hangs while the others keep it.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::docker::socket;

/// What becomes of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    Passes,
    /// It waits, on either side, as with an engine that stands still.
    Waits,
    /// It passes, but for what would make a container: the engine's disk is full.
    Full,
    /// There is no engine.
    None,
}

/// What Docker answers when its disk is full.
const FULL: &str = "{\"message\":\"mkdir /var/lib/docker/overlay2/1: no space left on device\"}";

struct Shared {
    traffic: Mutex<Traffic>,
    changed: Condvar,
    /// Both sides of every connection.
    clients: Mutex<Vec<UnixStream>>,
    engines: Mutex<Vec<UnixStream>>,
}

pub(crate) struct EngineProxy {
    _folder: tempfile::TempDir,
    /// For `DOCKER_HOST`.
    pub(crate) host: String,
    shared: Arc<Shared>,
}

impl EngineProxy {
    pub(crate) fn start() -> EngineProxy {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docker.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let shared = Arc::new(Shared {
            traffic: Mutex::new(Traffic::Passes),
            changed: Condvar::new(),
            clients: Mutex::default(),
            engines: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || shared.serve(client.unwrap()));
            }
        });
        EngineProxy { _folder: folder, host: format!("unix://{}", path.display()), shared }
    }

    /// The engine stands still.
    pub(crate) fn hang(&self) {
        self.shared.set(Traffic::Waits);
    }

    /// The disk of the engine is full.
    pub(crate) fn fill(&self) {
        self.shared.set(Traffic::Full);
    }

    /// The engine ends. What ran in its containers runs on and keeps its streams, as some engines see to.
    pub(crate) fn end(&self) {
        self.shared.set(Traffic::None);
        for client in self.shared.clients.lock().drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    /// The engine works.
    pub(crate) fn work(&self) {
        self.shared.set(Traffic::Passes);
    }
}

impl Drop for EngineProxy {
    fn drop(&mut self) {
        self.end();
        for engine in self.shared.engines.lock().drain(..) {
            let _ = engine.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn set(&self, traffic: Traffic) {
        *self.traffic.lock() = traffic;
        self.changed.notify_all();
    }

    /// Waits until it is known what becomes of something; whether it passes.
    fn passes(&self) -> bool {
        let mut traffic = self.traffic.lock();
        self.changed.wait_while(&mut traffic, |traffic| *traffic == Traffic::Waits);
        *traffic != Traffic::None
    }

    /// Whether this asks for a container, and the engine has no room for one.
    fn has_no_room_for(&self, request: &[u8]) -> bool {
        let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let makes_one = line.starts_with("POST ") && line.contains("/containers/create");
        makes_one && *self.traffic.lock() == Traffic::Full
    }

    fn serve(self: Arc<Self>, client: UnixStream) {
        if !self.passes() {
            return;
        }
        let engine = UnixStream::connect(socket()).unwrap();
        self.clients.lock().push(client.try_clone().unwrap());
        self.engines.lock().push(engine.try_clone().unwrap());
        let (to_client, from_engine) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
        let back = Arc::clone(&self);
        std::thread::spawn(move || back.copy(from_engine, to_client));
        self.copy(client, engine);
    }

    fn copy(&self, mut from: UnixStream, mut to: UnixStream) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = from.read(&mut buffer).unwrap_or_default();
            if !self.passes() {
                return;
            }
            if self.has_no_room_for(&buffer[..count]) {
                let (length, kind) = (FULL.len(), "content-type: application/json");
                let head = format!(
                    "HTTP/1.1 500 Internal Server Error\r\n{kind}\r\ncontent-length: {length}\r\nconnection: close"
                );
                let _ = from.write_all(format!("{head}\r\n\r\n{FULL}").as_bytes());
                let _ = from.shutdown(Shutdown::Both);
                return;
            }
            if count == 0 || to.write_all(&buffer[..count]).is_err() {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
        }
    }
}
