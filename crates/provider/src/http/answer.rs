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
use crate::wire::fault::{self, ErrorObject, Fault, FaultKind};
use crate::wire::lenient;
use crate::{OnProgress, Reply};
use patchwright_base::error::chain;
use patchwright_base::{proxies, roots};

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
pub(super) struct ResponseReader {
    wire: Wire,
    response: Response,
    idle: Duration,
    stream: Option<wire::Stream>,
    /// Set when the stream was taken apart: it had begun, and so many bytes of the model's had arrived.
    ended: Option<usize>,
}

/// What the first bytes of an answer show it to be.
enum BodyFormat {
    Unknown,
    Events,
    Document,
    Page,
}

impl ResponseReader {
    pub(super) fn new(wire: Wire, response: Response, idle: Duration) -> ResponseReader {
        ResponseReader { wire, response, idle, stream: Some(wire::Stream::new(wire)), ended: None }
    }

    /// True when events have arrived, so that the attempt may be billed.
    pub(super) fn has_started(&self) -> bool {
        self.ended.is_some() || self.stream.as_ref().is_some_and(wire::Stream::has_started)
    }

    /// Bytes of what the model has written that have arrived.
    pub(super) fn written(&self) -> usize {
        let reading = self.stream.as_ref().map(wire::Stream::written);
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
                self.ended = stream.has_started().then_some(stream.written());
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

/// No answer at all, from a client that uses the proxies of the environment.
pub(crate) fn transport_fault(err: &reqwest::Error) -> Fault {
    fault_on_the_way(err, proxies::of_error(err))
}

/// No answer at all, from a client that uses no proxies.
pub(crate) fn direct_fault(err: &reqwest::Error) -> Fault {
    fault_on_the_way(err, None)
}

fn fault_on_the_way(err: &reqwest::Error, proxy: Option<String>) -> Fault {
    let host = err.url().and_then(|url| url.host_str()).unwrap_or("the host").to_owned();
    let (kind, what) = if roots::is_refused(err) {
        (FaultKind::Untrusted, format!("the certificate of `{host}` is not trusted"))
    } else if err.is_connect() {
        match proxy {
            Some(way) => (FaultKind::ProxyUnreachable, format!("cannot connect to `{host}` {way}")),
            None => (FaultKind::Unreachable, format!("cannot connect to `{host}`")),
        }
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
    #[serde(deserialize_with = "lenient::text")]
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
    let body_of = |value| serde_json::from_value(fault::unlisted(value)).ok();
    let parsed: ErrorBody = serde_json::from_str(body).ok().and_then(body_of).unwrap_or_default();
    let param = fault::word(&parsed.error, "param");
    let otherwise = || {
        let detail = || parsed.detail.as_str().map(str::to_owned);
        parsed.message.or_else(detail).unwrap_or_else(|| plain_text(body))
    };
    let fault = ErrorObject(parsed.error).fault_with(Some(status), otherwise);
    match param {
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
        Some('<') => fault::HTML_PAGE.to_owned(),
        Some(_) => body.chars().take(2000).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::http::answer::reported;
    use crate::item::Wire;
    use crate::wire::fault::{Fault, FaultKind};

    fn refused(status: u16, message: &str) -> Fault {
        reported(Wire::Chat, status, &json!({"error": {"message": message}}).to_string())
    }

    #[test]
    fn a_conversation_that_is_too_long_is_known_by_each_servers_words() {
        let rows = [
            (
                400,
                "You passed 33001 input tokens and requested 4096 output tokens. However, the model's context length is only 32768 tokens, resulting in a maximum input length of 28672 tokens.",
            ),
            (
                400,
                "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
            ),
            (
                400,
                "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
            ),
            (400, "Prompt exceeds max length"),
            (400, "invalid params, context window exceeds limit (2013)"),
            (
                400,
                "Reached context length of 4096 tokens with model (arch: qwen3) that does not currently support mid-generation context overflow. Try reloading with a larger context length or shortening the prompt/chat.",
            ),
            (400, "the input length exceeds the context length"),
            (500, "Context size has been exceeded."),
            (400, "prompt token count of 140000 exceeds the limit of 128000"),
            (
                400,
                "The decoder prompt (length 40000) is longer than the maximum model length of 32768.",
            ),
            (400, "max_tokens must be at least 1, got -808."),
            (
                422,
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 512 `max_new_tokens`",
            ),
            (422, "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000"),
            (400, "too many tokens: total number of tokens in the prompt cannot exceed 4081"),
            (400, "Input and output tokens exceed the configured limit of 128000 tokens"),
            (422, "The sum of input length 40000 and `max_new_tokens` must be at most 32769"),
            (413, "Request body too large for gpt-4o model. Max size: 8000 tokens."),
            (413, "Request Entity Too Large"),
            (413, ""),
            (
                429,
                "Request too large for gpt-5 on tokens per min (TPM): Limit 30000, Requested 40000.",
            ),
        ];
        for (status, message) in rows {
            assert_eq!(refused(status, message).kind, FaultKind::ContextOverflow, "{message}");
        }
        let code = json!({"error": {"code": "model_max_prompt_tokens_exceeded", "message": "no"}});
        let fault = reported(Wire::Chat, 400, &code.to_string());
        assert_eq!(fault.kind, FaultKind::ContextOverflow);
        let page = reported(Wire::Messages, 413, "<html>413 Request Entity Too Large</html>");
        assert_eq!(page.kind, FaultKind::ContextOverflow);
        // A server's trouble, and a limit that passes, may quote the same words.
        let of_server = refused(500, "the model's context length is only 32768 tokens");
        assert_eq!(of_server.kind, FaultKind::Unavailable);
        let passing = refused(429, "Too many tokens, please wait before trying again.");
        assert_eq!(passing.kind, FaultKind::RateLimited);
        let other = refused(400, "Too many tokens per day, try again later");
        assert_eq!(other.kind, FaultKind::Rejected(400));
    }

    #[test]
    fn a_refusal_for_the_size_of_pictures_is_about_them() {
        let rows = [
            (400, "messages.3.content.1: at most 2000 pixels in many-image requests"),
            (413, "Request too large: images exceed 30 MB"),
            (400, "Unsupported MIME type: image/gif"),
        ];
        for (status, message) in rows {
            assert_eq!(refused(status, message).kind, FaultKind::Pictures, "{message}");
        }
    }

    #[test]
    fn accounts_without_money_and_judged_inputs_are_known_by_what_each_provider_says() {
        let coded = |code: &str, kind: &str, message: &str| json!({"error": {"code": code, "type": kind, "message": message}});
        let xai = |message: &str| json!({"code": "The caller may not", "error": message});
        let spent = "used all available credits or reached its monthly spending limit";
        let rows = [
            (429, coded("", "exceeded_current_quota_error", "suspended"), FaultKind::Quota),
            (429, coded("1113", "", "Insufficient balance. Please recharge."), FaultKind::Quota),
            (400, coded("Arrearage", "Arrearage", "not in good standing"), FaultKind::Quota),
            (403, xai(spent), FaultKind::Quota),
            (412, coded("PRECONDITION_FAILED", "", spent), FaultKind::Quota),
            (429, coded("1302", "", "High concurrency usage of this API"), FaultKind::RateLimited),
            (500, coded("", "", "the prompt says: insufficient balance"), FaultKind::Unavailable),
            (400, xai("Incorrect API key provided: k"), FaultKind::Authentication),
            (400, coded("data_inspection_failed", "", "no"), FaultKind::Filtered),
            (
                400,
                coded("1301", "", "potentially unsafe or sensitive content in input"),
                FaultKind::Filtered,
            ),
        ];
        for (status, body, kind) in rows {
            assert_eq!(reported(Wire::Chat, status, &body.to_string()).kind, kind, "{body}");
        }
    }

    /// An error of Google's, with the id of a quota and the wait.
    fn googles(quota: &str, message: &str) -> Value {
        json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": message, "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"},
        ]}})
    }

