//! The Responses API over `WebSocket`s, in front of [`ModelServer`]: it keeps the last reply of a connection, as
//! the real one does, so that a turn can name it and send only what is new; everything else is asked of the
//! model server as a plain request with the whole conversation, which checks it. Requests without an upgrade go
//! through untouched.
//!
//! [`Ill`] is what it does wrong. Source of its behaviour: OpenAI's guide "WebSocket mode".

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

use super::listening::{Listening, Port};

/// What it does wrong, once each, in this order: one for each connection or message that it is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ill {
    /// The upgrade is answered with this status.
    Refuses(u16),
    /// The connection is closed as soon as a message has come.
    Closes,
    /// It breaks after the first events of an answer.
    Breaks,
    /// The reply that is named has been forgotten.
    Forgets,
    /// The connection has been open for too long.
    IsOld,
    /// Something that is no event.
    Garbage,
    /// An error with a status.
    Fails(u16, &'static str),
    /// Pings before the answer.
    Pings,
    /// Nothing.
    Fine,
}

pub(crate) struct SocketServer {
    shared: Arc<Shared>,
    listening: Listening,
}

struct Shared {
    /// `127.0.0.1:PORT` of the model server.
    model: String,
    client: reqwest::Client,
    ills: Mutex<Vec<Ill>>,
    log: Mutex<Vec<String>>,
    key: String,
}

impl SocketServer {
    /// In front of the model server at this root.
    pub(crate) fn start(model: &str, key: &str, ills: &[Ill]) -> SocketServer {
        let shared = Arc::new(Shared {
            model: model.replace("http://", ""),
            client: patchwright_provider::http::client().unwrap(),
            ills: Mutex::new(ills.to_vec()),
            log: Mutex::default(),
            key: key.to_owned(),
        });
        let state = shared.clone();
        let listening = Port::take().serve(async move |listener| {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(state.clone(), stream));
            }
        });
        SocketServer { shared, listening }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.listening.address)
    }

    /// What happened: `upgrade`, `refused 404`, `turn 3` (items that were sent), `turn 2 onto`, `request`.
    pub(crate) fn log(&self) -> Vec<String> {
        self.shared.log.lock().clone()
    }
}

impl Shared {
    fn says(&self, text: impl Into<String>) {
        self.log.lock().push(text.into());
    }

    /// The next ill, when it is about connections or about turns.
    fn ill(&self, is_about: fn(Ill) -> bool) -> Ill {
        let mut ills = self.ills.lock();
        match ills.first().copied() {
            Some(ill) if is_about(ill) => ills.remove(0),
            _ => Ill::Fine,
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let mut head = [0; 4];
    while stream.peek(&mut head).await.is_ok_and(|read| (1..4).contains(&read)) {
        tokio::task::yield_now().await;
    }
    if &head == b"GET " {
        upgrade(&shared, stream).await;
    } else {
        shared.says("request");
        pass(&shared, stream).await;
    }
}

/// A plain request goes to the model server byte by byte.
async fn pass(shared: &Shared, mut stream: TcpStream) {
    let mut model = TcpStream::connect(&shared.model).await.unwrap();
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut model).await;
    let _ = stream.shutdown().await;
}

async fn upgrade(shared: &Arc<Shared>, stream: TcpStream) {
    let ill = shared.ill(|ill| matches!(ill, Ill::Refuses(_)));
    #[expect(clippy::result_large_err, reason = "the callback of the library")]
    let check = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let header = |name: &str| {
            let value = request.headers().get(name).map(|it| it.to_str().unwrap().to_owned());
            value.unwrap_or_default()
        };
        assert_eq!(request.uri().path(), "/v1/responses");
        assert_eq!(header("openai-beta"), "responses_websockets=2026-02-06");
        let is_known = header("authorization") == format!("Bearer {}", shared.key);
        let status = match ill {
            Ill::Refuses(status) => status,
            _ if !is_known => 401,
            _ => {
                shared.says("upgrade");
                return Ok(response);
            }
        };
        shared.says(format!("refused {status}"));
        let error = json!({"error": {"code": "invalid_api_key", "message": "not you"}});
        let mut refusal = ErrorResponse::new(Some(error.to_string()));
        *refusal.status_mut() = status.try_into().unwrap();
        Err(refusal)
    };
    if let Ok(socket) = tokio_tungstenite::accept_hdr_async(stream, check).await {
        turns(shared, socket).await;
    }
}

