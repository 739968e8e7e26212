//! No network: whatever program tries, at whatever address, nothing arrives at a sink. A control in the same
//! image with the machine's network shows that each of these programs does arrive there.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptions, RemoveContainerOptionsBuilder, StartContainerOptions,
    WaitContainerOptions,
};
use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::{sh, started};
use crate::support::docker::{IMAGE, RealDocker, docker};

/// The machine's own addresses, and where Docker's bridge has it; the others are nobody's here.
const ADDRESSES: [&str; 5] = ["127.0.0.1", "172.17.0.1", "::1", "169.254.169.254", "fd00:ec2::254"];

/// Ways out of the test image: the program, and what it does. Each says `MARK` at `ADDRESS` and `PORT`;
/// `URL` is the address as in one.
const WAYS: [(&str, &str, &str); 7] = [
    ("bash-tcp", "bash", "bash -c 'echo MARK > /dev/tcp/ADDRESS/PORT'"),
    ("bash-udp", "bash", "bash -c 'echo MARK > /dev/udp/ADDRESS/PORT'"),
    ("wget", "wget", "wget -q -O /dev/null http://URL:PORT/MARK"),
    ("nc", "nc", "sh -c 'echo MARK | nc -w 1 ADDRESS PORT'"),
    ("python-tcp", "python3", "python3 -c \"PYTHONtcp()\""),
    ("python-udp", "python3", "python3 -c \"PYTHONudp(b'MARK')\""),
    // A query as resolvers send it: what a name can carry out.
    (
        "python-dns",
        "python3",
        "python3 -c \"PYTHONudp(b'\\x01\\x02\\x01\\x00\\x00\\x01' + bytes(6) + bytes([len('MARK')]) + b'MARK' + b'\\x04test' + bytes(1) + b'\\x00\\x01\\x00\\x01')\"",
    ),
];

const PYTHON: &str = "
import socket
def tcp():
    with socket.create_connection(('ADDRESS', PORT), timeout=5) as s:
        s.sendall(b'MARK')
def udp(packet):
    kind = socket.AF_INET6 if ':' in 'ADDRESS' else socket.AF_INET
    socket.socket(kind, socket.SOCK_DGRAM).sendto(packet, ('ADDRESS', PORT))
";

/// Every program at every address, each for so many seconds at most. What they say is of no interest.
fn knocking(addresses: &[&str], port: u16, seconds: u8) -> String {
    let mut script = String::new();
    for address in addresses {
        let url =
            if address.contains(':') { format!("[{address}]") } else { (*address).to_owned() };
        for (way, program, command) in WAYS {
            let command = command
                .replace("PYTHON", PYTHON)
                .replace("MARK", &mark(way, address))
                .replace("ADDRESS", address)
                .replace("URL", &url)
                .replace("PORT", &port.to_string());
            script += &format!(
                "command -v {program} >/dev/null && timeout {seconds} {command} >/dev/null 2>&1\n"
            );
        }
    }
    script + "true"
}

/// What says at the sink who has been there: letters, digits and hyphens.
fn mark(way: &str, address: &str) -> String {
    format!("{way}-at-{}-end", address.replace([':', '.'], "-"))
}

