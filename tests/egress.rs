//! The way out of a run: which hosts, at which addresses, through which walls, and what is counted.

mod fetching;
mod proxied;
mod sandboxes;
mod tunnels;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use patchwright_sandbox::egress::addresses::is_public;
use patchwright_sandbox::egress::hosts::Hosts;
use patchwright_sandbox::egress::{Egress, Refused};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::guest::Guest;

/// A server on this machine's loopback that answers every request and counts connections. What comes
/// without a request line is sent back when it has ended.
pub(crate) struct Sink {
    pub(crate) port: u16,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Sink {
    pub(crate) async fn start() -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(answer(stream));
            }
        });
        Sink { port, connections }
    }

    pub(crate) fn count(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The list that allows `web.test` and nothing else.
    pub(crate) fn egress(&self) -> Arc<Egress> {
        egress(&[&format!("web.test:{}=127.0.0.1", self.port)])
    }
}

async fn answer(mut stream: TcpStream) {
    let mut came = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let count = stream.read(&mut buffer).await.unwrap_or(0);
        came.extend_from_slice(&buffer[..count]);
        let is_http = [&b"GET "[..], b"HEAD ", b"POST "].iter().any(|it| came.starts_with(it));
        if is_http && came.windows(4).any(|end| end == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&came).into_owned();
            let line = text.lines().next().unwrap_or_default();
            let body = format!("you asked: {line}\n");
            let length = body.len();
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            let answer = if line.starts_with("HEAD ") { head } else { head + &body };
            let _ = stream.write_all(answer.as_bytes()).await;
            return;
        }
        if count == 0 {
            let _ = stream.write_all(&came).await;
            return;
        }
    }
}

pub(crate) fn egress(hosts: &[&str]) -> Arc<Egress> {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    Egress::new(&hosts).unwrap().unwrap()
}

#[test]
fn egress_allows_names_of_the_list_only() {
    let hosts: Vec<String> =
        ["docs.rs", "*.example.com", "Mirror.Corp:8443=10.0.0.5", "bücher.example", "port.test:81"]
            .map(str::to_owned)
            .to_vec();
    let hosts = Hosts::parse(&hosts).unwrap();
    let cases: &[(&str, u16, Result<&str, &str>)] = &[
        ("docs.rs", 443, Ok("docs.rs")),
        ("DOCS.rs.", 80, Ok("docs.rs")),
        ("docs.rs", 22, Err("port 22 of `docs.rs` is not allowed")),
        ("evil-docs.rs", 443, Err("`evil-docs.rs` is not among the allowed hosts")),
        ("docs.rs.evil.test", 443, Err("`docs.rs.evil.test` is not among the allowed hosts")),
        ("a.example.com", 443, Ok("a.example.com")),
        ("a.b.example.com", 443, Ok("a.b.example.com")),
        ("example.com", 443, Err("`example.com` is not among the allowed hosts")),
        ("notexample.com", 443, Err("`notexample.com` is not among the allowed hosts")),
        ("mirror.corp", 8443, Ok("mirror.corp")),
        ("mirror.corp", 443, Err("port 443 of `mirror.corp` is not allowed")),
        ("xn--bcher-kva.example", 443, Ok("xn--bcher-kva.example")),
        ("BÜCHER.example", 443, Ok("xn--bcher-kva.example")),
        ("port.test", 81, Ok("port.test")),
        (
            "10.0.0.5",
            8443,
            Err("`10.0.0.5` is an address; only names of allowed hosts can be reached"),
        ),
        (
            "2130706433",
            80,
            Err("`2130706433` is an address; only names of allowed hosts can be reached"),
        ),
        ("0x7f.1", 80, Err("`0x7f.1` is an address; only names of allowed hosts can be reached")),
        (
            "0177.0.0.1",
            80,
            Err("`0177.0.0.1` is an address; only names of allowed hosts can be reached"),
        ),
        (
            "127.0.0.1.",
            80,
            Err("`127.0.0.1.` is an address; only names of allowed hosts can be reached"),
        ),
        ("[::1]", 80, Err("`[::1]` is an address; only names of allowed hosts can be reached")),
        (
            "[::ffff:1.2.3.4]",
            80,
            Err("`[::ffff:1.2.3.4]` is an address; only names of allowed hosts can be reached"),
        ),
        ("", 80, Err("`` is no host name")),
        ("docs.rs@evil.test", 80, Err("`docs.rs?evil.test` is no host name")),
        ("a..example.com", 80, Err("`a..example.com` is no host name")),
    ];
    for (host, port, expected) in cases {
        let found = hosts.find(host, *port).map(|target| target.name);
        let found = found.map_err(|refused| refused.to_string());
        assert_eq!(found.as_deref(), expected.map_err(str::to_owned).as_deref(), "{host}:{port}");
    }
}

