//! Trouble on order: what goes wrong, for which requests, how often.

use std::time::Duration;

use serde_json::Value;

/// One kind of trouble for the next `times` requests that match.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) method: &'static str,
    /// Part of the path.
    pub(crate) path: &'static str,
    pub(crate) times: u32,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// This status, and nothing happens.
    ErrorBefore(u16),
    /// It happens, and then this status.
    ErrorAfter(u16),
    /// It happens, and then the connection breaks.
    CutAfter,
    /// It happens late.
    Delay(Duration),
    /// It happens, and its answer comes late.
    DelayAfter(Duration),
    /// A list lacks its newest item.
    StaleList,
    /// 403, nothing left until `reset_in` seconds from now. Requests within `window` are mistakes.
    Primary { reset_in: u64, window: Duration },
    /// 403 with or without `Retry-After`. Requests within `window` are mistakes.
    Secondary { retry_after: Option<u64>, window: Duration },
    /// Exactly this answer, and nothing happens.
    Answer(u16, Value),
    /// Exactly this text, and nothing happens.
    Text(u16, String),
    /// The right answer, but its list goes on at this address.
    NextPage(String),
    /// 302 to this address.
    Redirect(String),
}

impl Fault {
    pub(crate) fn once(method: &'static str, path: &'static str, kind: Kind) -> Fault {
        Fault { method, path, times: 1, kind }
    }

    pub(crate) fn times(self, times: u32) -> Fault {
        Fault { times, ..self }
    }

    /// Trouble in time, not in what is answered.
    pub(super) fn delay(&self) -> Option<Duration> {
        match self.kind {
            Kind::Delay(delay) | Kind::DelayAfter(delay) => Some(delay),
            _ => None,
        }
    }
}
