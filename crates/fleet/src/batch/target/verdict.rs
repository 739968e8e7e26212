//! What an attempt means for its target and its job.

use std::time::Duration;

use super::TargetAttempt;
use crate::batch::campaign::PublishAs;
use crate::batch::fleet::Fleet;
use crate::batch::{owner, pace, publish, stored};
use crate::store::StoreError;
use patchwright_base::error::{Failure, Outage};
use patchwright_base::text;
use patchwright_task::campaign::{RetryDecision, StoredChange, TargetError, TargetResult};
use patchwright_task::review;
use patchwright_types::campaign::{
    Changeset, ErrorClass, JobEnd, Millis, NewJob, Target, TargetState,
};
use patchwright_types::outcome::Conclusion;
use patchwright_types::run_facts::RunFacts;

/// Milliseconds before the second attempt; each further one waits twice as long.
const FIRST_WAIT: Millis = 30_000;
/// The longest wait between two attempts.
const LONGEST_WAIT: Millis = 3_600_000;
/// Characters of a reason.
const REASON: usize = 400;

/// What is written down about an attempt.
pub(super) struct AttemptVerdict {
    pub(super) state: TargetState,
    pub(super) class: Option<ErrorClass>,
    pub(super) reason: Option<String>,
    /// Page of a review.
    pub(super) url: Option<String>,
    pub(super) changeset: Option<Box<Changeset>>,
    /// The job that publishes it.
    pub(super) publish: Option<NewJob>,
    pub(super) job_end: JobEnd,
    /// The campaign stops, and why.
    pub(super) pause: Option<String>,
    /// The job was taken over: nothing is written.
    pub(super) lost: bool,
    /// The earlier target whose pull request stays the repository's.
    pub(super) kept: Option<Box<Target>>,
    /// What is known of the run beside its result.
    pub(super) facts: RunFacts,
}

impl AttemptVerdict {
    /// A good end of the job.
    pub(super) fn settled(state: TargetState, reason: impl Into<String>) -> AttemptVerdict {
        let reason = Some(reason.into()).filter(|reason| !reason.is_empty());
        AttemptVerdict {
            state,
            class: None,
            reason: reason.map(|reason| line(&reason)),
            url: None,
            changeset: None,
            publish: None,
            job_end: JobEnd::Done,
            pause: None,
            lost: false,
            kept: None,
            facts: RunFacts::default(),
        }
    }

    /// A bad end of the job.
    fn failed(class: ErrorClass, why: String) -> AttemptVerdict {
        let job_end = JobEnd::Failed { why: why.clone() };
        let failed = AttemptVerdict::settled(TargetState::Failed, why);
        AttemptVerdict { class: Some(class), job_end, ..failed }
    }

    /// The job goes back to the queue, for any worker.
    fn queued(class: Option<ErrorClass>, why: String, job_end: JobEnd) -> AttemptVerdict {
        AttemptVerdict { class, job_end, ..AttemptVerdict::settled(TargetState::Queued, why) }
    }
}

/// One line of somebody's words.
fn line(words: &str) -> String {
    let first = words.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    text::cut(&text::line(first), REASON)
}

/// A failure in one line: what went wrong and the innermost reason.
fn failure_text(failure: &Failure) -> String {
    match failure.cause.as_ref().map(anyhow::Error::root_cause) {
        Some(cause) => format!("{}: {cause}", failure.message),
        None => failure.message.clone(),
    }
}

/// The job goes back without an attempt counted.
fn put_back(class: ErrorClass, failure: &Failure, after: Millis) -> AttemptVerdict {
    let why = line(&failure_text(failure));
    let job_end = JobEnd::Later { after, why: why.clone() };
    AttemptVerdict::queued(Some(class), why, job_end)
}

/// How a review that came to an end counts.
fn of_review(ended: &review::run::ReviewReport) -> AttemptVerdict {
    let reviewed = &ended.reviewed;
    let reason = reviewed.reason.clone().unwrap_or_default();
    let class = match reviewed.conclusion {
        Conclusion::Done | Conclusion::Partial => None,
        // The findings so far are posted, and the review says that it is not complete.
        Conclusion::Budget if ended.published.is_some() => None,
        Conclusion::Budget => Some(ErrorClass::Budget),
        Conclusion::Interrupted => Some(ErrorClass::Lost),
        Conclusion::NothingToDo => return AttemptVerdict::settled(TargetState::Unchanged, reason),
        Conclusion::NeedsInput => Some(ErrorClass::Question),
        Conclusion::Refused => Some(ErrorClass::Policy),
        Conclusion::Provider => Some(ErrorClass::Model),
        Conclusion::Sandbox => Some(ErrorClass::Sandbox),
    };
    if let Some(class) = class {
        return AttemptVerdict::failed(class, reason);
    }
    let said = match (reviewed.findings.len(), reason.is_empty()) {
        (0, true) => "nothing found".to_owned(),
        (1, true) => "one finding".to_owned(),
        (count, true) => format!("{count} findings"),
        (_, false) => reason,
    };
    let url = ended.published.as_ref().and_then(|published| published.url.clone());
    AttemptVerdict { url, ..AttemptVerdict::settled(TargetState::Reported, said) }
}

