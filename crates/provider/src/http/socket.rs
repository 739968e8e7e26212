//! The Responses protocol over a WebSocket: one connection for a conversation, over which a turn sends what was
//! said since the last one and names the last reply, which the server keeps for the connection.
//!
//! Chosen by `endpoints.NAME.websocket`. Where the server takes no WebSocket, or one breaks twice, requests are
//! sent as they are without. Source: OpenAI's guide "WebSocket mode" of the Responses API.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use reqwest::{Client, Upgraded};
use serde::Deserialize;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

use super::accounts::Account;
use super::counting::broken;
use super::{HttpProvider, PreparedRequest, answer};
use crate::item::Wire;
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::responses;
use crate::{OnProgress, Progress, Reply, wire};

/// How OpenAI's servers know the version of the protocol.
const BETA: HeaderValue = HeaderValue::from_static("responses_websockets=2026-02-06");

/// A server closes a connection after an hour.
const AGE: Duration = Duration::from_mins(50);

/// A conversation that was silent for so long is over, or pays for one whole request more.
const IDLE: Duration = Duration::from_mins(10);

/// How long the upgrade may take.
const OPENING: Duration = Duration::from_secs(20);

/// Connections that break before the protocol is given up.
const BREAKS: u32 = 2;

/// A client that speaks the version of HTTP in which connections are upgraded.
static CLIENT: LazyLock<Option<Client>> = LazyLock::new(|| super::upgrading_client().ok());

/// The open connections of an account, by conversation, and whether there may be more.
#[derive(Default)]
pub(super) struct Sockets {
    open: Mutex<HashMap<String, Socket>>,
    is_off: AtomicBool,
    breaks: AtomicU32,
}

impl std::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sockets")
    }
}

struct Socket {
    stream: WebSocketStream<Upgraded>,
    opened: Instant,
    used: Instant,
    /// The reply that the server keeps for this connection.
    last: Option<String>,
}

/// How one exchange ended without a reply.
enum ExchangeFailure {
    /// The turn has failed as it would have without a WebSocket.
    Fault(Fault),
    /// The connection is gone, and nothing of an answer had come.
    Gone(String),
    /// The server does not have the reply that the request builds on.
    Forgotten,
    /// The connection is as old as it may get.
    Old,
}

/// The fields of an error event that decide how it is handled.
#[derive(Deserialize)]
struct ErrorEvent {
    r#type: String,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    error: ErrorCode,
    #[serde(default)]
    code: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorCode {
    code: Option<String>,
}

impl Sockets {
    fn is_on(&self) -> bool {
        !self.is_off.load(Ordering::Relaxed)
    }

    /// The protocol is not spoken there.
    fn give_up(&self, why: &str) {
        tracing::warn!(why, "the WebSocket is given up; requests are sent without");
        self.is_off.store(true, Ordering::Relaxed);
    }

    fn broke(&self, why: &str) {
        if self.breaks.fetch_add(1, Ordering::Relaxed) + 1 >= BREAKS {
            self.give_up(why);
        }
    }

    fn take(&self, conversation: &str, idle: Duration) -> Option<Socket> {
        self.open.lock().remove(conversation).filter(|socket| socket.is_usable(idle))
    }

