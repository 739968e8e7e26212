//! A model server on a loopback port, answering from a script on all four wires: OpenAI Responses,
//! Chat Completions, Anthropic Messages and Gemini.
//!
//! It sends what the real APIs send (every event in order, ids, sealed reasoning, usage, padding,
//! pings) and is stricter about what it takes: each request is checked against the provider's own
//! schema (`tests/fixtures/schemas`), the rules that a schema cannot say, and the request before it.
//! What the provider would answer with 400 is answered so, in its words. Any violation fails the
//! test when the server is dropped. Used by every test that needs a model over HTTP.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

mod chat;
mod conversation;
mod fault;
mod gemini;
mod messages;
mod responses;
mod sockets;
mod turn;
mod validate;

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use futures_util::stream;
use patchwright_provider::item::Wire;
use serde_json::Value;

#[allow(unused_imports, reason = "each test file uses its own part")]
pub use self::conversation::Said;
use self::conversation::{Attempts, Decide};
use self::fault::Fault;
use self::sockets::{Connection, Sockets, Watched};
use self::turn::{Ending, Shape};
#[allow(unused_imports, reason = "each test file uses its own part")]
pub use self::turn::{
    Turn, call, custom, cut, drip, error_event, fail, fail_raw, failed, html, incomplete, item,
    limited, no_final, nothing, overflow, overflow_in_stream, overloaded, quota, raw_stream,
    refuse, say, stall, unauthorized,
};
use self::validate::Validator;
use super::listening::{Listening, Port};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub raw: Vec<u8>,
    pub body: Value,
}

/// What a request asks for.
#[derive(Clone)]
struct Asked {
    wire: Wire,
    /// Which request it is, from one.
    number: usize,
    model: String,
    body: Value,
}

impl Recorded {
    /// A header by its name in lower case; empty when there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }

    /// The wire and the model of the address; `None` for an address that no provider has.
    fn route(&self) -> Option<(Wire, String)> {
        let in_body = self.body["model"].as_str().unwrap_or_default().to_owned();
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        match (self.method.as_str(), path) {
            // The second one is Azure's.
            ("POST", "/v1/responses" | "/openai/v1/responses") => Some((Wire::Responses, in_body)),
            ("POST", "/v1/chat/completions") => Some((Wire::Chat, in_body)),
            ("POST", "/v1/messages") => Some((Wire::Messages, in_body)),
            ("POST", path) => {
                let model = path.strip_prefix("/v1beta/models/")?;
                let model = model.strip_suffix(":streamGenerateContent")?;
                let is_stream = query.split('&').any(|pair| pair == "alt=sse");
                is_stream.then(|| (Wire::Gemini, model.to_owned()))
            }
            _ => None,
        }
    }
}

/// The running server. Dropping it fails the test if a request broke a rule.
pub struct ModelServer {
    shared: Arc<Shared>,
    listening: Listening,
}

struct Shared {
    script: Mutex<Script>,
    /// Every request is answered with 503.
    is_down: std::sync::atomic::AtomicBool,
    attempts: Mutex<Attempts>,
    requests: Mutex<Vec<Recorded>>,
    validator: Mutex<Validator>,
}

/// Where turns come from.
enum Script {
    /// One after the other, whoever asks.
    Queue(VecDeque<Turn>),
    /// By what the request says.
    Decided(Decide),
}

/// Asks whether all that was sent has been dealt with; no provider has such an address.
const IDLE: &str = "/-/idle";

impl ModelServer {
    /// Starts a server that answers the first request with the first turn, and so on. It runs on a
    /// thread of its own, so plain and async tests and child processes can use it.
    pub fn start(script: impl IntoIterator<Item = Turn>) -> ModelServer {
        ModelServer::serve(Script::Queue(script.into_iter().collect()))
    }

    /// Starts a server for many conversations at once: what is answered is decided by what the
    /// request says, never by when it came. Nothing decided fails the test.
    pub fn deciding(decide: impl Fn(&Said) -> Option<Turn> + Send + Sync + 'static) -> ModelServer {
        ModelServer::serve(Script::Decided(Arc::new(decide)))
    }

    /// A server with a script for each conversation, by its opening: the first turn is the model's first in that
    /// conversation, whoever asks and however often. Errors and broken streams in a script come once for every time
    /// that they are asked, before the turn after them.
    pub fn conversations(
        script: impl Fn(&Said) -> Vec<Turn> + Send + Sync + 'static,
    ) -> ModelServer {
        ModelServer::deciding(move |said| conversation::at(&script(said), said))
    }