#[test]
fn egress_refuses_lists_that_say_too_much() {
    for (entry, why) in [
        ("*", "`*`: every host is no list; name the hosts"),
        ("*.com", "`*.com`: everything below a whole top-level domain is too much"),
        (
            "10.0.0.1",
            "`10.0.0.1`: `10.0.0.1` is an address; only names of allowed hosts can be reached",
        ),
        ("https://docs.rs/", "`https://docs.rs/`: what follows `:` is no port"),
        ("docs.rs/path", "`docs.rs/path`: only a host name is meant, with `*.` in front at most"),
        ("a.test=nowhere", "`a.test=nowhere`: what follows `=` is no address"),
        ("*.a.test=10.0.0.1", "`*.a.test=10.0.0.1`: only an exact name can be at an address"),
        ("a.test:0", "`a.test:0`: what follows `:` is no port"),
    ] {
        assert_eq!(Hosts::parse(&[entry.to_owned()]), Err(why.to_owned()));
    }
    assert!(Egress::new(&[String::new(), " ".to_owned()]).unwrap().is_none());
}

#[test]
fn egress_knows_one_address_of_a_name() {
    let list = |entries: &[&str]| {
        Hosts::parse(&entries.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()).map(drop)
    };
    let why = Err("`git.corp.test` is in the list at two addresses".to_owned());
    for entries in [
        ["git.corp.test:8443=10.0.0.5", "git.corp.test"],
        ["git.corp.test=10.0.0.5", "git.corp.test:22=10.0.0.6"],
        ["*.corp.test", "git.corp.test=10.0.0.5"],
    ] {
        assert_eq!(list(&entries), why);
    }
    assert_eq!(
        list(&["git.corp.test:8443=10.0.0.5", "git.corp.test:22=10.0.0.5", "corp.test"]),
        Ok(())
    );
}

#[test]
fn egress_tells_public_addresses_from_others() {
    let public =
        ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"];
    let others = [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:a00:1::1",
        "3fff::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];
    let is_public = |text: &&str| is_public(text.parse::<IpAddr>().unwrap());
    assert_eq!(public.iter().filter(|text| !is_public(text)).collect::<Vec<_>>(), [] as [&&str; 0]);
    assert_eq!(others.iter().filter(|text| is_public(text)).collect::<Vec<_>>(), [] as [&&str; 0]);
}

/// A guest with a relay, on this machine's own loopback, so that the test can be the command.
async fn relayed(egress: &Arc<Egress>) -> (Guest, u16) {
    let guest = Guest::start_with(&["--relay"]).await;
    egress.relay(&guest.client);
    let port = guest.client.hello().relay.unwrap();
    (guest, port)
}

async fn ask(relay: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", relay)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn egress_relay_lets_through_what_is_allowed_and_nothing_else() {
    let sink = Sink::start().await;
    let egress = sink.egress();
    let (guest, relay) = relayed(&egress).await;
    let port = sink.port;
    let get = |authority: &str, host: &str| {
        format!(
            "GET http://{authority}/a?b HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Basic x\r\nConnection: close\r\n\r\n"
        )
    };
    let web = format!("web.test:{port}");
    let plain = ask(relay, &get(&web, &web)).await;
    assert!(plain.starts_with("HTTP/1.1 200 OK\r\n"), "{plain}");
    assert!(plain.ends_with("you asked: GET /a?b HTTP/1.1\n"), "{plain}");
    let connect =
        |authority: &str| format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    let tunnelled = ask(relay, &(connect(&web) + "GET /t HTTP/1.1\r\n\r\n")).await;
    assert!(tunnelled.starts_with("HTTP/1.1 200 OK\r\n"), "{tunnelled}");
    assert!(tunnelled.ends_with("you asked: GET /t HTTP/1.1\n"), "{tunnelled}");
    let reached = sink.count();
    assert_eq!(reached, 2);
    let cases: Vec<(String, &str)> = vec![
        (connect(&format!("127.0.0.1:{port}")), "403"),
        (connect(&format!("2130706433:{port}")), "403"),
        (connect(&format!("[::1]:{port}")), "403"),
        (connect(&format!("localhost:{port}")), "403"),
        (connect("web.test:22"), "403"),
        (connect(&format!("x@web.test:{port}")), "403"),
        (connect(&format!("sub.web.test:{port}")), "403"),
        (get(&format!("127.0.0.1:{port}"), &web), "403"),
        (get(&web, "other.test"), "403"),
        (get(&web, &format!("{web}\r\nHost: other.test")), "403"),
        ("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n".to_owned(), "403"),
        (format!("GET https://{web}/ HTTP/1.1\r\nHost: {web}\r\n\r\n"), "403"),
        ("\x16\x03\x01 this is no request\r\n\r\n".to_owned(), "400"),
    ];
    for (request, status) in cases {
        let answer = ask(relay, &request).await;
        assert_eq!(answer.split(' ').nth(1), Some(status), "{request} got {answer}");
    }
    assert_eq!(sink.count(), reached, "something got through");
    let used = egress.used();
    let row = used.iter().find(|row| row.host == web).unwrap();
    assert_eq!(row.connections, 2);
    assert!(row.bytes_in > 100 && row.bytes_out > 30, "{row:?}");
    let refused: u64 = used.iter().map(|row| row.refused).sum();
    assert!(refused >= 11, "{used:?}");
    drop(guest);
}

#[tokio::test]
async fn egress_relay_only_reads_over_plain_http() {
    let sink = Sink::start().await;
    let egress = sink.egress();
    let (_guest, relay) = relayed(&egress).await;
    let web = format!("web.test:{}", sink.port);
    let request = |method: &str, rest: &str| {
        format!("{method} http://{web}/ HTTP/1.1\r\nHost: {web}\r\nConnection: close\r\n{rest}")
    };
    for (method, rest) in [("GET", "\r\n"), ("HEAD", "\r\n"), ("GET", "Content-Length: 0\r\n\r\n")]
    {
        let answer = ask(relay, &request(method, rest)).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{method}: {answer}");
    }
    assert_eq!(sink.count(), 3);
    let chunked = "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    for (method, rest, named) in [
        ("POST", "Content-Length: 1\r\n\r\nx", "POST"),
        ("POST", "\r\n", "POST"),
        ("PUT", chunked, "PUT"),
        ("DELETE", "\r\n", "DELETE"),
        ("PROPFIND", "\r\n", "PROPFIND"),
        ("OPTIONS", "\r\n", "OPTIONS"),
        ("get", "\r\n", "get"),
        ("GET", "Content-Length: 1\r\n\r\nx", "GET with a body"),
        ("HEAD", chunked, "HEAD with a body"),
    ] {
        let answer = ask(relay, &request(method, rest)).await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
        assert!(answer.contains("\r\nallow: GET, HEAD\r\n"), "{method}: {answer}");
        let used = egress.used();
        let row = used.iter().find(|row| row.host == web).unwrap();
        let why = row.reason.clone().unwrap();
        assert!(why.starts_with(&format!("a `{named}` request over plain http")), "{why}");
    }
    assert_eq!(sink.count(), 3, "something got through");
    let used = egress.used();
    let row = used.iter().find(|row| row.host == web).unwrap();
    assert_eq!((row.connections, row.refused), (3, 9), "{row:?}");
}