/// The turns of one connection.
async fn turns(shared: &Arc<Shared>, mut socket: WebSocketStream<TcpStream>) {
    let mut kept: Option<(String, Vec<Value>)> = None;
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let asked: Value = serde_json::from_str(&text).unwrap();
        let ill = shared.ill(|ill| !matches!(ill, Ill::Refuses(_)));
        let new = asked["input"].as_array().unwrap().clone();
        let onto = if asked.get("previous_response_id").is_some() { " onto" } else { "" };
        shared.says(format!("turn {}{onto}", new.len()));
        let fails = |code: &str, status: u16| {
            let error = json!({"code": code, "message": code, "type": "invalid_request_error"});
            json!({"type": "error", "status": status, "error": error}).to_string()
        };
        let wrong = match ill {
            Ill::Closes => {
                let _ = socket.close(None).await;
                return;
            }
            Ill::Forgets => Some(fails("previous_response_not_found", 400)),
            Ill::IsOld => Some(fails("websocket_connection_limit_reached", 400)),
            Ill::Garbage => Some("{\"type\": nothing".to_owned()),
            Ill::Fails(status, code) => Some(fails(code, status)),
            _ => None,
        };
        if let Some(wrong) = wrong {
            kept = None;
            if socket.send(Message::text(wrong)).await.is_err() {
                return;
            }
            continue;
        }
        if ill == Ill::Pings {
            socket.send(Message::Ping("are you there".into())).await.unwrap();
        }
        let Some((whole, body)) = whole(&asked, kept.as_ref(), &new) else {
            kept = None;
            let _ = socket.send(Message::text(fails("previous_response_not_found", 400))).await;
            continue;
        };
        kept = answer(shared, &mut socket, &body, whole, ill == Ill::Breaks).await;
        if ill == Ill::Breaks {
            return;
        }
    }
}

/// The whole conversation, and the plain request for it; `None` when it builds on something else than what is
/// kept.
fn whole(
    asked: &Value,
    kept: Option<&(String, Vec<Value>)>,
    new: &[Value],
) -> Option<(Vec<Value>, Value)> {
    let mut body = asked.as_object().unwrap().clone();
    assert_eq!(body.shift_remove("type"), Some(json!("response.create")));
    assert!(!body.contains_key("stream") && !body.contains_key("background"), "{body:?}");
    let mut items = Vec::new();
    if let Some(id) = body.shift_remove("previous_response_id") {
        let (last, known) = kept?;
        if id != json!(last) {
            return None;
        }
        items.clone_from(known);
    }
    items.extend(new.iter().cloned());
    body.insert("stream".to_owned(), json!(true));
    body.shift_remove("input");
    body.insert("input".to_owned(), json!(items));
    Some((items, body.into()))
}

/// Asks the model server, and passes each event on. What is kept afterwards.
async fn answer(
    shared: &Arc<Shared>,
    socket: &mut WebSocketStream<TcpStream>,
    body: &Value,
    mut items: Vec<Value>,
    breaks: bool,
) -> Option<(String, Vec<Value>)> {
    let url = format!("http://{}/v1/responses", shared.model);
    let request = shared.client.post(url).bearer_auth(&shared.key);
    let answer = request.json(body).send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    if status != 200 {
        let error: Value = serde_json::from_str(&text).unwrap_or_default();
        let event = json!({"type": "error", "status": status, "error": error["error"]});
        let _ = socket.send(Message::text(event.to_string())).await;
        return None;
    }
    let mut kept = None;
    for (number, line) in text.lines().filter_map(|line| line.strip_prefix("data: ")).enumerate() {
        if breaks && number == 2 {
            return None;
        }
        let event: Value = serde_json::from_str(line).unwrap();
        if event["type"] == "response.completed" {
            items.extend(event["response"]["output"].as_array().unwrap().iter().cloned());
            kept = Some((event["response"]["id"].as_str().unwrap().to_owned(), items.clone()));
        }
        if socket.send(Message::text(line.to_owned())).await.is_err() {
            return None;
        }
    }
    kept
}
