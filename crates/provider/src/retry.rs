//! When a failed request is sent again, and after how long. `docs/reliability.md` is the table.
//!
//! The policy is data; time passes only in [`super::http`], which multiplies waits by
//! [`Policy::scale`]. The provider's own wait always wins over ours, with a little jitter on top so
//! that parallel runs do not come back together.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use chrono::{DateTime, Utc};
use http::HeaderMap;
use rand::RngExt;

use super::wire::fault::{self, Fault, FaultKind};

/// How often the provider's own wait is kept to the letter. A wait that has not been enough so often
/// is too short, and ours grows.
const TRUSTED: u32 = 3;

/// What a server's wait counts as when it is longer, or a number too large for us.
const LONGEST_ASKED: Duration = Duration::from_hours(365 * 24);

/// How often and how long a request is tried.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Requests for one turn, the first included.
    pub attempts: u32,
    /// How many of the attempts may be made when answers break off, which may be billed, or when nobody is reached.
    pub broken: u32,
    /// No new attempt starts when this much time has passed since the first, or would have after
    /// the wait.
    pub total: Duration,
    /// First wait when the provider names none; doubles each time.
    pub first_wait: Duration,
    /// Longest wait of ours.
    pub longest_wait: Duration,
    /// Real seconds for each second of waiting: 1, or less to let a test run in no time.
    pub scale: f64,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            attempts: 8,
            broken: 5,
            total: Duration::from_mins(10),
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_mins(1),
            scale: 1.0,
        }
    }
}

impl Policy {
    /// The retries of one turn.
    pub fn begin(&self) -> Retries {
        let ours = ExponentialBuilder::default()
            .with_min_delay(self.first_wait)
            .with_max_delay(self.longest_wait)
            .with_jitter()
            // The policy counts attempts itself, by their kind.
            .without_max_times()
            .build();
        Retries { ours, attempts: 1, broken: 0, policy: self.clone(), spent: Duration::ZERO }
    }

    /// This policy where another model can be asked instead: only what passes in a moment is waited for.
    #[must_use]
    pub fn brief(&self) -> Policy {
        Policy {
            attempts: self.attempts.min(4),
            broken: self.broken.min(3),
            total: self.total.min(Duration::from_mins(1)),
            ..self.clone()
        }
    }

    /// How long a wait really takes.
    pub fn real(&self, wait: Duration) -> Duration {
        wait.mul_f64(self.scale.max(0.0))
    }
}

/// Counts the attempts and the time of one turn.
#[derive(Debug)]
pub struct Retries {
    ours: ExponentialBackoff,
    /// Attempts made.
    attempts: u32,
    /// Attempts that broke off or reached nobody.
    broken: u32,
    policy: Policy,
    spent: Duration,
}

impl Retries {
    /// The wait before the next attempt, or `None` when this fault is final. `took` is how long
    /// the failed attempt lasted.
    pub fn next_wait(&mut self, fault: &Fault, took: Duration) -> Option<Duration> {
        self.spent += took;
        let is_broken = matches!(
            fault.kind,
            FaultKind::Cut | FaultKind::Unreachable | FaultKind::ProxyUnreachable
        );
        self.broken += u32::from(is_broken);
        // Broken answers are counted apart from refusals: each may have been billed.
        let is_used_up = self.attempts >= self.policy.attempts || self.broken >= self.policy.broken;
        if !fault.may_pass() || is_used_up {
            return None;
        }
        let ours = self.ours.next()?;
        let wait = match fault.wait {
            // Never sooner than asked, and not all at the same moment.
            Some(asked) => {
                let asked = asked.saturating_add(jitter(asked));
                // A server that keeps naming a wait that is too short would use up all attempts in
                // seconds.
                if self.attempts > TRUSTED { asked.max(ours) } else { asked }
            }
            None => ours,
        };
        // Better to fail now than to wait and fail then.
        if self.spent.saturating_add(wait) > self.policy.total {
            return None;
        }
        self.spent += wait;
        self.attempts += 1;
        Some(wait)
    }

