//! From an HTTP request to a WebSocket to the API server. `kube` has this handshake, too; of a refusal it keeps the body
//! alone, and a limit's `Retry-After` is a header.
//!
//! Source: RFC 6455, 4.1, for the handshake; `k8s.io/apimachinery/pkg/util/remotecommand/constants.go` for the protocols.

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::api::ApiError;

/// The protocols, best first. The second of them cannot close a channel.
const CLOSES: &str = "v5.channel.k8s.io";
const OLDER: &str = "v4.channel.k8s.io";

pub(super) type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// A connection over which a program has its streams.
pub(super) struct Connection {
    pub(super) socket: Socket,
    /// One channel can be closed.
    pub(super) can_close: bool,
}

/// The request for a connection, and the key that its answer is checked with.
pub(super) fn request(path: &str) -> Result<(Request<Body>, String), http::Error> {
    let key = generate_key();
    let request = Request::get(path)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key)
        .header(header::SEC_WEBSOCKET_PROTOCOL, format!("{CLOSES}, {OLDER}"))
        .body(Body::empty())?;
    Ok((request, key))
}

/// The connection that an answer has opened.
///
/// # Errors
/// When it has opened none.
pub(super) async fn upgraded(answer: Response<Body>, key: &str) -> Result<Connection, ApiError> {
    let protocol = accepted(answer.status(), answer.headers(), key);
    let can_close = protocol.map_err(|why| ApiError::Unreadable(why.to_owned()))? == CLOSES;
    let upgraded = hyper::upgrade::on(answer).await;
    let upgraded = upgraded.map_err(|err| ApiError::Unreachable(err.to_string()))?;
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await;
    Ok(Connection { socket, can_close })
}

/// The protocol that the server has chosen, or what is wrong with its answer.
fn accepted(
    status: StatusCode,
    headers: &HeaderMap,
    key: &str,
) -> Result<&'static str, &'static str> {
    let is = |name, value: &str| {
        let said = headers.get(name).and_then(|said: &HeaderValue| said.to_str().ok());
        said.is_some_and(|said| said.eq_ignore_ascii_case(value))
    };
    if status != StatusCode::SWITCHING_PROTOCOLS || !is(header::UPGRADE, "websocket") {
        return Err("it does not begin a WebSocket");
    }
    let accept = headers.get(header::SEC_WEBSOCKET_ACCEPT);
    if accept.is_none_or(|accept| accept.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes())
    {
        return Err("the WebSocket is that of another request");
    }
    [CLOSES, OLDER]
        .into_iter()
        .find(|protocol| is(header::SEC_WEBSOCKET_PROTOCOL, protocol))
        .ok_or("the WebSocket speaks a protocol that was not offered")
}
