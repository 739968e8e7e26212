//! The relay: what commands in the sandbox have for a network. The guest listens on the sandbox's
//! loopback; each connection there becomes a stream that ends here and speaks HTTP as to a proxy:
//! `CONNECT` for everything with TLS ([`super::tunnel`]), absolute addresses for plain HTTP, which only reads.
//! The host's name is checked and dialled by the gate; nothing that the guest says about addresses is
//! believed.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::JoinSet;

use super::gate::Gate;
use super::hosts::{Target, shown};
use super::ledger::{Meter, Metered};
use super::tunnel::{self, Upgraded};
use super::{Egress, Refused};
use crate::client::Client;
use crate::streams::Stream;

/// How long the head of a request may take, and the first message in a tunnel.
pub(super) const HEAD: Duration = Duration::from_mins(1);

/// How long a connection may move nothing.
const IDLE_TIMEOUT: Duration = Duration::from_mins(15);

/// How long a connection may move nothing once the command has closed its side: most often it has given up,
/// and nobody waits for the answer any more.
const GIVEN_UP: Duration = Duration::from_secs(30);

/// How long a host may take to begin its answer.
const ANSWER: Duration = Duration::from_mins(2);

/// Longest head of a request or an answer.
const MAX_HEAD: usize = 64 << 10;

/// Headers that are about one connection only. Source: RFC 9110, 7.6.1.
static HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

impl Egress {
    /// Serves the connections of a sandbox until its guest is gone.
    pub fn relay(self: &Arc<Egress>, client: &Client) {
        let mut streams = client.accept();
        let gate = Arc::clone(&self.gate);
        tokio::spawn(async move {
            let mut serving = JoinSet::new();
            while let Some(stream) = streams.recv().await {
                serving.spawn(serve(Arc::clone(&gate), stream));
                while serving.try_join_next().is_some() {}
            }
            // Dropping the set ends what is left of them.
        });
    }
}

/// One connection of a command.
async fn serve(gate: Arc<Gate>, stream: Stream) {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let moved = Arc::new(Meter::default());
    let theirs = Metered::new(theirs, Arc::clone(&moved));
    let (upgraded, mut tunnels) = tokio::sync::mpsc::channel(1);
    let service = service_fn(|request| answer(Arc::clone(&gate), request, upgraded.clone()));
    let mut http = hyper::server::conn::http1::Builder::new();
    // A command may close its side once it has asked.
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).half_close(true).max_buf_size(MAX_HEAD);
    let serving = async {
        // What breaks here is the command's own business: it sees its connection end.
        let _ = http.serve_connection(TokioIo::new(theirs), service).with_upgrades().await;
        if let Ok(tunnel) = tunnels.try_recv() {
            tunnel::carry(&gate, tunnel).await;
        }
    };
    tokio::select! {
        _ = async { tokio::join!(stream.carry(ours), serving) } => {}
        () = idle(&moved, async || tokio::time::sleep(IDLE_TIMEOUT).await) => {}
        () = given_up(&moved, async || tokio::time::sleep(GIVEN_UP).await) => {}
    }
}

/// Until the command has closed its side and nothing has moved for one `pause` after that.
async fn given_up(meter: &Meter, mut pause: impl AsyncFnMut()) {
    let mut last = None;
    loop {
        pause().await;
        let moved = meter.moved();
        let has_ended = meter.has_ended();
        if has_ended && last == Some(moved) {
            return;
        }
        last = has_ended.then_some(moved);
    }
}

/// Until nothing has moved for one `pause`.
async fn idle(meter: &Meter, mut pause: impl AsyncFnMut()) {
    let mut moved = meter.moved();
    loop {
        pause().await;
        if std::mem::replace(&mut moved, meter.moved()) == moved {
            return;
        }
    }
}

async fn answer(
    gate: Arc<Gate>,
    request: Request<Incoming>,
    upgraded: Upgraded,
) -> Result<Response<RelayBody>, Infallible> {
    let asked = asked_for(request.uri());
    let answered = if request.method() == Method::CONNECT {
        tunnel::open(&gate, request, &upgraded).await
    } else {
        forward(&gate, request).await
    };
    Ok(answered.unwrap_or_else(|refused| {
        gate.refused(&asked.0, asked.1, &refused);
        said(&refused)
    }))
}

/// Host and port of a request, for the books.
fn asked_for(uri: &Uri) -> (String, u16) {
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    (uri.host().unwrap_or_default().to_owned(), port)
}

