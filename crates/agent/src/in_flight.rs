//! Requests that are given up on the way: the run's time was up, somebody stopped it, or an agent was interrupted or
//! closed. What was sent is billed all the same, and so is what had arrived.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::budget;
use super::compact;
use super::stop::StopKind;
use super::turn::Agent;
use patchwright_journal::Entry;
use patchwright_provider::item::Usage;
use patchwright_provider::{Progress, catalogue};

/// A request that was sent and has no answer yet. Dropping it counts what was sent and what has arrived.
pub(super) struct InFlightRequest<'a> {
    lost: &'a Mutex<Vec<Usage>>,
    /// Tokens of the request, as estimated; 0 once it was answered.
    sent: u64,
    now: &'a (dyn Fn() -> Instant + Send + Sync),
    state: Mutex<InFlight>,
}

#[derive(Default)]
struct InFlight {
    /// Bytes of text that have arrived.
    received: usize,
    /// When something of an answer arrived last, or the request began.
    heard: Option<Instant>,
    /// Until then nothing is sent, for the provider waits before it tries again.
    idle_until: Option<Instant>,
    /// Why the last attempt that has ended failed.
    failure: Option<String>,
}

impl<'a> InFlightRequest<'a> {
    pub(super) fn new(
        lost: &'a Mutex<Vec<Usage>>,
        sent: u64,
        now: &'a (dyn Fn() -> Instant + Send + Sync),
    ) -> InFlightRequest<'a> {
        let state = InFlight { heard: Some(now()), ..InFlight::default() };
        InFlightRequest { lost, sent, now, state: Mutex::new(state) }
    }

    /// Takes in what happens to it.
    pub(super) fn saw(&self, what: &Progress<'_>) {
        let mut state = self.state.lock();
        match what {
            Progress::Text(text) | Progress::Reasoning(text) => {
                state.received += text.len();
                state.heard = Some((self.now)());
            }
            Progress::Retrying { wait, why, .. } => {
                state.waits((self.now)(), *wait);
                state.failure = Some((*why).to_owned());
            }
            // The provider has counted what that attempt brought.
            Progress::Lost { usage } => {
                state.received = 0;
                self.lost.lock().push(*usage);
            }
        }
    }

    /// For how long nothing of an answer has arrived.
    pub(super) fn silence(&self) -> Duration {
        let heard = self.state.lock().heard;
        heard.map_or(Duration::ZERO, |heard| (self.now)().saturating_duration_since(heard))
    }

    /// Why the last attempt at it failed.
    pub(super) fn failure(&self) -> Option<String> {
        self.state.lock().failure.clone()
    }

    pub(super) fn was_answered(mut self) {
        self.sent = 0;
    }

    /// The provider has given it up. What had arrived of it by then is no part of what the provider has counted.
    pub(super) fn has_failed(self) {
        if self.state.lock().received == 0 {
            self.was_answered();
        }
    }
}

impl InFlight {
    fn waits(&mut self, now: Instant, wait: Duration) {
        self.received = 0;
        self.idle_until = now.checked_add(wait);
    }
}

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let is_idle = state.idle_until.is_some_and(|until| (self.now)() < until);
        if self.sent > 0 && !is_idle {
            let output = compact::estimate_bytes(state.received);
            let usage = Usage { input: self.sent, output, estimated: true, ..Usage::default() };
            self.lost.lock().push(usage);
        }
    }
}

impl Agent<'_> {
    /// Counts what requests without a reply have cost.
    pub(super) fn count_lost(&mut self) -> Result<(), StopKind> {
        let lost = std::mem::take(&mut *self.lost.lock());
        if lost.is_empty() {
            return Ok(());
        }
        let (mut usage, mut cost_usd) = (Usage::default(), 0.0);
        // Each at its own price: several short requests are no long one.
        for lost in lost.into_iter().map(budget::plausible) {
            cost_usd += catalogue::cost(self.spec.model, &lost).0;
            usage += lost;
        }
        self.record(&Entry::Lost { usage, cost_usd })
    }
}

/// An agent may be given up in the middle of a request, with what it works for.
impl Drop for Agent<'_> {
    fn drop(&mut self) {
        if let Err(stop) = self.count_lost() {
            tracing::warn!(
                why = stop.sentence(),
                "what a given up request has cost is not counted"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given_up_is_counted() {
        let (lost, now) = (Mutex::new(Vec::new()), Instant::now());
        let clock = move || now;
        InFlightRequest::new(&lost, 100, &clock).was_answered();
        let waiting = InFlightRequest::new(&lost, 100, &clock);
        let wait = Duration::from_secs(1);
        waiting.saw(&Progress::Retrying { attempt: 1, wait, why: "busy" });
        drop(waiting);
        assert_eq!(*lost.lock(), []);
        let given_up = InFlightRequest::new(&lost, 200, &clock);
        given_up.saw(&Progress::Retrying { attempt: 1, wait: Duration::ZERO, why: "busy" });
        given_up.saw(&Progress::Text("twelve bytes"));
        drop(given_up);
        let expected = Usage { input: 200, output: 4, estimated: true, ..Usage::default() };
        assert_eq!(*lost.lock(), [expected]);
    }
}