    /// Attempts made so far, the one that is about to start included.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

/// A wait in words: `90 s`, `20 min`, `3 h`; rounded up, so that it is never too short.
pub fn spoken(wait: Duration) -> String {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

/// Up to a tenth of the wait, at most a second.
fn jitter(wait: Duration) -> Duration {
    let most = wait.mul_f64(0.1).min(Duration::from_secs(1));
    most.mul_f64(rand::rng().random_range(0.0..=1.0))
}

/// What the headers of an error answer add to the fault in its body: the wait, and the server's
/// word on whether to try again.
///
/// `x-should-retry: true` is not followed for requests that are wrong in themselves.
pub fn with_headers(mut fault: Fault, headers: &HeaderMap, now: DateTime<Utc>) -> Fault {
    match header(headers, "x-should-retry") {
        Some("false") => fault.is_final = true,
        Some("true") => {
            if let FaultKind::Rejected(status) = fault.kind
                // These describe the request itself, which is the same next time.
                && !matches!(status, 300..=399 | 400 | 404 | 413 | 422)
            {
                fault.kind = FaultKind::Unavailable;
            }
        }
        _ => {}
    }
    if let Some(wait) = wait_in_headers(headers, now) {
        fault.wait = Some(wait);
    } else if fault.kind == FaultKind::RateLimited && fault.wait.is_none() {
        // Only without a wait of its own: the reset headers describe the whole limit, which is
        // often longer than necessary.
        fault.wait = reset_in_headers(headers, now).or_else(|| used_up_for(headers));
    }
    fault
}

/// Until when Anthropic's limits are used up: `anthropic-ratelimit-NAME-reset` is a time in RFC
/// 3339. The latest of the limits of which nothing remains counts; when each has something left,
/// only too little for the request, the first that is filled up again.
fn reset_in_headers(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let (mut used_up, mut others) = (Vec::new(), Vec::new());
    for name in ["requests", "tokens", "input-tokens", "output-tokens"] {
        let field = |what| header(headers, &format!("anthropic-ratelimit-{name}-{what}"));
        let Some(reset) = field("reset").and_then(|it| DateTime::parse_from_rfc3339(it).ok())
        else {
            continue;
        };
        let reset = reset.with_timezone(&Utc);
        if field("remaining") == Some("0") { used_up.push(reset) } else { others.push(reset) }
    }
    let until = used_up.into_iter().max().or(others.into_iter().min())?;
    Some((until - server_time(headers, now)).to_std().unwrap_or_default())
}

/// How long OpenAI's limits are used up: `x-ratelimit-reset-NAME` is a duration such as `6m0s`. Only
/// limits of which nothing remains count.
fn used_up_for(headers: &HeaderMap) -> Option<Duration> {
    ["requests", "tokens", "project-tokens"]
        .into_iter()
        .filter(|name| header(headers, &format!("x-ratelimit-remaining-{name}")) == Some("0"))
        .filter_map(|name| header(headers, &format!("x-ratelimit-reset-{name}")))
        .filter_map(fault::duration)
        .filter(|wait| !wait.is_zero())
        .max()
}

/// The server's own clock decides, when it tells the time.
fn server_time(headers: &HeaderMap, now: DateTime<Utc>) -> DateTime<Utc> {
    header(headers, "date").and_then(http_date).unwrap_or(now)
}

/// A date in one of the three forms of HTTP, or in another form of mail's.
fn http_date(text: &str) -> Option<DateTime<Utc>> {
    let date = httpdate::parse_http_date(text).ok().map(DateTime::<Utc>::from);
    date.or_else(|| Some(DateTime::parse_from_rfc2822(text).ok()?.to_utc()))
}

/// A server's number of seconds. One that is no wait at all (negative, not a number) is none.
fn asked(seconds: f64) -> Option<Duration> {
    let longest = LONGEST_ASKED.as_secs_f64();
    (seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(longest)))
}

/// The wait that `retry-after-ms` or `Retry-After` (seconds or a date) asks for.
pub fn wait_in_headers(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    if let Some(text) = header(headers, "retry-after-ms")
        && let Ok(milliseconds) = text.parse::<f64>()
        && let Some(wait) = asked(milliseconds / 1000.0)
    {
        return Some(wait);
    }
    let text = header(headers, "retry-after")?;
    if let Ok(seconds) = text.parse::<f64>() {
        return asked(seconds);
    }
    if let Some(wait) = fault::duration(text) {
        return Some(wait.min(LONGEST_ASKED));
    }
    let wait = http_date(text)? - server_time(headers, now);
    Some(wait.to_std().unwrap_or_default().min(LONGEST_ASKED))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}
