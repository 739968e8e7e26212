//! Reading one HTTP answer: a stream, a document instead of a stream, or an error.

use std::error::Error as _;
use std::time::Duration;

use http::header;
use reqwest::Response;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use crate::item::Wire;
use crate::retry;
use crate::wire;
use crate::wire::fault::{Fault, FaultKind, ReportedError};
use crate::{OnProgress, Reply};
use patchwright_base::error::chain;
use patchwright_base::roots;

/// Bytes of an error answer that are read.
const MAX_ERROR_BODY: usize = 64 << 10;

/// Bytes of a document that a server sends instead of a stream.
const MAX_DOCUMENT: usize = 16 << 20;

/// How long an error answer may take.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// After the final event, how long to wait for the end of the body, which frees the connection for
/// the next turn.
const TAIL_TIMEOUT: Duration = Duration::from_millis(30);

/// An answer with status 200 that is being read.
pub(super) struct Reading {
    wire: Wire,
    response: Response,
    idle: Duration,
    stream: Option<wire::Stream>,
    /// Set when the stream was taken apart: it had begun, and this many bytes had arrived.
    ended: Option<usize>,
}

/// What the first bytes of an answer show it to be.
enum BodyFormat {
    Unknown,
    Events,
    Document,
    Page,
}

impl Reading {
    pub(super) fn new(wire: Wire, response: Response, idle: Duration) -> Reading {
        Reading { wire, response, idle, stream: Some(wire::Stream::new(wire)), ended: None }
    }

    /// True when events have arrived, so that the attempt may be billed.
    pub(super) fn has_started(&self) -> bool {
        self.ended.is_some() || self.stream.as_ref().is_some_and(wire::Stream::has_started)
    }

    /// Bytes of the stream that have arrived.
    pub(super) fn received(&self) -> usize {
        let reading = self.stream.as_ref().map(wire::Stream::received);
        reading.or(self.ended).unwrap_or_default()
    }

    /// Reads to the end. No part of a broken answer is ever returned as a reply.
    pub(super) async fn run(&mut self, progress: OnProgress<'_>) -> Result<Reply, Fault> {
        // We ask for `identity`; a proxy that compresses all the same would give us bytes that look
        // like a broken stream.
        if let Some(encoding) = self.response.headers().get(header::CONTENT_ENCODING)
            && encoding != "identity"
        {
            return Err(Fault::malformed("the answer is compressed, which was not asked for"));
        }
        let mut head = Vec::new();
        // The body decides, not the content type: compatible servers and proxies send wrong types.
        let shape = loop {
            let Some(chunk) = self.chunk().await? else { break shape_of(&head) };
            head.extend_from_slice(&chunk);
            match shape_of(&head) {
                // Some servers send keep-alive white space before the first event.
                BodyFormat::Unknown if head.len() < 4096 => {}
                BodyFormat::Unknown => break BodyFormat::Events,
                known => break known,
            }
        };
        match shape {
            BodyFormat::Unknown => Err(Fault::new(FaultKind::Cut, "the answer is empty")),
            BodyFormat::Events => self.events(&head, progress).await,
            BodyFormat::Document => self.document(head).await,
            BodyFormat::Page => Err(Fault::malformed(
                "an HTML page; check that the base URL names the API and that no login or proxy page is in between",
            )),
        }
    }

    async fn events(&mut self, head: &[u8], progress: OnProgress<'_>) -> Result<Reply, Fault> {
        self.push(head, progress)?;
        while !self.is_complete() {
            let Some(chunk) = self.chunk().await? else { break };
            self.push(&chunk, progress)?;
        }
        if self.is_complete() {
            // hyper reuses a connection only when the body was read to its end.
            while let Ok(Ok(Some(_))) = timeout(TAIL_TIMEOUT, self.response.chunk()).await {}
        }
        match self.stream.take() {
            Some(stream) => {
                self.ended = stream.has_started().then_some(stream.received());
                stream.finish(progress)
            }
            None => Err(Fault::malformed("no decoder for this wire")),
        }
    }

    fn push(&mut self, bytes: &[u8], progress: OnProgress<'_>) -> Result<(), Fault> {
        self.stream.as_mut().map_or(Ok(()), |stream| stream.push(bytes, progress))
    }

    fn is_complete(&self) -> bool {
        self.stream.as_ref().is_some_and(wire::Stream::is_complete)
    }

    async fn document(&mut self, mut body: Vec<u8>) -> Result<Reply, Fault> {
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_DOCUMENT {
                return Err(Fault::malformed(format!("the answer exceeds {MAX_DOCUMENT} bytes")));
            }
        }
        wire::decode_whole(self.wire, &String::from_utf8_lossy(&body))
    }

    /// The next bytes; `None` at the proper end of the body.
    async fn chunk(&mut self) -> Result<Option<bytes::Bytes>, Fault> {
        match timeout(self.idle, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(err)) => Err(Fault::new(
                FaultKind::Cut,
                format!("the connection broke in mid-answer: {}", causes(&err)),
            )),
            Err(_) => {
                let seconds = self.idle.as_secs_f64();
                Err(Fault::new(FaultKind::Cut, format!("the answer stalled for {seconds} s")))
            }
        }
    }
}

