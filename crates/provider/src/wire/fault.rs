//! What a provider's error means, on every wire.
//!
//! A [`Fault`] is an error as a wire or the HTTP layer saw it: a kind with one right reaction, a
//! message and, when the provider named one, the wait. [`super::super::retry`] decides from it
//! whether to try again; [`super::super::http`] turns the last one into a
//! [`super::super::ProviderError`].

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use self::phrases::{
    ANY_QUOTA, AUTHENTICATION_CODES, FILTER, FILTER_CODES, LONG_LIMITS, MODERATION, NO_MONEY,
    OF_ACCOUNTS, OF_PICTURES, OVERFLOW, OVERFLOW_CODES, OVERFLOW_OF_SLOTS, PASSES, PICTURE,
    PICTURE_CODES, QUOTA, QUOTA_CODES, RATE_CODES, REQUEST_CODES, SEALED, SHORT_LIMITS, TEMPLATE,
    TOO_LARGE, TOO_MANY, UNREADABLE_CODES, USAGE_POLICY, WRONG_KEY,
};
use super::gemini;
use crate::item::Usage;

mod phrases;
mod routed;
mod unreadable;

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
    /// What the provider says that the attempt used, where it says that.
    pub usage: Option<Usage>,
}

/// The kinds of fault. The first five may pass if the request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Too many requests or tokens a minute.
    RateLimited,
    /// 5xx, overload, or no answer.
    Unavailable,
    /// No connection.
    Unreachable,
    /// No connection to the proxy on the way.
    ProxyUnreachable,
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
    /// The model made a call that the server could not read: its mistake, and not the request's.
    UnreadableCall,
    /// The request is wrong, with this HTTP status.
    Rejected(u16),
    /// The answer is not in the protocol.
    Malformed,
}

