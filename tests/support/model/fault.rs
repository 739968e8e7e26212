//! Error answers, each in the shape, the words and the headers of its API.

use patchwright_provider::item::Wire;
use serde_json::{Value, json};

/// An error answer before it is known which protocol it is for.
#[derive(Clone)]
pub(super) struct Fault {
    kind: Kind,
    /// Headers of the test, besides those of the protocol.
    pub(super) headers: Vec<(String, String)>,
}

#[derive(Clone)]
enum Kind {
    Said { status: u16, code: String, message: String },
    Limited(u32),
    Overloaded,
    Overflow,
    Unauthorized,
    Quota,
}

/// An error answer as it is sent.
pub(super) struct Sent {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Fault {
    fn of(kind: Kind) -> Fault {
        Fault { kind, headers: Vec::new() }
    }

    pub(super) fn new(status: u16, code: &str, message: &str) -> Fault {
        Fault::of(Kind::Said { status, code: code.to_owned(), message: message.to_owned() })
    }

    pub(super) fn limited(seconds: u32) -> Fault {
        Fault::of(Kind::Limited(seconds))
    }

    pub(super) fn overloaded() -> Fault {
        Fault::of(Kind::Overloaded)
    }

    pub(super) fn overflow() -> Fault {
        Fault::of(Kind::Overflow)
    }

    pub(super) fn unauthorized() -> Fault {
        Fault::of(Kind::Unauthorized)
    }

    pub(super) fn quota() -> Fault {
        Fault::of(Kind::Quota)
    }

    /// The answer on a wire to request `number`.
    pub(super) fn on(&self, wire: Wire, number: usize) -> Sent {
        let (status, code, message) = self.words(wire);
        let mut headers = self.protocol_headers(wire, number);
        headers.extend(self.headers.iter().cloned());
        let body = match wire {
            Wire::Responses | Wire::Chat => {
                let kind = if code == "context_length_exceeded" || code == "invalid_api_key" {
                    "invalid_request_error"
                } else {
                    &code
                };
                json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            }
            Wire::Messages => json!({
                "type": "error",
                "error": {"type": anthropic_type(status), "message": message},
                "request_id": format!("req_{number:024}"),
            }),
            Wire::Gemini => json!({"error": self.google(status, &message)}),
        };
        Sent { status, headers, body: body.to_string() }
    }

    /// OpenAI's code and the protocol's message, for an error inside a stream.
    pub(super) fn said_in_stream(&self, wire: Wire) -> (String, String) {
        let (_, code, message) = self.words(wire);
        let code = if code.is_empty() { "invalid_request_error".to_owned() } else { code };
        (code, message)
    }

    /// Status, OpenAI's code, and message.
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn words(&self, wire: Wire) -> (u16, String, String) {
        let said =
            |status: u16, code: &str, message: &str| (status, code.to_owned(), message.to_owned());
        match (&self.kind, wire) {
            (Kind::Said { status, code, message }, _) => said(*status, code, message),
            (Kind::Limited(seconds), Wire::Responses | Wire::Chat) => {
                let message = format!(
                    "Rate limit reached for requests. Limit 500, Used 500, Requested 1. Please try again in {seconds}s."
                );
                said(429, "rate_limit_exceeded", &message)
            }
            (Kind::Limited(_), Wire::Messages) => said(
                429,
                "",
                "This request would exceed your account's rate limit. Please try again later.",
            ),
            (Kind::Limited(seconds), Wire::Gemini) => said(
                429,
                "",
                &format!(
                    "You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_requests, limit: 10\nPlease retry in {seconds}s."
                ),
            ),
            (Kind::Overloaded, Wire::Responses | Wire::Chat) => {
                said(503, "server_error", "The server is currently overloaded with other requests.")
            }
            (Kind::Overloaded, Wire::Messages) => said(529, "", "Overloaded"),
            (Kind::Overloaded, Wire::Gemini) => {
                said(503, "", "The model is overloaded. Please try again later.")
            }
            (Kind::Overflow, Wire::Responses) => said(
                400,
                "context_length_exceeded",
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
            ),
            (Kind::Overflow, Wire::Chat) => said(
                400,
                "context_length_exceeded",
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 130154 tokens. Please reduce the length of the messages.",
            ),
            (Kind::Overflow, Wire::Messages) => {
                said(400, "", "prompt is too long: 1000154 tokens > 1000000 maximum")
            }
            (Kind::Overflow, Wire::Gemini) => said(
                400,
                "",
                "The input token count (1050154) exceeds the maximum number of tokens allowed (1048576).",
            ),
            (Kind::Unauthorized, Wire::Responses | Wire::Chat) => {
                said(401, "invalid_api_key", "Incorrect API key provided.")
            }
            (Kind::Unauthorized, Wire::Messages) => said(401, "", "invalid x-api-key"),
            (Kind::Unauthorized, Wire::Gemini) => {
                said(400, "", "API key not valid. Please pass a valid API key.")
            }
            (Kind::Quota, Wire::Responses | Wire::Chat) => said(
                429,
                "insufficient_quota",
                "You exceeded your current quota, please check your plan and billing details.",
            ),
            (Kind::Quota, Wire::Messages) => {
                said(402, "", "Your credit balance is too low to access the Anthropic API.")
            }
            (Kind::Quota, Wire::Gemini) => said(
                429,
                "",
                "You exceeded your current quota, please check your plan and billing details.",
            ),
        }
    }

