//! With a proxy of the operator's: what goes to it, and what does not.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::client::proxy::matcher::Matcher;
use patchwright_sandbox::egress::{Egress, Refused};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::{Sink, ask, relayed};

/// A proxy that leads everywhere to one port of this machine, whatever it is asked for.
pub(super) struct Proxy {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub(super) async fn start(leads_to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let book = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, leads_to, Arc::clone(&book)));
            }
        });
        Proxy { port, asked }
    }

    /// The way to these hosts through it.
    pub(super) fn egress(&self, hosts: &[&str]) -> Arc<Egress> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let proxy = format!("http://user:word@127.0.0.1:{}", self.port);
        Egress::behind(&hosts, Matcher::builder().all(proxy).build()).unwrap().unwrap()
    }

    /// The requests that it got, the first line of each.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

async fn pass(mut stream: TcpStream, to: u16, book: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let has_password =
        head.to_ascii_lowercase().contains("proxy-authorization: basic dxnlcjp3b3jk\r\n");
    assert!(has_password, "{head}");
    book.lock().push(head.lines().next().unwrap().to_owned());
    if !head.starts_with("CONNECT ") {
        let body = "from the proxy";
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        return;
    }
    let mut host = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    let _ = copy_bidirectional(&mut stream, &mut host).await;
}

/// A name that is known here and leads inside is refused before the proxy hears of it.
#[tokio::test]
async fn egress_through_a_proxy_does_not_lead_inside() {
    let sink = Sink::start().await;
    let proxy = Proxy::start(sink.port).await;
    let egress = proxy.egress(&["localhost", "localhost:8443"]);
    let (_guest, relay) = relayed(&egress).await;
    for request in [
        "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n",
        "CONNECT localhost:8443 HTTP/1.1\r\nHost: localhost:8443\r\n\r\n",
        "GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let answer = ask(relay, request).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(answer.contains("which is not a public address"), "{answer}");
    }
    // The same for what does not go through the relay.
    for url in ["http://localhost/", "https://localhost/", "https://localhost:8443/"] {
        let url: url::Url = url.parse().unwrap();
        assert_eq!(egress.allows(&url), Ok(()));
        let refused = egress.fetch(url.clone()).await.unwrap_err().to_string();
        assert!(refused.contains("which is not a public address"), "{refused}");
        assert!(egress.client().get(url).send().await.is_err());
    }
    assert_eq!(proxy.asked(), Vec::<String>::new());
    assert_eq!(sink.count(), 0);
    let refused: u64 = egress.used().iter().map(|row| row.refused).sum();
    assert_eq!(refused, 6);
}

/// A name that is not known here is the proxy's to find.
#[tokio::test]
async fn egress_through_a_proxy_reaches_what_only_the_proxy_knows() {
    let sink = Sink::start().await;
    let proxy = Proxy::start(sink.port).await;
    let egress = proxy.egress(&["inner.invalid", "*.inner.invalid", "inner.invalid:8080"]);
    let (_guest, relay) = relayed(&egress).await;
    let plain = ask(
        relay,
        "GET http://inner.invalid/a HTTP/1.1\r\nHost: inner.invalid\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(plain.ends_with("you asked: GET /a HTTP/1.1\n"), "{plain}");
    let tunnelled =
        ask(relay, "CONNECT inner.invalid:8080 HTTP/1.1\r\n\r\nGET /t HTTP/1.1\r\n\r\n").await;
    assert!(tunnelled.ends_with("you asked: GET /t HTTP/1.1\n"), "{tunnelled}");
    let page = egress.fetch("http://sub.inner.invalid/page?a=b".parse().unwrap()).await.unwrap();
    assert_eq!((page.status, page.text.as_str()), (200, "from the proxy"));
    let tunnel = "CONNECT inner.invalid:443 HTTP/1.1".to_owned();
    let fetcher = Arc::clone(&egress);
    let fetching = tokio::spawn(async move {
        // Nobody at the other end answers.
        let _ = fetcher.fetch("https://inner.invalid/".parse().unwrap()).await;
    });
    while !proxy.asked().contains(&tunnel) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fetching.abort();
    // No name that is not in the list, however it is put.
    for host in ["other.invalid", "inner.invalid.443+proxy", "other.invalid.443+proxy"] {
        let url: url::Url = format!("http://{host}/").parse().unwrap();
        assert!(
            matches!(egress.allows(&url), Err(Refused::Host(_) | Refused::NoName(_))),
            "{host}"
        );
    }
    assert!(egress.client().get("http://other.invalid.443+proxy/").send().await.is_err());
    assert_eq!(
        proxy.asked(),
        [
            "CONNECT inner.invalid:80 HTTP/1.1",
            "CONNECT inner.invalid:8080 HTTP/1.1",
            "GET http://sub.inner.invalid/page?a=b HTTP/1.1",
            &tunnel,
        ]
    );
    let said = egress.report().to_string();
    assert!(
        said.ends_with("; through the proxy of the environment, which looks names up itself"),
        "{said}"
    );
    let direct = Egress::behind(&["docs.rs".to_owned()], Matcher::builder().build());
    assert_eq!(direct.unwrap().unwrap().report().to_string(), "relay: only docs.rs");
}