/// An answer of our own.
fn said(refused: &Refused) -> Response<RelayBody> {
    let (status, lead) = if matches!(refused, Refused::Method(_)) {
        (StatusCode::METHOD_NOT_ALLOWED, "not allowed in this run: ")
    } else if refused.is_policy() {
        (StatusCode::FORBIDDEN, "not allowed in this run: ")
    } else {
        (StatusCode::BAD_GATEWAY, "")
    };
    let mut response =
        Response::new(RelayBody::Text(Some(Bytes::from(format!("{lead}{refused}\n")))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    headers
        .insert("proxy-status", HeaderValue::from_static("patchwright; error=http_request_denied"));
    response
}

/// Passes one plain request on, over a connection of its own.
async fn forward(
    gate: &Gate,
    mut request: Request<Incoming>,
) -> Result<Response<RelayBody>, Refused> {
    let target = plain_target(gate, &request)?;
    reads_only(&request)?;
    let host = open(gate, &target).await?;
    let unreachable =
        |err: hyper::Error| Refused::Unreachable(target.name.clone(), err.to_string());
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .handshake::<_, Incoming>(TokioIo::new(host))
        .await
        .map_err(unreachable)?;
    tokio::spawn(connection);
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let origin_form = path.parse().map_err(|_| Refused::NoName(target.name.clone()))?;
    *request.uri_mut() = origin_form;
    *request.version_mut() = http::Version::HTTP_11;
    without_hops(request.headers_mut());
    let named = match target.port {
        80 => target.name.clone(),
        port => format!("{}:{port}", target.name),
    };
    let named = HeaderValue::from_str(&named).map_err(|_| Refused::NoName(named.clone()))?;
    request.headers_mut().insert(header::HOST, named);
    let answered = tokio::time::timeout(ANSWER, sender.send_request(request)).await;
    let late = |_| {
        let why = format!("no answer within {} seconds", ANSWER.as_secs());
        Refused::Unreachable(target.name.clone(), why)
    };
    let mut response = answered.map_err(late)?.map_err(unreachable)?;
    without_hops(response.headers_mut());
    Ok(response.map(|body| RelayBody::Passed(body, sender)))
}

/// Where a plain request goes. Its `Host` header must say the same as its address: some servers believe
/// the one, some the other.
fn plain_target(gate: &Gate, request: &Request<Incoming>) -> Result<Target, Refused> {
    let uri = request.uri();
    let Some(authority) = uri.authority() else {
        // Not a proxy's request: somebody talks to the relay as to a server.
        return Err(Refused::NoName(String::new()));
    };
    if uri.scheme_str() != Some("http") {
        return Err(Refused::Scheme(uri.scheme_str().unwrap_or_default().to_owned()));
    }
    if authority.as_str().contains('@') {
        return Err(Refused::UserInfo);
    }
    let target = gate.hosts.find(authority.host(), authority.port_u16().unwrap_or(80))?;
    let mut named = request.headers().get_all(header::HOST).iter();
    if let Some(host) = named.next() {
        let host = host.to_str().ok().and_then(|host| host.parse::<http::uri::Authority>().ok());
        let same = host.is_some_and(|host| {
            gate.hosts.find(host.host(), host.port_u16().unwrap_or(80)).as_ref() == Ok(&target)
        });
        if !same || named.next().is_some() {
            return Err(Refused::NoName("a `Host` header of another host".to_owned()));
        }
    }
    Ok(target)
}

/// Over plain HTTP it can be seen what a request does, so it may only read.
fn reads_only(request: &Request<Incoming>) -> Result<(), Refused> {
    let method = request.method();
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(Refused::Method(shown(method.as_str())));
    }
    if !request.body().is_end_stream() {
        return Err(Refused::Method(format!("{method} with a body")));
    }
    Ok(())
}

async fn open(gate: &Gate, target: &Target) -> Result<Metered<tokio::net::TcpStream>, Refused> {
    let stream = gate.dial(target).await?;
    let meter = gate.ledger.connected(&format!("{}:{}", target.name, target.port));
    Ok(Metered::new(stream, meter))
}

/// Removes what is about one connection only, and what `Connection` names.
fn without_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// The body of an answer: our own words, or what the host sends.
pub(super) enum RelayBody {
    Text(Option<Bytes>),
    /// The sender keeps the connection to the host alive.
    Passed(
        Incoming,
        #[expect(dead_code, reason = "it is held")]
        hyper::client::conn::http1::SendRequest<Incoming>,
    ),
}

impl Body for RelayBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            RelayBody::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            RelayBody::Passed(body, _) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            RelayBody::Text(text) => text.is_none(),
            RelayBody::Passed(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            RelayBody::Text(text) => {
                hyper::body::SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            RelayBody::Passed(body, _) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::egress::relay::*;

    #[tokio::test]
    async fn idle_ends_when_nothing_has_moved_for_one_pause() {
        let meter = Meter::default();
        let mut pauses = 0;
        // Each pause is over at once; in the first three something moves, either way.
        let pause = async || {
            pauses += 1;
            match pauses {
                1 | 3 => meter.came(1).unwrap(),
                2 => meter.went(1).unwrap(),
                _ => {}
            }
        };
        idle(&meter, pause).await;
        assert_eq!((meter.moved(), pauses), (3, 4));
    }

    #[tokio::test]
    async fn a_closed_side_and_silence_end_a_connection() {
        let meter = Arc::new(Meter::default());
        let mut reader = Metered::new(&b"x"[..], Arc::clone(&meter));
        let mut pauses = 0;
        let pause = async || {
            pauses += 1;
            match pauses {
                // Not over, however long nothing moves: the command still listens.
                4 => {
                    tokio::io::copy(&mut reader, &mut tokio::io::sink()).await.unwrap();
                }
                // The answer still comes.
                5 | 6 => meter.went(1).unwrap(),
                _ => {}
            }
        };
        given_up(&meter, pause).await;
        assert_eq!((meter.moved(), pauses), (3, 7));
    }
}