fn shape_of(head: &[u8]) -> BodyFormat {
    // The standard of server-sent events allows a byte order mark.
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    match head.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => BodyFormat::Unknown,
        Some(b'<') => BodyFormat::Page,
        Some(b'{' | b'[') => BodyFormat::Document,
        Some(_) => BodyFormat::Events,
    }
}

/// No answer at all.
pub(crate) fn transport_fault(err: &reqwest::Error) -> Fault {
    let host = err.url().and_then(|url| url.host_str()).unwrap_or("the host").to_owned();
    let (kind, what) = if roots::is_refused(err) {
        (FaultKind::Untrusted, format!("the certificate of `{host}` is not trusted"))
    } else if err.is_connect() {
        (FaultKind::Unreachable, format!("cannot connect to `{host}`"))
    } else if err.is_timeout() {
        (FaultKind::Unavailable, format!("`{host}` did not answer in time"))
    } else {
        (FaultKind::Unavailable, format!("the request to `{host}` failed"))
    };
    Fault::new(kind, format!("{what}: {}", causes(err)))
}

/// The causes of an error without the error itself, which names the URL, whose query may hold a key.
fn causes(err: &reqwest::Error) -> String {
    err.source().map_or_else(|| "the transport failed".to_owned(), chain)
}

/// The parts of an error body that the providers have in common.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    error: Value,
    message: Option<String>,
    detail: Value,
}

/// An answer with another status than 200.
pub(super) async fn error_fault(wire: Wire, response: Response, idle: Duration) -> Fault {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    if (300..400).contains(&status) {
        return redirect_fault(status, headers.get(header::LOCATION));
    }
    let body = error_body(response, idle.min(ERROR_BODY_TIMEOUT)).await;
    let fault = reported(wire, status, &body);
    retry::with_headers(fault, &headers, now())
}

#[expect(clippy::disallowed_methods, reason = "a Retry-After date is compared with the wall clock")]
fn now() -> chrono::DateTime<chrono::Utc> {
    chrono::Utc::now()
}

fn redirect_fault(status: u16, location: Option<&http::HeaderValue>) -> Fault {
    let place = location
        .and_then(|value| value.to_str().ok())
        .and_then(|text| url::Url::parse(text).ok())
        .and_then(|url| url.host_str().map(|host| format!(" to `{host}`")))
        .unwrap_or_default();
    let message = format!(
        "it redirects{place}, which is not followed; set the final address as the base URL"
    );
    Fault::new(FaultKind::Rejected(status), message)
}

async fn error_body(mut response: Response, limit: Duration) -> String {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() >= MAX_ERROR_BODY {
                body.truncate(MAX_ERROR_BODY);
                break;
            }
        }
    };
    // A truncated message still explains the error.
    let _ = timeout(limit, reading).await;
    String::from_utf8_lossy(&body).into_owned()
}

pub(super) fn reported(wire: Wire, status: u16, body: &str) -> Fault {
    if wire == Wire::Gemini
        && let Some(fault) = wire::gemini::error_fault(status, body)
    {
        return fault;
    }
    let parsed: ErrorBody = serde_json::from_str(body).unwrap_or_default();
    let field = |name: &str| match parsed.error.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    let details = parsed.error.pointer("/details/error_code").and_then(Value::as_str);
    let (code, kind) = (field("code"), field("type"));
    let code = if code.is_empty() { details.unwrap_or_default().to_owned() } else { code };
    let message = match (&parsed.error, field("message")) {
        (_, message) if !message.is_empty() => message,
        (Value::String(text), _) => text.clone(),
        _ => parsed
            .message
            .or_else(|| parsed.detail.as_str().map(str::to_owned))
            .unwrap_or_else(|| plain_text(body)),
    };
    let fault =
        ReportedError { status: Some(status), code: &code, kind: &kind, message: &message }.fault();
    match field("param") {
        // `param` names the refused field, which the message often leaves out.
        param if !param.is_empty() && !fault.message.contains(&param) => {
            Fault { message: format!("{} (`{param}`)", fault.message), ..fault }
        }
        _ => fault,
    }
}

/// The body itself when it is text; of a page only that it is one.
fn plain_text(body: &str) -> String {
    match body.trim_start().chars().next() {
        None => String::new(),
        Some('<') => "an HTML page".to_owned(),
        Some(_) => body.chars().take(2000).collect(),
    }
}