impl TargetAttempt<'_> {
    /// What a good end means: a change is stored, unless it is there already or was refused before.
    pub(super) async fn finished(
        &self,
        ended: &TargetResult,
    ) -> Result<AttemptVerdict, StoreError> {
        match ended {
            TargetResult::Unchanged(words) => {
                let words = if words.trim().is_empty() { "no change was needed" } else { words };
                self.unchanged(words).await
            }
            TargetResult::Answer(words) => {
                let (store, target) = (&self.fleet.store, &self.target);
                // The answer is an event without a fence of its own, so the lease is checked first.
                store.remaining(&self.held.lease).await?;
                store.record(&target.campaign, Some(target.id), "answer", Some(words)).await?;
                Ok(AttemptVerdict::settled(TargetState::Reported, words))
            }
            TargetResult::Change(change) => self.changed(change).await,
        }
    }

    /// Where a pull request of the same campaign is open, or was merged, its repository keeps it: on a newer commit there
    /// is only nothing to add.
    async fn unchanged(&self, words: &str) -> Result<AttemptVerdict, StoreError> {
        let Target { id, campaign, repository, repository_id, .. } = &self.target;
        if let Some(number) = self.target.pull_request {
            // It was asked for anew. Whether it is still a draft, the next look says.
            let words = format!("#{number} is open, and nothing is to be added: {}", line(words));
            return Ok(AttemptVerdict::settled(TargetState::Draft, words));
        }
        let (store, name) = (&self.fleet.store, &self.campaign.name);
        let history = store.history(name, repository, repository_id.as_deref()).await?;
        let is_before = |other: &&Target| {
            other.id != *id && other.campaign == *campaign && other.pull_request.is_some()
        };
        let before = history.into_iter().find(|other| is_before(&other));
        let Some((before, number)) = before.and_then(|it| it.pull_request.map(|at| (it, at)))
        else {
            return Ok(AttemptVerdict::settled(TargetState::Unchanged, words));
        };
        let said = match before.state {
            TargetState::Merged => "was merged",
            TargetState::Open | TargetState::Draft => "is open",
            _ => return Ok(AttemptVerdict::settled(TargetState::Unchanged, words)),
        };
        let words = format!("#{number} {said}, and nothing is to be added: {}", line(words));
        let kept = Some(Box::new(before.clone()));
        Ok(AttemptVerdict { kept, ..AttemptVerdict::settled(before.state, words) })
    }

    async fn changed(&self, change: &StoredChange) -> Result<AttemptVerdict, StoreError> {
        let target = &self.target;
        let changeset = match stored::changeset(&self.campaign, target, change).await {
            Ok(changeset) => changeset,
            Err(failure) => return self.failed(&failure.into()).await,
        };
        if let Some(why) = self.same_elsewhere(&changeset).await? {
            return Ok(AttemptVerdict::settled(TargetState::Skipped, why));
        }
        let (state, publish) = match self.campaign.published(&target.repository) {
            PublishAs::Held => (TargetState::Held, None),
            PublishAs::Ready | PublishAs::Draft => {
                (TargetState::Ready, Some(publish::job(self.fleet, target)))
            }
        };
        let title = changeset.title.clone();
        let changeset = Some(Box::new(changeset));
        Ok(AttemptVerdict { changeset, publish, ..AttemptVerdict::settled(state, title) })
    }

    /// Says where this change is open already, or was refused by people. Our own open pull request of an earlier target
    /// is brought up to date instead.
    async fn same_elsewhere(&self, changeset: &Changeset) -> Result<Option<String>, StoreError> {
        let store = &self.fleet.store;
        let same = store.same_change(&self.target, &changeset.change_id).await?;
        for other in same.iter().filter(|other| other.id != self.target.id) {
            let said = match other.state {
                TargetState::Open | TargetState::Draft => "is open",
                TargetState::Closed => "was closed unmerged",
                _ => continue,
            };
            let theirs = store.changeset(other.id).await?;
            let is_own_branch = theirs.is_some_and(|theirs| theirs.branch == changeset.branch);
            // Our own open pull request on this branch is updated instead of duplicated.
            if is_own_branch && other.state != TargetState::Closed {
                continue;
            }
            return Ok(Some(format!("the same change {said} as {}", name_of(other))));
        }
        Ok(None)
    }

    /// What a failure means, after a look whether others would have it as well.
    pub(super) async fn failed(&self, trouble: &TargetError) -> Result<AttemptVerdict, StoreError> {
        let TargetError { class, failure, decision } = trouble;
        // Whoever looks after this machine does not read the campaign's page.
        if matches!(class, ErrorClass::Machine | ErrorClass::Sandbox) {
            let said = format!("{}: {}", self.target.repository, line(&failure_text(failure)));
            self.fleet.ui.failure(&self.fleet.redactor.redact(&said));
        }
        match decision {
            RetryDecision::Postpone => match failure.outage {
                Some(outage) => self.failed_by(outage, *class, failure).await,
                None => Ok(self.verdict_on(*class, failure, RetryDecision::Retry(None))),
            },
            RetryDecision::Retry(_) if *class == ErrorClass::Sandbox => {
                Ok(match self.fleet.sandbox_failed(&self.held).await? {
                    Some(after) => put_back(*class, failure, after),
                    None => self.verdict_on(*class, failure, *decision),
                })
            }
            RetryDecision::Retry(_) if *class == ErrorClass::Machine => {
                let Fleet { outages, state, .. } = self.fleet;
                Ok(match outages.machine_failed(&self.held, state).await? {
                    Some(after) => put_back(*class, failure, after),
                    None => self.verdict_on(*class, failure, *decision),
                })
            }
            RetryDecision::Final if *class == ErrorClass::Access => {
                let Some(why) = owner::vanished(self.fleet, &self.target.repository).await else {
                    return Ok(self.verdict_on(*class, failure, RetryDecision::Final));
                };
                let failure = Failure::forge(why).hint("run it again when it is back");
                Ok(self.verdict_on(*class, &failure, RetryDecision::PauseCampaign))
            }
            decision => Ok(self.verdict_on(*class, failure, *decision)),
        }
    }

    async fn failed_by(
        &self,
        outage: Outage,
        class: ErrorClass,
        failure: &Failure,
    ) -> Result<AttemptVerdict, StoreError> {
        let why = line(&failure_text(failure));
        Ok(match self.fleet.outages.postponed(&self.held, outage, &why).await? {
            Some(after) => put_back(class, failure, after),
            None => self.verdict_on(class, failure, RetryDecision::Retry(None)),
        })
    }

    /// How a review that came to an end counts; `outage` is what its last request to the model ended in.
    pub(super) async fn of_review(
        &self,
        ended: &review::run::ReviewReport,
        outage: Option<(Outage, String)>,
    ) -> Result<AttemptVerdict, StoreError> {
        if let (Conclusion::Provider, Some((outage, why))) = (ended.reviewed.conclusion, outage) {
            return self.failed_by(outage, ErrorClass::Model, &Failure::provider(why)).await;
        }
        if ended.reviewed.conclusion == Conclusion::Sandbox {
            // As in every other mode: the next attempt resumes the run.
            let failure = Failure::sandbox(ended.reviewed.reason.clone().unwrap_or_default());
            let (class, decision) = (ErrorClass::Sandbox, RetryDecision::Retry(None));
            return self.failed(&TargetError { class, failure, decision }).await;
        }
        Ok(of_review(ended))
    }

    fn verdict_on(
        &self,
        class: ErrorClass,
        failure: &Failure,
        decision: RetryDecision,
    ) -> AttemptVerdict {
        let why = line(&failure_text(failure));
        match decision {
            RetryDecision::Retry(wait) if self.held.job.attempt < self.held.job.max_attempts => {
                let after = self.wait(wait);
                let job_end = JobEnd::Retry { after, why: why.clone() };
                AttemptVerdict::queued(Some(class), why, job_end)
            }
            RetryDecision::Retry(_) | RetryDecision::Postpone | RetryDecision::Final => {
                AttemptVerdict::failed(class, why)
            }
            RetryDecision::PauseCampaign => {
                let hint = failure.hints.first().map(|hint| format!("; {hint}"));
                let pause = format!("{why}{}", hint.unwrap_or_default());
                // The attempt does not count: the error would have hit every repository.
                let queued = AttemptVerdict::queued(Some(class), why, JobEnd::Released);
                AttemptVerdict { pause: Some(pause), ..queued }
            }
            RetryDecision::Released => {
                AttemptVerdict::queued(None, String::new(), JobEnd::Released)
            }
            RetryDecision::Lost => {
                let queued = AttemptVerdict::queued(None, String::new(), JobEnd::Released);
                AttemptVerdict { lost: true, ..queued }
            }
        }
    }

    /// Milliseconds until the next attempt.
    fn wait(&self, asked: Option<Duration>) -> Millis {
        let own = wait_after(self.held.job.attempt);
        let asked = asked.and_then(|wait| Millis::try_from(wait.as_millis()).ok());
        // The provider's wait counts, but never shorter than ours and never longer than a day.
        let wait = asked.map_or(own, |asked| asked.clamp(own, 24 * LONGEST_WAIT));
        pace::scaled_wait(self.fleet, wait)
    }
}

/// Milliseconds before the next attempt, by our own rule.
pub(in crate::batch) fn wait_after(attempt: i64) -> Millis {
    let doublings = u32::try_from((attempt - 1).clamp(0, 16)).unwrap_or(0);
    FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT)
}

/// How people know a target.
fn name_of(target: &Target) -> String {
    let number = target.pull_request.map(|number| format!("#{number} of "));
    format!("{}campaign `{}`", number.unwrap_or_default(), target.campaign)
}