    /// A server with scripts by a word in the opening, such as a repository's name. Words end where names end; of
    /// several that are there the first one counts.
    pub fn by_word<W: Into<String>>(
        scripts: impl IntoIterator<Item = (W, Vec<Turn>)>,
    ) -> ModelServer {
        let scripts: Vec<(String, Vec<Turn>)> =
            scripts.into_iter().map(|(word, turns)| (word.into(), turns)).collect();
        ModelServer::conversations(move |said| {
            let found = scripts.iter().find(|(word, _)| said.names(word));
            found.map(|(_, turns)| turns.clone()).unwrap_or_default()
        })
    }

    fn serve(script: Script) -> ModelServer {
        // Not while a client with a short patience waits.
        validate::prepare();
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            is_down: false.into(),
            attempts: Mutex::default(),
            requests: Mutex::default(),
            validator: Mutex::default(),
        });
        let app = Router::new().fallback(answer).with_state(shared.clone());
        let listening = Port::take().serve(async |listener| {
            let app = app.into_make_service_with_connect_info::<Connection>();
            let listener = Watched { listener, sockets: Sockets::default() };
            axum::serve(listener, app).await.unwrap();
        });
        ModelServer { shared, listening }
    }

    /// The base URL of the OpenAI wires, ending in `/v1`.
    pub fn url(&self) -> String {
        format!("{}/v1", self.root())
    }

    /// The base URL of the other wires, without a version.
    pub fn root(&self) -> String {
        format!("http://{}", self.listening.address)
    }

    /// More turns, after those that are left.
    pub fn add(&self, turns: impl IntoIterator<Item = Turn>) {
        match &mut *self.shared.script.lock() {
            Script::Queue(left) => left.extend(turns),
            Script::Decided(_) => panic!("turns are decided by the requests here"),
        }
    }

    /// These turns instead of those that are left, for requests that are sent from now on: what a
    /// client that is gone has left in its socket is answered first, by the old ones.
    pub fn replace(&self, turns: impl IntoIterator<Item = Turn>) {
        self.settle();
        *self.shared.script.lock() = Script::Queue(turns.into_iter().collect());
    }

    /// From now on nobody gets an answer, until it is taken back.
    pub fn is_down(&self, is_down: bool) {
        self.shared.is_down.store(is_down, std::sync::atomic::Ordering::SeqCst);
    }

    /// Waits until every request that has been sent to the server by now has taken its turn.
    pub fn settle(&self) {
        let patience = std::time::Instant::now() + Duration::from_secs(20);
        while !self.is_idle() {
            assert!(std::time::Instant::now() < patience, "the model server is never idle");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Asks over a connection of its own, which is accepted after all that were opened before.
    fn is_idle(&self) -> bool {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(self.listening.address).unwrap();
        let request = format!("GET {IDLE} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.starts_with("HTTP/1.1 204")
    }

    /// Requests of conversations whose opening has this word.
    pub fn requests_about(&self, word: &str) -> Vec<Recorded> {
        let mut attempts = Attempts::default();
        let mut is_about = |recorded: &Recorded| {
            let Some((wire, model)) = recorded.route() else { return false };
            let asked = Asked { wire, number: 0, model, body: recorded.body.clone() };
            attempts.said(&asked, recorded).names(word)
        };
        let mut requests = self.requests();
        requests.retain(|recorded| is_about(recorded));
        requests
    }

    /// What has been asked so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.requests.lock().clone()
    }

    /// Turns that nobody has asked for.
    pub fn unused(&self) -> usize {
        match &*self.shared.script.lock() {
            Script::Queue(left) => left.len(),
            Script::Decided(_) => 0,
        }
    }

    /// For runs that rewrite their history on purpose (compaction): requests need not extend the
    /// one before.
    #[must_use]
    pub fn allow_rewrites(self) -> ModelServer {
        self.shared.validator.lock().allow_rewrites();
        self
    }

    /// Lets requests not extend the one before from now on, on a server that runs already.
    pub fn may_rewrite(&self) {
        self.shared.validator.lock().allow_rewrites();
    }

    /// For requests that a proxy has rewritten: they are taken as they come, as most servers do, and
    /// the test looks at them itself.
    pub fn expect_a_proxy(&self) {
        self.shared.validator.lock().expect_a_proxy();
    }

    /// For runs that have their replies stored: requests may add to a stored one, and the rules hold
    /// for the conversation as a whole.
    #[must_use]
    pub fn allow_stored(self) -> ModelServer {
        self.shared.validator.lock().allow_stored();
        self
    }

    /// For tests that send nonsense on purpose: what was wrong, which is forgotten then.
    pub fn take_violations(&self) -> Vec<String> {
        self.shared.validator.lock().take()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.listening.end();
        if std::thread::panicking() {
            return;
        }
        let violations = self.take_violations();
        assert!(
            violations.is_empty(),
            "requests broke the API's rules:\n{}",
            violations.join("\n")
        );
    }
}

impl Shared {
    fn turn(&self, asked: &Asked, recorded: &Recorded) -> Option<Turn> {
        let decide = match &mut *self.script.lock() {
            Script::Queue(left) => return left.pop_front(),
            Script::Decided(decide) => decide.clone(),
        };
        let said = self.attempts.lock().said(asked, recorded);
        decide(&said)
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    raw: Bytes,
) -> Response {
    if uri.path() == IDLE {
        let status = if connection.others_are_idle() { 204 } else { 409 };
        return response(status, &[], String::new());
    }
    let response = take_turn(&shared, &method, &uri, &headers, &raw);
    connection.settle();
    response
}

fn take_turn(
    shared: &Shared,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    raw: &Bytes,
) -> Response {
    let recorded = Recorded {
        method: method.to_string(),
        path: uri.to_string(),
        headers: headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?").to_owned()))
            .collect(),
        body: serde_json::from_slice(raw).unwrap_or(Value::Null),
        raw: raw.to_vec(),
    };
    let number = {
        let mut requests = shared.requests.lock();
        requests.push(recorded.clone());
        requests.len()
    };
    let Some((wire, model)) = recorded.route() else {
        let place = format!("unknown route {} {}", recorded.method, recorded.path);
        shared.validator.lock().add(number, place);
        return response(404, &[], "404 page not found".to_owned());
    };
    let asked = Asked { wire, number, model, body: recorded.body.clone() };
    let refused = shared.validator.lock().request(&asked, &recorded);
    if let Some(fault) = refused {
        return fault_response(&fault, &asked);
    }
    if shared.is_down.load(std::sync::atomic::Ordering::SeqCst) {
        shared.requests.lock().pop();
        return fault_response(&Fault::overloaded(), &asked);
    }
    let turn = shared.turn(&asked, &recorded);
    let Some(turn) = turn else {
        shared.validator.lock().add(number, "the script has no turn left for it");
        let fault = Fault::new(400, "invalid_request_error", "the script is at its end");
        return fault_response(&fault, &asked);
    };
    match turn.shape {
        Shape::Plain { status, headers, body } => response(status, &headers, body),
        Shape::Fault(fault) => fault_response(&fault, &asked),
        Shape::Stream => {
            let answer = turn.events(&asked);
            shared.validator.lock().issued(&asked, &answer, turn.is_whole());
            stream_response(answer.chunks, turn.ending)
        }
        Shape::Raw { chunks, ref headers } => {
            let mut response = stream_response(chunks, turn.ending.clone());
            for (name, value) in headers {
                let name: axum::http::HeaderName = name.parse().unwrap();
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            response
        }
    }
}

fn fault_response(fault: &Fault, asked: &Asked) -> Response {
    let sent = fault.on(asked.wire, asked.number);
    response(sent.status, &sent.headers, sent.body)
}

fn response(status: u16, headers: &[(String, String)], body: String) -> Response {
    let mut builder = Response::builder().status(StatusCode::from_u16(status).unwrap());
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        builder = builder.header("content-type", "application/json");
    }
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    builder.body(Body::from(body)).unwrap()
}

/// Sends the chunks and then ends as the turn says.
fn stream_response(chunks: Vec<Bytes>, ending: Ending) -> Response {
    let (chunks, pause) = match ending {
        Ending::Drip(pause) => {
            let bytes: Vec<u8> = chunks.concat();
            (bytes.iter().map(|byte| Bytes::copy_from_slice(&[*byte])).collect(), pause)
        }
        _ => (chunks, Duration::ZERO),
    };
    let chunks: VecDeque<Bytes> = chunks.into();
    let body = stream::unfold((chunks, false), move |(mut chunks, ended)| {
        let ending = ending.clone();
        async move {
            if ended {
                return None;
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            match (chunks.pop_front(), ending) {
                (Some(chunk), _) => Some((Ok(chunk), (chunks, false))),
                (None, Ending::Cut) => {
                    // Lets what was written leave before the connection is torn down.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    let torn = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "cut");
                    Some((Err(torn), (chunks, true)))
                }
                (None, Ending::Stall) => std::future::pending().await,
                (None, Ending::Proper | Ending::Drip(_)) => None,
            }
        }
    });
    Response::builder()
        .status(StatusCode::OK)
        .header("content-type", "text/event-stream; charset=utf-8")
        .body(Body::from_stream(body))
        .unwrap()
}