/// Listens at every address of the machine, by TCP and UDP at one port.
struct Sink {
    port: u16,
    has_v6: bool,
    /// Everything that came, by connection and packet.
    came: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Sink {
    async fn open() -> Sink {
        let came = Arc::new(Mutex::new(Vec::new()));
        let tcp = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = tcp.local_addr().unwrap().port();
        let udp = UdpSocket::bind(("0.0.0.0", port)).await.unwrap();
        listen(tcp, udp, &came);
        let v6 = (TcpListener::bind(("::1", port)).await, UdpSocket::bind(("::1", port)).await);
        let has_v6 = match v6 {
            (Ok(tcp), Ok(udp)) => {
                listen(tcp, udp, &came);
                true
            }
            _ => false,
        };
        Sink { port, has_v6, came }
    }

    fn count(&self) -> usize {
        self.came.lock().len()
    }

    /// Whose marks came.
    fn heard(&self, marks: &BTreeSet<String>) -> BTreeSet<String> {
        let came = self.came.lock();
        let is_there = |mark: &&String| {
            came.iter().any(|it| it.windows(mark.len()).any(|part| part == mark.as_bytes()))
        };
        marks.iter().filter(is_there).cloned().collect()
    }
}

fn listen(tcp: TcpListener, udp: UdpSocket, came: &Arc<Mutex<Vec<Vec<u8>>>>) {
    let book = Arc::clone(came);
    tokio::spawn(async move {
        while let Ok((stream, _)) = tcp.accept().await {
            // A connection counts, even when nothing is said on it.
            let place = {
                let mut book = book.lock();
                book.push(Vec::new());
                book.len() - 1
            };
            tokio::spawn(hear(stream, place, Arc::clone(&book)));
        }
    });
    let book = Arc::clone(came);
    tokio::spawn(async move {
        let mut packet = [0; 512];
        while let Ok(count) = udp.recv(&mut packet).await {
            book.lock().push(packet[..count].to_vec());
        }
    });
}

async fn hear(mut stream: TcpStream, place: usize, book: Arc<Mutex<Vec<Vec<u8>>>>) {
    let mut part = [0; 512];
    while let Ok(count @ 1..) = stream.read(&mut part).await {
        let is_request = {
            let mut book = book.lock();
            book[place].extend_from_slice(&part[..count]);
            book[place].starts_with(b"GET ") && book[place].ends_with(b"\r\n\r\n")
        };
        if is_request {
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").await;
            return;
        }
    }
}

/// Runs the script in the same image with the machine's network.
async fn control(docker: &RealDocker, script: &str) {
    let body = ContainerCreateBody {
        image: Some(IMAGE.to_owned()),
        cmd: Some(["sh", "-c", script].map(str::to_owned).to_vec()),
        host_config: Some(HostConfig {
            network_mode: Some("host".to_owned()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let control =
        docker.engine.create_container(None::<CreateContainerOptions>, body).await.unwrap();
    docker.engine.start_container(&control.id, None::<StartContainerOptions>).await.unwrap();
    let _ = docker.engine.wait_container(&control.id, None::<WaitContainerOptions>).next().await;
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    docker.engine.remove_container(&control.id, Some(options)).await.unwrap();
}

#[tokio::test]
async fn no_packet_leaves() {
    let Some(docker) = docker().await else { return };
    let sink = Sink::open().await;
    let running = started(&docker).await;
    for address in ADDRESSES {
        sh(&running, &knocking(&[address], sink.port, 2)).await;
    }
    // Names: nobody is asked, so nobody answers.
    let name = "python3 -c \"import socket; print(socket.getaddrinfo('canary.example.com', 80))\" 2>&1 \
                | grep -c gaierror";
    assert_eq!(sh(&running, name).await, "1");
    let ask = |program: &str| format!("command -v {program} >/dev/null && echo {program}; true");
    let mut programs = BTreeSet::new();
    for program in ["bash", "wget", "nc", "python3"] {
        programs.insert(sh(&running, &ask(program)).await);
    }
    running.stop().await.unwrap();
    assert_eq!(sink.count(), 0, "something reached the sink: {:?}", sink.came.lock());
    assert!(programs.contains("bash") && programs.contains("python3"), "{programs:?}");

    // Which addresses are the machine's own: there the control has to be heard.
    let mut own = vec!["127.0.0.1"];
    if TcpListener::bind("172.17.0.1:0").await.is_ok() {
        own.push("172.17.0.1");
    }
    own.extend(sink.has_v6.then_some("::1"));
    let expected: BTreeSet<String> = WAYS
        .iter()
        .filter(|(_, program, _)| programs.contains(*program))
        .flat_map(|(way, _, _)| own.iter().map(move |address| (way, *address)))
        // Not every build of these two knows IPv6.
        .filter(|(way, address)| !address.contains(':') || !["wget", "nc"].contains(way))
        .map(|(way, address)| mark(way, address))
        .collect();
    control(&docker, &knocking(&own, sink.port, 60)).await;
    // Packets may still be on their way to the books.
    for _ in 0..500 {
        if sink.heard(&expected) == expected {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let heard = sink.heard(&expected);
    panic!("not heard in the control: {:?}", expected.difference(&heard).collect::<Vec<_>>());
}