    /// Keeps a connection for the next turn. Nobody says when a conversation ends, so those of others that have
    /// been silent are closed here: a worker has thousands of conversations.
    fn keep(&self, conversation: &str, socket: Socket, idle: Duration) {
        let mut open = self.open.lock();
        open.retain(|_, socket| socket.is_usable(idle));
        open.insert(conversation.to_owned(), socket);
    }
}

impl Socket {
    fn is_usable(&self, idle: Duration) -> bool {
        self.opened.elapsed() < AGE && self.used.elapsed() < idle
    }
}

impl HttpProvider {
    /// One attempt over a WebSocket; `None` when no WebSocket can be used, and the request has to be sent over HTTP.
    pub(super) async fn over_socket(
        &self,
        account: &Account,
        prepared: &PreparedRequest<'_>,
        progress: OnProgress<'_>,
    ) -> Option<Result<Reply, Fault>> {
        let sockets = &account.sockets;
        let wanted = account.endpoint.extras().websocket && prepared.model.wire == Wire::Responses;
        if !wanted || !sockets.is_on() {
            return None;
        }
        let idle = self.policy.real(IDLE);
        let mut kept = sockets.take(prepared.request.cache_key, idle);
        // A kept connection may have been closed meanwhile, or have lost its memory: then a fresh one gets
        // everything. Only what goes wrong there counts.
        loop {
            let is_fresh = kept.is_none();
            let mut socket = match kept.take() {
                Some(socket) => socket,
                None => match self.open(account, prepared).await {
                    Ok(Some(socket)) => socket,
                    Ok(None) => return None,
                    Err(fault) => return Some(Err(fault)),
                },
            };
            let ended = self.exchange(&mut socket, prepared, progress).await;
            match ended {
                Ok(reply) => {
                    socket.last.clone_from(&reply.id);
                    socket.used = Instant::now();
                    sockets.keep(prepared.request.cache_key, socket, idle);
                    return Some(Ok(reply));
                }
                Err(ExchangeFailure::Forgotten) if socket.last.is_some() => {
                    socket.last = None;
                    kept = Some(socket);
                }
                Err(ExchangeFailure::Gone(_) | ExchangeFailure::Old) if !is_fresh => {}
                Err(ExchangeFailure::Fault(fault)) => {
                    if fault.kind == FaultKind::Cut {
                        sockets.broke(&fault.message);
                    }
                    return Some(Err(fault));
                }
                Err(ExchangeFailure::Gone(why)) => {
                    sockets.broke(&why);
                    return None;
                }
                Err(ExchangeFailure::Old | ExchangeFailure::Forgotten) => {
                    sockets.give_up("the server keeps nothing for a fresh connection");
                    return None;
                }
            }
        }
    }

    /// Opens a connection; `None` where none is to be had.
    async fn open(
        &self,
        account: &Account,
        prepared: &PreparedRequest<'_>,
    ) -> Result<Option<Socket>, Fault> {
        let Some(client) = CLIENT.as_ref() else { return Ok(None) };
        let sockets = &account.sockets;
        let (mut headers, _) =
            self.headers(account, prepared.model, &prepared.url, &bytes::Bytes::new()).await?;
        let key = generate_key();
        upgraded(&mut headers, &key);
        let asking = client.get(prepared.url.clone()).headers(headers).send();
        let response = match timeout(OPENING, asking).await {
            Ok(Ok(response)) => response,
            Ok(Err(err)) => {
                sockets.broke(&answer::transport_fault(&err).message);
                return Ok(None);
            }
            Err(_) => {
                sockets.broke("no answer to the upgrade");
                return Ok(None);
            }
        };
        let status = response.status();
        if matches!(status.as_u16(), 401 | 403 | 429) {
            return Err(answer::error_fault(Wire::Responses, response, OPENING).await);
        }
        let accepted = response.headers().get("sec-websocket-accept").map(HeaderValue::as_bytes);
        let is_accepted = accepted == Some(derive_accept_key(key.as_bytes()).as_bytes());
        if status != StatusCode::SWITCHING_PROTOCOLS || !is_accepted {
            sockets.give_up(&format!("the server answers the upgrade with {}", status.as_u16()));
            return Ok(None);
        }
        let Ok(raw) = response.upgrade().await else {
            sockets.broke("the connection was lost in the upgrade");
            return Ok(None);
        };
        let config = WebSocketConfig::default()
            .max_message_size(Some(wire::MAX_STREAM))
            .max_frame_size(Some(wire::MAX_STREAM));
        let stream = WebSocketStream::from_raw_socket(raw, Role::Client, Some(config)).await;
        let now = Instant::now();
        Ok(Some(Socket { stream, opened: now, used: now, last: None }))
    }

