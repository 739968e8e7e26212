//! No network: nothing arrives at a sink on the machine, whatever way is tried, and a control shows
//! that the same attempts arrive without a sandbox.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;
use tokio::net::{TcpListener, UdpSocket, UnixListener};

use super::{Case, Expected, PROBE, Place, in_both, limits, same};

pub(crate) const CASES: &[Case] = &[
    same("interfaces", "tail -n +3 /proc/net/dev | cut -d: -f1 | xargs", "lo"),
    same("routes", "tail -n +2 /proc/net/route 2>/dev/null | wc -l", "0"),
    same(
        "sockets that no build needs",
        "probe families",
        "AF_PACKET refused\nAF_VSOCK refused\nAF_ALG refused\nAF_CAN refused\nAF_BLUETOOTH refused\n\
         AF_INET refused",
    ),
    same("a pair of sockets", "python3 -c 'import socket; socket.socketpair(); print(1)'", "1"),
    same(
        "a server of its own",
        "for address in 127.0.0.1:0 127.8.8.8:80; do python3 -c 'import socket, sys; \
         host, port = sys.argv[1].split(\":\"); s = socket.create_server((host, int(port))); \
         c = socket.create_connection(s.getsockname()); print(\"served\")' $address; done",
        "served\nserved",
    ),
    same(
        "a server over UDP, and its interfaces",
        "python3 -c 'import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind((\"\", 0)); \
         c = socket.socket(type=socket.SOCK_DGRAM); c.sendto(b\"asked\", (\"localhost\", s.getsockname()[1])); \
         print(s.recv(9).decode()); print(*[name for _, name in socket.if_nameindex()])'",
        "asked\nlo",
    ),
    Case {
        name: "a local server of its own",
        script: "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"s\"); \
                 print(\"served\")' 2>&1 | tail -1 | cut -c1-15; rm -f s",
        expected: Expected::Differs {
            docker: "served",
            local: "PermissionError",
            row: "local sockets",
        },
    },
    same(
        "tools of the network",
        "no git ls-remote https://github.com/git/git; no timeout 5 git ls-remote git://127.0.0.1/x; \
         no timeout 5 bash -c 'echo x > /dev/tcp/127.0.0.1/22'",
        "refused\nrefused\nrefused",
    ),
];

/// Something to arrive at: TCP and UDP, local sockets with and without a file.
struct Sink {
    heard: Arc<Mutex<BTreeSet<&'static str>>>,
    /// What listens here.
    listening: BTreeSet<&'static str>,
    port: u16,
    folder: tempfile::TempDir,
}

impl Sink {
    async fn open() -> Sink {
        let tcp = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = tcp.local_addr().unwrap().port();
        let udp = UdpSocket::bind(("0.0.0.0", port)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sink");
        let unix = UnixListener::bind(&path).unwrap();
        let mode: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs_err::set_permissions(folder.path(), mode.clone()).unwrap();
        fs_err::set_permissions(&path, mode).unwrap();
        let hidden = UnixListener::bind(format!("\0{}", path.display())).unwrap();
        let mut sink = Sink { heard: Arc::default(), listening: BTreeSet::new(), port, folder };
        sink.hears("TCP", move |cx| tcp.poll_accept(cx).map(drop));
        sink.hears("UDP", move |cx| udp.poll_recv(cx, &mut ReadBuf::new(&mut [0; 64])).map(drop));
        sink.hears("local", move |cx| unix.poll_accept(cx).map(drop));
        sink.hears("local, hidden", move |cx| hidden.poll_accept(cx).map(drop));
        // Not every machine has IPv6.
        if let Ok(tcp) = TcpListener::bind(("::1", port)).await {
            sink.hears("TCP, IPv6", move |cx| tcp.poll_accept(cx).map(drop));
        }
        if let Ok(udp) = UdpSocket::bind(("::1", port)).await {
            let next = move |cx: &mut Context<'_>| {
                udp.poll_recv(cx, &mut ReadBuf::new(&mut [0; 64])).map(drop)
            };
            sink.hears("UDP, IPv6", next);
        }
        sink
    }

    /// Notes everything that comes, which `next` takes.
    fn hears(
        &mut self,
        kind: &'static str,
        mut next: impl FnMut(&mut Context<'_>) -> Poll<()> + Send + 'static,
    ) {
        self.listening.insert(kind);
        let heard = Arc::clone(&self.heard);
        tokio::spawn(async move {
            loop {
                std::future::poll_fn(&mut next).await;
                heard.lock().insert(kind);
            }
        });
    }

    fn path(&self) -> String {
        self.folder.path().join("sink").display().to_string()
    }

    fn heard(&self) -> BTreeSet<&'static str> {
        self.heard.lock().clone()
    }
}

async fn nothing_arrives(place: &Place) {
    place.check(CASES).await;
    let sink = Sink::open().await;
    let script = format!(
        "probe reach {} {}; for a in 127.0.0.1 172.17.0.1; do \
         timeout 2 bash -c \"echo x > /dev/tcp/$a/{0}; echo x > /dev/udp/$a/{0}\" 2>/dev/null; \
         done; true",
        sink.port,
        sink.path()
    );
    assert_eq!(place.sh(&script).await, "");
    assert_eq!(sink.heard(), BTreeSet::new(), "something reached the sink");
    // The same program without a sandbox, to everything that listens.
    control(&sink, Path::new("/tmp")).await;
    for _ in 0..500 {
        if sink.heard() == sink.listening {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(sink.heard(), sink.listening, "the control did not reach all of it");
}

#[expect(clippy::disallowed_methods, reason = "what happens without a sandbox")]
async fn control(sink: &Sink, folder: &Path) {
    let status = tokio::process::Command::new("python3")
        .args(["-c", PROBE, "reach", &sink.port.to_string(), &sink.path()])
        .current_dir(folder)
        .stdin(Stdio::null())
        .status()
        .await;
    assert!(status.unwrap().success());
}

in_both!(no_packet_leaves, limits(), nothing_arrives);
