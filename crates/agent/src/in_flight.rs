//! Requests that are given up on the way, for an agent was interrupted or closed: what was sent is billed
//! all the same.

use parking_lot::Mutex;

use patchwright_provider::item::Usage;

/// A request that was sent and has no answer yet. Dropping it counts what was sent.
pub(super) struct InFlightRequest<'a> {
    lost: &'a Mutex<Vec<Usage>>,
    sent: u64,
}

impl<'a> InFlightRequest<'a> {
    /// `sent` is the tokens of the request, as estimated; 0 for one that is not counted here.
    pub(super) fn new(lost: &'a Mutex<Vec<Usage>>, sent: u64) -> InFlightRequest<'a> {
        InFlightRequest { lost, sent }
    }

    pub(super) fn was_answered(mut self) {
        self.sent = 0;
    }
}

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        if self.sent > 0 {
            let usage = Usage { input: self.sent, estimated: true, ..Usage::default() };
            self.lost.lock().push(usage);
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use crate::in_flight::{InFlightRequest, Usage};

    #[test]
    fn only_what_was_given_up_is_counted() {
        let lost = Mutex::new(Vec::new());
        InFlightRequest::new(&lost, 100).was_answered();
        drop(InFlightRequest::new(&lost, 0));
        assert_eq!(*lost.lock(), []);
        drop(InFlightRequest::new(&lost, 200));
        let expected = Usage { input: 200, estimated: true, ..Usage::default() };
        assert_eq!(*lost.lock(), [expected]);
    }
}
