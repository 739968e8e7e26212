//! Rate limits as GitHub tells them: in the status, the headers and the words of an answer.
//!
//! Read by git's requests ([`super::http`]) and by those of the API (`forge/github/limits.rs`): both
//! are refused in the same way. It decides what an answer means, not how long anybody waits.

use std::time::Duration;

use chrono::DateTime;
use http::{HeaderMap, StatusCode};

/// Waits for a secondary limit that names no time: the first one, doubled each time.
pub const SECONDARY_WAIT: Duration = Duration::from_mins(1);

/// A refusal that is about how often, not about what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Wait this long.
    For(Duration),
    /// A secondary limit that names no time.
    Unexplained,
}

/// Reads the rate limit out of an answer. `None`: this answer is about something else, for example
/// a missing permission, which no waiting repairs.
pub fn limit(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Option<Limit> {
    if status != StatusCode::FORBIDDEN && status != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    if let Some(seconds) = number(headers, "retry-after") {
        return Some(Limit::For(Duration::from_secs(seconds)));
    }
    if number(headers, "x-ratelimit-remaining") == Some(0) {
        let wait = number(headers, "x-ratelimit-reset").map_or(SECONDARY_WAIT.as_secs(), |reset| {
            reset.saturating_sub(server_time(headers)) + 1
        });
        return Some(Limit::For(Duration::from_secs(wait)));
    }
    let text = String::from_utf8_lossy(body).to_lowercase();
    let secondary = text.contains("secondary rate limit") || text.contains("abuse detection");
    (secondary || status == StatusCode::TOO_MANY_REQUESTS).then_some(Limit::Unexplained)
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// Seconds since 1970 by the server's own clock, so that a wrong clock here does no harm. Without
/// a `Date` the reset time counts as passed, and the answer to the next request decides.
fn server_time(headers: &HeaderMap) -> u64 {
    let date = headers.get(http::header::DATE).and_then(|date| date.to_str().ok());
    date.and_then(|date| DateTime::parse_from_rfc2822(date).ok())
        .and_then(|date| u64::try_from(date.timestamp()).ok())
        .unwrap_or(u64::MAX)
}