    /// Sends a turn and reads its answer.
    async fn exchange(
        &self,
        socket: &mut Socket,
        prepared: &PreparedRequest<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Reply, ExchangeFailure> {
        let body = responses::encode_onto(prepared.request, socket.last.as_deref());
        let text = created(&body);
        let length = text.len();
        let sending = socket.stream.send(Message::text(text));
        match timeout(self.deadlines.idle, sending).await {
            Ok(Ok(())) => {}
            Ok(Err(err)) => return Err(ExchangeFailure::Gone(err.to_string())),
            Err(_) => {
                return Err(ExchangeFailure::Gone("the request could not be sent".to_owned()));
            }
        }
        let mut stream = wire::Stream::new(Wire::Responses);
        let ended = self.read(socket, &mut stream, progress).await;
        if let Err(ended) = ended {
            if stream.has_started() {
                let usage = broken(prepared, length, stream.written());
                progress(Progress::Lost { usage });
            }
            return Err(ended);
        }
        stream.finish(progress).map_err(ExchangeFailure::Fault)
    }

    /// Reads events until the last one of the answer.
    async fn read(
        &self,
        socket: &mut Socket,
        stream: &mut wire::Stream,
        progress: OnProgress<'_>,
    ) -> Result<(), ExchangeFailure> {
        while !stream.is_complete() {
            let lost = |why: String| {
                if stream.has_started() {
                    let message = format!("the connection broke in mid-answer: {why}");
                    ExchangeFailure::Fault(Fault::new(FaultKind::Cut, message))
                } else {
                    ExchangeFailure::Gone(why)
                }
            };
            let Ok(next) = timeout(self.deadlines.idle, socket.stream.next()).await else {
                let seconds = self.deadlines.idle.as_secs_f64();
                let message = format!("the answer stalled for {seconds} s");
                return Err(ExchangeFailure::Fault(Fault::new(FaultKind::Cut, message)));
            };
            match next {
                Some(Ok(Message::Text(text))) => {
                    if let Some(ended) = error(&text) {
                        return Err(ended);
                    }
                    let event = format!("data: {}\n\n", text.replace('\n', "\ndata: "));
                    stream.push(event.as_bytes(), progress).map_err(ExchangeFailure::Fault)?;
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Binary(_))) => {
                    let fault = Fault::malformed("a binary message on the WebSocket");
                    return Err(ExchangeFailure::Fault(fault));
                }
                Some(Ok(Message::Close(_))) | None => return Err(lost("it was closed".to_owned())),
                Some(Err(err)) => return Err(lost(err.to_string())),
            }
        }
        Ok(())
    }
}

/// The headers of an upgrade.
fn upgraded(headers: &mut HeaderMap, key: &str) {
    for name in [header::CONTENT_TYPE, header::ACCEPT, header::ACCEPT_ENCODING] {
        headers.remove(name);
    }
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    if let Ok(key) = HeaderValue::try_from(key) {
        headers.insert(header::SEC_WEBSOCKET_KEY, key);
    }
    headers.insert("openai-beta", BETA);
}

/// The body of a request as the message that begins a turn.
fn created(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let fields = body.trim_start().strip_prefix('{').unwrap_or(&body);
    format!("{{\"type\":\"response.create\",{fields}")
}

/// An error that is about the connection, or has a status as an answer would have had.
fn error(text: &str) -> Option<ExchangeFailure> {
    // Most messages are pieces of text, and only errors are parsed twice.
    if !text.contains("\"error\"") {
        return None;
    }
    let event: ErrorEvent = serde_json::from_str(text).ok()?;
    if event.r#type != "error" {
        return None;
    }
    match event.error.code.or(event.code).as_deref() {
        Some("previous_response_not_found") => return Some(ExchangeFailure::Forgotten),
        Some("websocket_connection_limit_reached") => return Some(ExchangeFailure::Old),
        _ => {}
    }
    let status = event.status.filter(|status| (400..600).contains(status))?;
    Some(ExchangeFailure::Fault(answer::reported(Wire::Responses, status, text)))
}
