//! What a provider's error means, on every wire.
//!
//! A [`Fault`] is an error as a wire or the HTTP layer saw it: a kind with one right reaction, a
//! message and, when the provider named one, the wait. [`super::super::retry`] decides from it
//! whether to try again; [`super::super::http`] turns the last one into a
//! [`super::super::ProviderError`].

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// Why one attempt gave no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// What the provider said, or what was observed. Untrusted text.
    pub message: String,
    /// How long the provider asked to wait.
    pub wait: Option<Duration>,
    /// The provider said that trying again is no use.
    pub is_final: bool,
}

/// The kinds of fault. The first four may pass if the request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Too many requests or tokens a minute.
    RateLimited,
    /// 5xx, overload, or no answer.
    Unavailable,
    /// No connection.
    Unreachable,
    /// The answer ended before its final event.
    Cut,
    /// The server's certificate is signed by nobody whom this machine trusts.
    Untrusted,
    /// Out of credit or over a spending limit.
    Quota,
    /// The key or its rights.
    Authentication,
    /// There are no credentials to be had, so nothing was asked.
    SignIn,
    /// The conversation is longer than the model's context window.
    ContextOverflow,
    /// A content filter or safety system.
    Filtered,
    /// The reply that the request builds on is not stored (any more): everything has to be sent.
    Forgotten,
    /// Sealed thoughts in the conversation are another account's, or another model's.
    Sealed,
    /// A picture of the conversation cannot be read, or the model takes none.
    Pictures,
    /// The request is wrong, with this HTTP status.
    Rejected(u16),
    /// The answer is not in the protocol.
    Malformed,
}

impl Fault {
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault { kind, message: message.into(), wait: None, is_final: false }
    }

    pub fn malformed(message: impl Into<String>) -> Fault {
        Fault::new(FaultKind::Malformed, message)
    }

    /// True when the same request may succeed later.
    pub fn may_pass(&self) -> bool {
        let may = match self.kind {
            FaultKind::RateLimited
            | FaultKind::Unavailable
            | FaultKind::Unreachable
            | FaultKind::Cut => true,
            FaultKind::Untrusted
            | FaultKind::Quota
            | FaultKind::Authentication
            | FaultKind::SignIn
            | FaultKind::ContextOverflow
            | FaultKind::Filtered
            | FaultKind::Forgotten
            | FaultKind::Sealed
            | FaultKind::Pictures
            | FaultKind::Rejected(_)
            | FaultKind::Malformed => false,
        };
        may && !self.is_final
    }
}

/// An error as a provider reports it: the parts that the wires have in common.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportedError<'a> {
    /// The HTTP status; `None` for an error inside a stream that began with 200.
    pub status: Option<u16>,
    /// `code` (OpenAI) or `status` (Google).
    pub code: &'a str,
    /// `type` (OpenAI, Anthropic).
    pub kind: &'a str,
    pub message: &'a str,
}

impl ReportedError<'_> {
    /// The fault that this error is.
    pub fn fault(self) -> Fault {
        let kind = self.fault_kind();
        let message = if self.message.is_empty() { self.words() } else { self.message.to_owned() };
        let waits = matches!(kind, FaultKind::RateLimited | FaultKind::Unavailable);
        let wait = if waits { wait_in_text(self.message) } else { None };
        Fault { kind, message, wait, is_final: false }
    }

    fn fault_kind(self) -> FaultKind {
        let named = |words: &[&str]| words.contains(&self.code) || words.contains(&self.kind);
        let status = self.status.unwrap_or(0);
        if named(OVERFLOW_CODES) || (self.is_about_the_request() && says(self.message, OVERFLOW)) {
            return FaultKind::ContextOverflow;
        }
        // Quota before rate limit: OpenAI answers 429 for both, and waiting does not refill an
        // account.
        if status == 402 || named(QUOTA_CODES) || says(self.message, QUOTA) {
            return FaultKind::Quota;
        }
        if named(FILTER_CODES) || (self.is_about_the_request() && says(self.message, FILTER)) {
            return FaultKind::Filtered;
        }
        if named(&["previous_response_not_found"])
            || (self.is_about_the_request() && says(self.message, &["previous response with id"]))
        {
            return FaultKind::Forgotten;
        }
        if named(&["invalid_encrypted_content"])
            || (self.is_about_the_request() && says(self.message, SEALED))
        {
            return FaultKind::Sealed;
        }
        let may_be_a_picture = self.is_about_the_request() || status == 404;
        if named(PICTURE_CODES) || (may_be_a_picture && says(self.message, PICTURE)) {
            return FaultKind::Pictures;
        }
        if matches!(status, 401 | 403) || (status == 0 && named(AUTHENTICATION_CODES)) {
            return FaultKind::Authentication;
        }
        // Inside a stream there is no status, so the code decides.
        if status == 429 || (status == 0 && named(RATE_CODES)) {
            return FaultKind::RateLimited;
        }
        if status == 500 && self.is_about_a_template() {
            return FaultKind::Rejected(status);
        }
        // 501 and 505 mean that the server never can; other 5xx mean that it cannot now.
        if matches!(status, 408 | 409 | 425) || (status >= 500 && !matches!(status, 501 | 505)) {
            return FaultKind::Unavailable;
        }
        if status == 0 && !named(REQUEST_CODES) {
            // An unknown error inside a stream is treated as the server's: the request was accepted
            // before.
            return FaultKind::Unavailable;
        }
        FaultKind::Rejected(if status == 0 { 400 } else { status })
    }

    /// Texts are only looked into where the status does not already say something else: a
    /// server error that quotes the prompt must stay a server error.
    fn is_about_the_request(self) -> bool {
        matches!(self.status, None | Some(400 | 413 | 422))
    }

    /// llama.cpp, and what is built on it, says with 500 that the model's chat template takes no such
    /// conversation, or that there is none that takes tools. It will say so again.
    fn is_about_a_template(self) -> bool {
        says(self.message, TEMPLATE) || self.message.starts_with("template: ")
    }

    fn words(self) -> String {
        let mut words = vec!["no message".to_owned()];
        words.extend(self.status.map(|status| format!("status {status}")));
        for word in [self.kind, self.code] {
            if !word.is_empty() {
                words.push(format!("`{word}`"));
            }
        }
        words.join(", ")
    }
}

