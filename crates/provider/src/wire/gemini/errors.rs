//! Google's error objects: `{"error": {"code", "message", "status", "details": […]}}`, alone or in a
//! list, as `google.rpc.Status` and `google/rpc/error_details.proto` describe them.
//!
//! The words of the message do not tell a limit that passes in a minute from one that passes
//! tomorrow, both say "exceeded your current quota": the details do.

use std::time::Duration;

use serde_json::Value;

use super::{Name, field, text_field};
use crate::wire::fault::{self, Fault, FaultKind, ReportedError};

const RETRY_DELAY: Name = ("retryDelay", "retry_delay");
const QUOTA_ID: Name = ("quotaId", "quota_id");
const QUOTA_METRIC: Name = ("quotaMetric", "quota_metric");
const QUOTA_VALUE: Name = ("quotaValue", "quota_value");

/// What the details of an error add to its message.
#[derive(Default)]
struct Details<'a> {
    wait: Option<Duration>,
    /// A quota that no retry helps: of a day, or of nothing at all.
    is_used_up: bool,
    reasons: Vec<&'a str>,
}

/// The fault in the body of an answer with another status than 200; `None` when the body has no
/// error object.
pub fn error_fault(status: u16, body: &str) -> Option<Fault> {
    let body: Value = serde_json::from_str(body).ok()?;
    let holder = match &body {
        Value::Array(list) => list.iter().find(|element| element.get("error").is_some())?,
        single => single,
    };
    let error = holder.get("error").filter(|error| error.is_object())?;
    Some(fault(Some(status), error))
}

/// The fault that an error object is; `status` is that of the answer, where it was not 200.
pub fn fault(status: Option<u16>, error: &Value) -> Fault {
    let text = |key: &str| match error.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    let message = error.as_str().map_or_else(|| text("message"), str::to_owned);
    let (number, kind, word) = (text("code"), text("type"), text("status"));
    let named = number.parse().ok().filter(|code| (400..600).contains(code));
    let status = status.or(named).or_else(|| status_of(&word));
    let code = if word.is_empty() { &number } else { &word };
    let details = Details::parse(error);
    let mut fault = ReportedError { status, code, kind: &kind, message: &message }.fault();
    fault.kind = refined(fault.kind, status, &details, &message);
    fault.wait = match fault.kind {
        FaultKind::RateLimited | FaultKind::Unavailable => {
            details.wait.or(fault.wait).or_else(|| fault::wait_in_text(&message))
        }
        _ => None,
    };
    fault
}

/// The error object has the form of Google's, whatever the wire.
pub fn is_googles(error: &Value) -> bool {
    error.get("status").and_then(Value::as_str).is_some_and(|word| status_of(word).is_some())
}

/// The HTTP status of a code of `google.rpc.Code`, for errors inside a stream that leave it out.
fn status_of(word: &str) -> Option<u16> {
    Some(match word {
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => 400,
        "UNAUTHENTICATED" => 401,
        "PERMISSION_DENIED" => 403,
        "NOT_FOUND" => 404,
        "RESOURCE_EXHAUSTED" => 429,
        "CANCELLED" | "ABORTED" | "UNAVAILABLE" => 503,
        "INTERNAL" | "UNKNOWN" | "DATA_LOSS" => 500,
        "UNIMPLEMENTED" => 501,
        "DEADLINE_EXCEEDED" => 504,
        _ => return None,
    })
}

fn refined(
    kind: FaultKind,
    status: Option<u16>,
    details: &Details<'_>,
    message: &str,
) -> FaultKind {
    let message = message.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    let bad_key = details.reasons.iter().any(|reason| reason.starts_with("API_KEY_"));
    match status {
        Some(400) if bad_key || says(BAD_KEY) => FaultKind::Authentication,
        Some(400 | 413) if says(TOO_LARGE) => FaultKind::ContextOverflow,
        Some(429) => {
            let no_more = details.is_used_up || details.reasons.contains(&"QUOTA_EXHAUSTED");
            if no_more || says(USED_UP) { FaultKind::Quota } else { FaultKind::RateLimited }
        }
        // The server gave up on the request, or the client of a proxy did.
        Some(499) => FaultKind::Unavailable,
        _ => kind,
    }
}

const BAD_KEY: &[&str] = &["api key not valid", "api key expired", "api key not found"];
const TOO_LARGE: &[&str] = &["request payload size exceeds"];
const USED_UP: &[&str] =
    &["spending cap", "credits are depleted", "limit: 0,", "billing hard limit"];

impl<'a> Details<'a> {
    fn parse(error: &'a Value) -> Details<'a> {
        let mut details = Details::default();
        let list = error.get("details").and_then(Value::as_array);
        for detail in list.into_iter().flatten() {
            if let Some(delay) = text_field(detail, RETRY_DELAY).and_then(fault::duration) {
                details.wait = Some(delay);
            }
            details.reasons.extend(detail.get("reason").and_then(Value::as_str));
            let violations = detail.get("violations").and_then(Value::as_array);
            details.is_used_up |= violations.into_iter().flatten().any(is_used_up);
        }
        details
    }
}

/// `…PerDayPerProject…`, or a limit of zero: the plan does not have this model.
fn is_used_up(violation: &Value) -> bool {
    let names = [QUOTA_ID, QUOTA_METRIC].map(|name| text_field(violation, name));
    let is_daily = names.into_iter().flatten().any(|name| {
        let name = name.to_ascii_lowercase().replace(['_', '-'], "");
        name.contains("perday") || name.contains("daily")
    });
    let is_zero = match field(violation, QUOTA_VALUE) {
        Some(Value::String(value)) => value == "0",
        Some(value) => value.as_u64() == Some(0),
        None => false,
    };
    is_daily || is_zero
}
