//! A request that the run's time ended: whether more time is what the run lacked, or a model that answers.

use std::time::Duration;

use super::budget::LimitKind;
use super::in_flight::InFlightRequest;
use super::stop::StopKind;
use super::turn::Agent;
use patchwright_base::duration::format_duration;
use patchwright_base::text;

/// A wait of less than this part of the run's time is one among others.
const PART: u32 = 4;

/// The last request of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnansweredRequest {
    /// How long nothing of an answer had arrived, with all attempts.
    pub waited: Duration,
    /// Who was asked.
    pub endpoint: String,
    /// Why an attempt at it had failed, in the words of whoever saw that.
    pub failed: Option<String>,
}

impl UnansweredRequest {
    /// In a sentence for people.
    pub(super) fn sentence(&self) -> String {
        let UnansweredRequest { waited, endpoint, failed } = self;
        let failed = failed.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let waited = format_duration(*waited);
        format!("the time limit was reached: {endpoint} did not answer for {waited}{failed}")
    }

    /// What a person can do about it.
    pub(super) fn hint(&self) -> String {
        format!(
            "look at the model's provider: whether {} works, and whether network, `--base-url` and `--model` are right; \
             more time helps only a model that answers",
            self.endpoint
        )
    }
}

impl Agent<'_> {
    /// The time was up while a request was open.
    pub(super) fn out_of_time(&self, request: &InFlightRequest<'_>) -> StopKind {
        let stop = StopKind::Budget(LimitKind::Time);
        let waited = request.silence();
        if waited < self.spec.limits.timeout / PART {
            return stop;
        }
        let endpoint = self.spec.provider.endpoint().map(|url| format!("`{url}`"));
        StopKind::Unanswered(UnansweredRequest {
            waited,
            endpoint: endpoint.unwrap_or_else(|| format!("`{}`", self.spec.model.slug)),
            failed: request.failure().map(|why| text::line(&why)),
        })
    }
}