#[tokio::test]
async fn egress_refuses_names_that_lead_inside() {
    let sink = Sink::start().await;
    let egress = egress(&[&format!("localhost:{}", sink.port)]);
    let (_guest, relay) = relayed(&egress).await;
    let authority = format!("localhost:{}", sink.port);
    let answer =
        ask(relay, &format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("which is not a public address"), "{answer}");
    let url = format!("http://{authority}/").parse().unwrap();
    assert_eq!(egress.allows(&url), Ok(()));
    let sent = egress.client().get(url.clone()).send().await;
    assert!(sent.is_err());
    assert!(egress.fetch(url).await.unwrap_err().to_string().contains("not a public address"));
    assert_eq!(sink.count(), 0);
    // With it, whoever operates this can allow the host.
    let inner = egress.used().into_iter().find(|used| used.host == authority).unwrap();
    assert!(inner.address.unwrap().is_loopback() && !inner.is_unlisted, "{inner:?}");
    let refused = egress.allows(&"http://[::1]/".parse().unwrap());
    assert!(matches!(refused, Err(Refused::Address(_))));
}

#[tokio::test]
async fn egress_carries_many_connections_and_half_closed_ones() {
    let sink = Sink::start().await;
    let egress = sink.egress();
    let (_guest, relay) = relayed(&egress).await;
    let authority = format!("web.test:{}", sink.port);
    let mut all = tokio::task::JoinSet::new();
    for number in 0..50_u8 {
        let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        all.spawn(async move {
            let mut stream = TcpStream::connect(("127.0.0.1", relay)).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                answer.push(stream.read_u8().await.unwrap());
            }
            let sent = vec![number; 300_000];
            stream.write_all(&sent).await.unwrap();
            // The answer comes only after the end of what was sent.
            stream.shutdown().await.unwrap();
            let mut came = Vec::new();
            stream.read_to_end(&mut came).await.unwrap();
            assert!(came == sent, "connection {number}: {} bytes", came.len());
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    assert_eq!(sink.count(), 50);
}

#[tokio::test]
async fn egress_relay_is_gone_with_its_guest() {
    let sink = Sink::start().await;
    let egress = sink.egress();
    let (mut guest, relay) = relayed(&egress).await;
    let authority = format!("web.test:{}", sink.port);
    let mut open = TcpStream::connect(("127.0.0.1", relay)).await.unwrap();
    open.write_all(format!("CONNECT {authority} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut first = [0; 12];
    open.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    guest.client.clone().close().await;
    guest.process.wait().await.unwrap();
    let _ = open.read_to_end(&mut Vec::new()).await;
    assert!(TcpStream::connect(("127.0.0.1", relay)).await.is_err());
}