    fn protocol_headers(&self, wire: Wire, number: usize) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
        match wire {
            Wire::Responses | Wire::Chat => add("x-request-id", format!("req_{number:032x}")),
            Wire::Messages => add("request-id", format!("req_{number:024}")),
            Wire::Gemini => {}
        }
        if let Kind::Limited(seconds) = &self.kind {
            match wire {
                Wire::Responses | Wire::Chat => {
                    add("retry-after", seconds.to_string());
                    add("x-ratelimit-limit-requests", "500".to_owned());
                    add("x-ratelimit-remaining-requests", "0".to_owned());
                    add("x-ratelimit-reset-requests", format!("{seconds}s"));
                }
                Wire::Messages => {
                    add("retry-after", seconds.to_string());
                    add("anthropic-ratelimit-requests-limit", "50".to_owned());
                    add("anthropic-ratelimit-requests-remaining", "0".to_owned());
                    add("anthropic-ratelimit-requests-reset", "2026-11-20T12:00:30Z".to_owned());
                    add("x-should-retry", "true".to_owned());
                }
                // Google documents none.
                Wire::Gemini => {}
            }
        }
        headers
    }

    fn google(&self, status: u16, message: &str) -> Value {
        let mut error = google_error(status, message);
        let quota = |id: &str| {
            json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{
                "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
                "quotaId": id, "quotaValue": "10",
            }]})
        };
        match &self.kind {
            Kind::Limited(seconds) => {
                error["details"] = json!([
                    quota("GenerateRequestsPerMinutePerProjectPerModel"),
                    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")},
                ]);
            }
            Kind::Quota => {
                error["details"] = json!([quota("GenerateRequestsPerDayPerProjectPerModel")]);
            }
            Kind::Unauthorized => {
                error["details"] = json!([{
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "API_KEY_INVALID", "domain": "googleapis.com",
                    "metadata": {"service": "generativelanguage.googleapis.com"},
                }]);
            }
            Kind::Said { .. } | Kind::Overloaded | Kind::Overflow => {}
        }
        error
    }
}

/// Google's error object.
pub(super) fn google_error(status: u16, message: &str) -> Value {
    let word = match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "UNKNOWN",
    };
    json!({"code": status, "message": message, "status": word})
}

/// Anthropic's word for a status.
pub(super) fn anthropic_type(status: u16) -> &'static str {
    match status {
        400 | 422 => "invalid_request_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        408 | 504 => "timeout_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

/// The status for which an error inside a stream stands.
pub(super) fn status_of(code: &str) -> u16 {
    match code {
        "rate_limit_exceeded" | "rate_limit_error" | "RESOURCE_EXHAUSTED" => 429,
        "insufficient_quota" | "billing_error" => 402,
        "overloaded_error" => 529,
        "UNAVAILABLE" => 503,
        "context_length_exceeded" | "invalid_prompt" | "invalid_request_error" => 400,
        "authentication_error" | "invalid_api_key" => 401,
        _ => 500,
    }
}
