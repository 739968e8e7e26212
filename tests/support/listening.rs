//! A server of the tests on a port of this machine, with a thread and a runtime of its own: plain and async tests and
//! child processes can use it, and tests may block.
#![allow(dead_code, reason = "benchmarks use a part of it")]

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// How long what it still does beside its runtime may take when it ends.
const ENDING: Duration = Duration::from_secs(10);

/// A port that is taken; nobody answers there yet.
pub(crate) struct Port {
    pub(crate) address: SocketAddr,
    listener: std::net::TcpListener,
}

impl Port {
    /// A free one of the loopback.
    pub(crate) fn take() -> Port {
        Port::of("127.0.0.1:0")
    }

    /// A free one of all this machine's addresses: containers find it at the bridge's.
    pub(crate) fn take_everywhere() -> Port {
        Port::of("0.0.0.0:0")
    }

    fn of(address: &str) -> Port {
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        Port { address: listener.local_addr().unwrap(), listener }
    }

    /// Answers there, by one thread.
    pub(crate) fn serve<F: Future<Output = ()>>(
        self,
        serve: impl FnOnce(TcpListener) -> F + Send + 'static,
    ) -> Listening {
        self.serve_by(1, serve)
    }

    /// Answers there, by so many threads.
    pub(crate) fn serve_by<F: Future<Output = ()>>(
        self,
        threads: usize,
        serve: impl FnOnce(TcpListener) -> F + Send + 'static,
    ) -> Listening {
        let Port { address, listener } = self;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut runtime = match threads {
                1 => tokio::runtime::Builder::new_current_thread(),
                _ => tokio::runtime::Builder::new_multi_thread(),
            };
            let runtime = runtime.worker_threads(threads).enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(listener) => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_timeout(ENDING);
        });
        Listening { address, stop: Some(stop), thread: Some(thread) }
    }
}

/// A server that answers. It ends with this.
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// Ends it; nothing of it runs any more afterwards.
    pub(crate) fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.end();
    }
}