    #[test]
    fn googles_limit_of_a_minute_is_waited_for_wherever_it_comes_through() {
        let message = "You exceeded your current quota, please check your plan and billing details. Please retry in 2.073s.";
        let minute = googles("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", message);
        let day = googles("GenerateRequestsPerDayPerProjectPerModel-FreeTier", message);
        let quoted = |error: &Value| {
            let text =
                format!("litellm.RateLimitError: RateLimitError: VertexAIException - {error}");
            json!({"error": {"message": text, "type": null, "param": null, "code": "429"}})
        };
        let words = json!({"error": {"code": "429", "message": message}});
        for body in [minute.clone(), json!([minute.clone()]), quoted(&minute), words] {
            let fault = reported(Wire::Chat, 429, &body.to_string());
            assert_eq!(fault.kind, FaultKind::RateLimited, "{body}");
            assert!(fault.wait.is_some_and(|wait| wait.as_secs() == 2), "{body}: {fault:?}");
        }
        let plain = "You exceeded your current quota, please check your plan and billing details.";
        let openai = json!({"error": {"code": "insufficient_quota", "message": plain}});
        let routed = json!({"error": {"code": "429", "message": format!("litellm.RateLimitError: OpenAIException - {plain}")}});
        for body in [day.clone(), json!([day.clone()]), quoted(&day), openai, routed] {
            let fault = reported(Wire::Chat, 429, &body.to_string());
            assert_eq!(fault.kind, FaultKind::Quota, "{body}");
        }
    }