/// An error object inside a 200, in any of the shapes in which one is sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ErrorObject {
    pub code: Option<Value>,
    pub r#type: Option<String>,
    pub message: Option<String>,
}

impl ErrorObject {
    pub fn fault(&self) -> Fault {
        let code = match &self.code {
            Some(Value::String(code)) => code.clone(),
            Some(Value::Number(code)) => code.to_string(),
            _ => String::new(),
        };
        // Gateways put the HTTP status that they would have sent into `code`.
        let status = code.parse().ok().filter(|status| (400..600).contains(status));
        let kind = self.r#type.as_deref().unwrap_or_default();
        // In the flat form `type` is the event's type, not the error's.
        let kind = if kind == "error" { "" } else { kind };
        let message = self.message.as_deref().unwrap_or_default();
        ReportedError { status, code: &code, kind, message }.fault()
    }
}

fn says(message: &str, phrases: &[&str]) -> bool {
    let message = message.to_ascii_lowercase();
    phrases.iter().any(|phrase| message.contains(phrase))
}

const OVERFLOW_CODES: &[&str] =
    &["context_length_exceeded", "exceed_context_size_error", "string_above_max_length"];
const OVERFLOW: &[&str] = &[
    "exceeds the context window",
    "maximum context length",
    "prompt is too long",
    "exceed context limit",
    "input token count",
    "exceeds the available context size",
    "exceeds the maximum number of tokens",
    "context length exceeded",
    // Bedrock, xAI, Ollama, Groq, LM Studio and Moonshot in their own words.
    "input is too long for requested model",
    "maximum prompt length",
    "prompt too long",
    "reduce the length of the messages",
    "greater than the context length",
    "loaded with context length of only",
    "exceeded model token limit",
];
/// In the words of llama.cpp (its template engines, old and new) and of LM Studio.
const TEMPLATE: &[&str] = &[
    "jinja exception",
    "prompt with jinja template",
    "raise_exception(",
    "conversation roles must alternate",
    "tools param requires",
    "unsupported param: tools",
    "only user and assistant roles are supported",
];
const QUOTA_CODES: &[&str] = &[
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "usage_limit_reached",
    "usage_not_included",
    "insufficient_credits",
];
const QUOTA: &[&str] = &[
    "exceeded your current quota",
    "credit balance is too low",
    "billing hard limit",
    // Anthropic's spending limits, of an organization and of a workspace, are 400s.
    "specified api usage limits",
    "specified workspace api usage limits",
];
const FILTER_CODES: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "cyber_policy",
    "bio_policy",
    "misalignment_policy_violation",
    "image_content_policy_violation",
    "moderation_blocked",
    "responsibleaipolicyviolation",
    "ResponsibleAIPolicyViolation",
];
const FILTER: &[&str] = &["blocked by content filtering policy"];
/// `OpenAI` on reasoning, Anthropic on thinking.
const SEALED: &[&str] = &[
    "encrypted content could not be",
    "could not be verified. reason: encrypted content",
    "invalid `signature` in `thinking` block",
];
const AUTHENTICATION_CODES: &[&str] = &[
    "invalid_api_key",
    "authentication_error",
    "permission_error",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
];
const RATE_CODES: &[&str] = &[
    "rate_limit_exceeded",
    "rate_limit_error",
    "rate_limited",
    "slow_down",
    "too_many_requests",
    "RESOURCE_EXHAUSTED",
];
/// In-stream errors that come from the request itself, so that sending it again cannot help.
const REQUEST_CODES: &[&str] = &[
    "invalid_request_error",
    "invalid_prompt",
    "data_residency_mismatch",
    "not_found_error",
    "model_not_found",
    "request_too_large",
    "unsupported_value",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
];
/// Of the Responses API.
const PICTURE_CODES: &[&str] = &[
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "invalid_image_mode",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "image_file_too_large",
    "image_file_not_found",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
];
/// In the words of the APIs, and of servers for open models.
const PICTURE: &[&str] = &[
    "does not represent a valid image",
    "unsupported image",
    "invalid image",
    "could not process image",
    ".image.source",
    "image exceeds",
    "image dimensions",
    "does not match the provided media type",
    "process input image",
    "provided image is not valid",
    "image input",
    "cannot identify image file",
    "failed to load image",
    "not a multimodal model",
];

/// The wait that a message names: "Please try again in 1.898s", "in 44ms", "in 6m0s",
/// "retry after 20 seconds".
pub fn wait_in_text(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    let start = ["try again in ", "retry after ", "retry in "]
        .iter()
        .find_map(|words| lower.find(words).map(|at| at + words.len()))?;
    duration(lower[start..].trim_start())
}

/// Reads `1.898s`, `44ms`, `6m0s`, `1h2m`, `20 seconds` at the start of a text.
pub fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds = None;
    loop {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse::<f64>() else { break };
        let after = rest[digits..].trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let factor = match &after[..letters] {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hour" | "hours" => 3600.0,
            _ => break,
        };
        seconds = Some(seconds.unwrap_or(0.0) + number * factor);
        rest = &after[letters..];
    }
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}