impl Fault {
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault { kind, message: message.into(), wait: None, is_final: false, usage: None }
    }

    pub fn malformed(message: impl Into<String>) -> Fault {
        Fault::new(FaultKind::Malformed, message)
    }

    /// With what the provider says that the attempt used. Figures that are absent, or that a gateway has filled in with
    /// zeros, say nothing.
    #[must_use]
    pub fn using(self, usage: Usage) -> Fault {
        let usage = Some(usage).filter(|usage| !usage.estimated && usage.input > 0);
        Fault { usage, ..self }
    }

    /// True when the same request may succeed later.
    pub fn may_pass(&self) -> bool {
        let may = match self.kind {
            FaultKind::RateLimited
            | FaultKind::Unavailable
            | FaultKind::Unreachable
            | FaultKind::ProxyUnreachable
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
            | FaultKind::UnreadableCall
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
        Fault { kind, message, wait, is_final: false, usage: None }
    }

    fn fault_kind(self) -> FaultKind {
        let named = |words: &[&str]| words.contains(&self.code) || words.contains(&self.kind);
        let status = self.status.unwrap_or(0);
        let in_words = || self.is_about_the_request() && says_too_long(self.message);
        // A request that is larger than all that an account may send in a minute never passes either.
        let over_a_limit = || status == 429 && says(self.message, &[TOO_LARGE]);
        let of_slots = || says(self.message, OVERFLOW_OF_SLOTS);
        if named(OVERFLOW_CODES) || in_words() || over_a_limit() || of_slots() {
            return FaultKind::ContextOverflow;
        }
        if named(UNREADABLE_CODES) {
            return FaultKind::UnreadableCall;
        }
        // Quota before rate limit: OpenAI answers 429 for both, and waiting does not refill an
        // account.
        let is_limit = says(self.message, &[ANY_QUOTA]);
        if status == 402
            || named(QUOTA_CODES)
            || says(self.message, QUOTA)
            || (status < 500 && says(self.message, NO_MONEY))
            || (is_limit && !self.is_short_limit())
        {
            return FaultKind::Quota;
        }
        if self.is_filtered() {
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
        // Bytes are counted there, not tokens, but what helps is the same: less of the conversation.
        if status == 413 || named(&["request_too_large"]) {
            let is_of_pictures = says(self.message, OF_PICTURES);
            return if is_of_pictures { FaultKind::Pictures } else { FaultKind::ContextOverflow };
        }
        if matches!(status, 401 | 403)
            || (status == 0 && named(AUTHENTICATION_CODES))
            || (status == 400 && says(self.message, WRONG_KEY))
        {
            return FaultKind::Authentication;
        }
        // Inside a stream there is no status, so the code decides.
        if status == 429 || (status == 0 && (named(RATE_CODES) || is_limit)) {
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

    fn is_filtered(self) -> bool {
        let named = |words: &[&str]| words.contains(&self.code) || words.contains(&self.kind);
        let in_words = says(self.message, FILTER)
            || (named(&["invalid_prompt"]) && says(self.message, USAGE_POLICY));
        let is_judged = self.status == Some(403)
            && says(self.message, MODERATION)
            && !says(self.message, OF_ACCOUNTS);
        named(FILTER_CODES) || (self.is_about_the_request() && in_words) || is_judged
    }

    /// A limit that fills up again while one waits, told in the words of a used-up account: Google's of a
    /// minute, also inside the text of a gateway. The limit of a day names a wait too, of seconds, which is
    /// not how long it lasts.
    fn is_short_limit(self) -> bool {
        let text = squeezed(&format!("{} {}", self.code, self.message));
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let is_short = has(SHORT_LIMITS) || wait_in_text(self.message).is_some();
        is_short && !has(LONG_LIMITS)
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

/// An error object, in any of the shapes in which one is sent.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct ErrorObject(pub Value);

impl ErrorObject {
    /// The error in a field; `None` for an empty one, which some servers send with every answer.
    pub fn in_field(field: Value) -> Option<ErrorObject> {
        let is_one = match &field {
            Value::Object(fields) => !fields.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => false,
        };
        is_one.then_some(ErrorObject(field))
    }

    /// The fault of one inside a 200.
    pub fn fault(&self) -> Fault {
        self.fault_with(None, String::new)
    }

    /// The fault of one that came with this HTTP status; `otherwise` is the message where the object has none.
    pub fn fault_with(&self, status: Option<u16>, otherwise: impl FnOnce() -> String) -> Fault {
        let ErrorObject(error) = self;
        // Google's own form, which comes through its endpoints for other wires and through gateways.
        if gemini::is_googles(error) {
            return gemini::object_fault(status, error);
        }
        let details = error.pointer("/details/error_code").and_then(Value::as_str);
        let mut code = word(error, "code");
        if code.is_empty() {
            details.unwrap_or_default().clone_into(&mut code);
        }
        // Gateways put the HTTP status that they would have sent into `code`.
        let named = || code.parse().ok().filter(|status| (400..600).contains(status));
        let status = status.or_else(named);
        // In the flat form `type` is the event's type, not the error's.
        let mut kind = word(error, "type");
        if kind == "error" {
            kind.clear();
        }
        let mut message = error.as_str().map_or_else(|| word(error, "message"), str::to_owned);
        if message.is_empty() {
            message = otherwise();
        }
        if let Some(routed) = routed::read(error) {
            routed.amend(&mut code, &mut kind, &mut message);
        }
        unreadable::quote(error, &mut message);
        ReportedError { status, code: &code, kind: &kind, message: &message }.fault()
    }
}

/// What is told of a page that stands where an error should be.
pub const HTML_PAGE: &str = "an HTML page";

/// A field that is a text or a number, as a text.
pub fn word(object: &Value, name: &str) -> String {
    match object.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// The only element of a list of one: Google's endpoints send error bodies in a list, on other wires too.
pub fn unlisted(body: Value) -> Value {
    match body {
        Value::Array(mut list) if list.len() == 1 => list.remove(0),
        body => body,
    }
}

fn says(message: &str, phrases: &[&str]) -> bool {
    let message = message.to_ascii_lowercase();
    phrases.iter().any(|phrase| message.contains(phrase))
}

fn says_too_long(message: &str) -> bool {
    says(message, OVERFLOW) || (says(message, &[TOO_MANY]) && !says(message, PASSES))
}

/// In lower case and without what stands between words and around quoted ones.
fn squeezed(text: &str) -> String {
    let is_between = |c: char| c.is_whitespace() || matches!(c, '_' | '-' | '\\');
    text.chars().filter(|c| !is_between(*c)).collect::<String>().to_ascii_lowercase()
}

/// The wait that a message names: "Please try again in 1.898s", "in 44ms", "in 6m0s",
/// "retry after 20 seconds", "Please wait 20 seconds before retrying"; or the one of Google's `RetryInfo` that a gateway quotes.
pub fn wait_in_text(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    let behind = |words: &&str| lower.find(words).map(|at| &lower[at + words.len()..]);
    let told =
        ["try again in ", "retry after ", "retry in ", "please wait "].iter().find_map(behind);
    let quoted = || ["retrydelay", "retry_delay"].iter().find_map(behind);
    let text = told.or_else(quoted)?;
    duration(
        text.trim_start_matches(|c: char| {
            c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | ':')
        }),
    )
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