    #[test]
    fn what_the_provider_behind_a_router_says_is_told_and_counts() {
        let raw = |raw: &Value| {
            let metadata = json!({"provider_name": "DeepInfra", "raw": raw.to_string()});
            json!({"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}})
        };
        let long = raw(
            &json!({"error": {"message": "This model's maximum context length is 8 tokens", "type": "x"}}),
        );
        let fault = reported(Wire::Chat, 400, &long.to_string());
        let expected =
            "Provider returned error (DeepInfra: This model's maximum context length is 8 tokens)";
        assert_eq!((fault.kind, fault.message.as_str()), (FaultKind::ContextOverflow, expected));
        let coded = raw(&json!([{"error": {"code": "context_length_exceeded", "message": "no"}}]));
        let fault = reported(Wire::Chat, 400, &coded.to_string());
        assert_eq!(fault.kind, FaultKind::ContextOverflow);
        let words = json!({"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": "m is limited upstream", "provider_name": "P"}}});
        let fault = reported(Wire::Chat, 429, &words.to_string());
        assert_eq!(fault.kind, FaultKind::RateLimited);
        assert_eq!(fault.message, "Provider returned error (P: m is limited upstream)");
        let named =
            json!({"error": {"message": "No", "code": 400, "metadata": {"provider_name": "P"}}});
        assert_eq!(reported(Wire::Chat, 400, &named.to_string()).message, "No (P)");
        let other = json!({"error": {"message": "No", "code": 400, "metadata": {"headers": {}}}});
        assert_eq!(reported(Wire::Chat, 400, &other.to_string()).message, "No");
    }

    #[test]
    fn judged_input_is_filtered_and_not_a_matter_of_the_key() {
        let policy = json!({"error": {"code": "invalid_prompt", "message": "Invalid prompt: your prompt was flagged as potentially violating our usage policy."}});
        let moderated = json!({"error": {"code": 403, "message": "m requires moderation on P. Your input was flagged for \"violence\".", "metadata": {"reasons": ["violence"], "provider_name": "P"}}});
        for (status, body) in [(400, policy), (403, moderated)] {
            let fault = reported(Wire::Chat, status, &body.to_string());
            assert_eq!(fault.kind, FaultKind::Filtered, "{body}");
        }
        let other = json!({"error": {"code": "invalid_prompt", "message": "no"}});
        assert_eq!(reported(Wire::Chat, 400, &other.to_string()).kind, FaultKind::Rejected(400));
        for message in ["not for you", "This API key was flagged"] {
            assert_eq!(refused(403, message).kind, FaultKind::Authentication, "{message}");
        }
    }
}
