//! How fast each account writes, by GitHub's own measure, and what GitHub does about too much.
//!
//! The clock can run faster than real time: with a scale of 0.01 one of GitHub's seconds takes ten
//! milliseconds, as waits of the program do under `PATCHWRIGHT_TIME_SCALE=0.01`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::routes::Answer;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// What is enforced. The numbers are those that GitHub documents for requests that create content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceiling {
    pub(crate) per_minute: usize,
    pub(crate) per_hour: usize,
    /// Seconds of the `Retry-After` header; without one a minute is meant.
    pub(crate) retry_after: Option<u64>,
}

impl Default for Ceiling {
    fn default() -> Ceiling {
        Ceiling { per_minute: 80, per_hour: 500, retry_after: Some(60) }
    }
}

/// What was seen, over all accounts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// Requests that may change something and were let through.
    pub(crate) writes: usize,
    /// Those of them that create something.
    pub(crate) created: usize,
    /// The most that one account created within a minute, and within an hour.
    pub(crate) worst_minute: usize,
    pub(crate) worst_hour: usize,
    /// The shortest time between two writes of one account, on GitHub's clock.
    pub(crate) smallest_gap: Option<Duration>,
    /// Requests that met a limit.
    pub(crate) refused: usize,
    /// Requests of an account that had been told to wait, and when they came too early.
    pub(crate) early_writes: Vec<String>,
    pub(crate) early_reads: Vec<String>,
    pub(crate) pushes: usize,
}

struct Write {
    at: Duration,
    login: String,
    creates: bool,
}

pub(crate) struct Pace {
    began: Instant,
    /// Real seconds of one of GitHub's.
    pub(crate) scale: f64,
    pub(crate) ceiling: Option<Ceiling>,
    writes: Vec<Write>,
    /// Until when an account has been told to wait.
    waits: BTreeMap<String, Duration>,
    seen: Report,
}

impl Pace {
    pub(crate) fn new() -> Pace {
        Pace {
            began: Instant::now(),
            scale: 1.0,
            ceiling: None,
            writes: Vec::new(),
            waits: BTreeMap::new(),
            seen: Report::default(),
        }
    }

    /// On GitHub's clock, since it was made.
    fn at(&self, arrived: Instant) -> Duration {
        arrived.saturating_duration_since(self.began).div_f64(self.scale)
    }

    /// So many of GitHub's seconds on a real clock.
    pub(crate) fn real(&self, seconds: u64) -> Duration {
        Duration::from_secs(seconds).mul_f64(self.scale)
    }

    /// Counts a request; the refusal if there was too much.
    pub(crate) fn arrive(
        &mut self,
        arrived: Instant,
        login: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Option<Answer> {
        let at = self.at(arrived);
        let (writes, creates) = kind(method, path, body);
        if self.waits.get(login).is_some_and(|until| at < *until) {
            let early =
                if writes { &mut self.seen.early_writes } else { &mut self.seen.early_reads };
            early.push(format!("{method} {path} at {:.1} s", at.as_secs_f64()));
            if self.ceiling.is_some() {
                return Some(self.refuse(login, at));
            }
        }
        if !writes {
            return None;
        }
        if creates && self.ceiling.is_some_and(|ceiling| self.is_too_much(login, at, ceiling)) {
            return Some(self.refuse(login, at));
        }
        self.writes.push(Write { at, login: login.to_owned(), creates });
        None
    }

    fn is_too_much(&self, login: &str, at: Duration, ceiling: Ceiling) -> bool {
        let since = |span: Duration| {
            let recent =
                |write: &&Write| write.creates && write.login == login && write.at + span > at;
            self.writes.iter().rev().filter(recent).count()
        };
        since(MINUTE) >= ceiling.per_minute || since(HOUR) >= ceiling.per_hour
    }

    fn refuse(&mut self, login: &str, at: Duration) -> Answer {
        let after = self.ceiling.and_then(|ceiling| ceiling.retry_after);
        let wait = Duration::from_secs(after.unwrap_or(60));
        let until = self.waits.entry(login.to_owned()).or_default();
        // A request that comes too early does not make the wait longer.
        if *until <= at {
            *until = at + wait;
        }
        self.seen.refused += 1;
        Answer::secondary(after)
    }

    /// The account has been told to wait for so many seconds, for whatever reason.
    pub(crate) fn told(&mut self, login: &str, seconds: u64) {
        let until = self.at(Instant::now()) + Duration::from_secs(seconds);
        self.waits.insert(login.to_owned(), until);
        self.seen.refused += 1;
    }

    pub(crate) fn pushed(&mut self) {
        self.seen.pushes += 1;
    }

    pub(crate) fn report(&self) -> Report {
        let mut report = self.seen.clone();
        let mut logins: Vec<&str> = self.writes.iter().map(|write| write.login.as_str()).collect();
        logins.sort_unstable();
        logins.dedup();
        for login in logins {
            let mut mine: Vec<&Write> =
                self.writes.iter().filter(|write| write.login == login).collect();
            mine.sort_by_key(|write| write.at);
            let gaps = mine.windows(2).map(|two| two[1].at.abs_diff(two[0].at));
            report.smallest_gap = report.smallest_gap.into_iter().chain(gaps).min();
            let created: Vec<Duration> =
                mine.iter().filter(|write| write.creates).map(|write| write.at).collect();
            report.writes += mine.len();
            report.created += created.len();
            report.worst_minute = report.worst_minute.max(most(&created, MINUTE));
            report.worst_hour = report.worst_hour.max(most(&created, HOUR));
        }
        report
    }
}

/// The most that lie within a span.
fn most(times: &[Duration], span: Duration) -> usize {
    let within = |(at, first): (usize, &Duration)| {
        times[at..].iter().take_while(|time| **time < *first + span).count()
    };
    times.iter().enumerate().map(within).max().unwrap_or(0)
}

/// Whether a request may change something, and whether it creates.
fn kind(method: &str, path: &str, body: Option<&Value>) -> (bool, bool) {
    let no_content = ["/access_tokens", "/attempts", "/installation/token"];
    if method == "GET" || method == "HEAD" || no_content.iter().any(|end| path.ends_with(end)) {
        return (false, false);
    }
    if path.ends_with("/graphql") {
        let query = body.and_then(|body| body["query"].as_str()).unwrap_or_default();
        let mutates =
            outside_of_braces(query).split_whitespace().any(|word| word.starts_with("mutation"));
        return (mutates, mutates);
    }
    (true, method == "POST" || method == "PUT")
}

fn outside_of_braces(query: &str) -> String {
    let mut depth = 0;
    let outside = |c: &char| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => return depth == 0,
        }
        false
    };
    query.chars().filter(outside).collect()
}
