//! What goes wrong while a change is published: of which class it is, whether it may pass, and how the
//! job ends with it. The stored change stays in any case.

use chrono::TimeDelta;

use crate::batch::fleet::Fleet;
use crate::batch::lease::HeldJob;
use crate::batch::owner;
use crate::batch::pace::{self, scaled_wait};
use crate::store::{StoreError, StoreResult};
use patchwright_base::error::{Failure, Outage};
use patchwright_forge::{ForgeError, Requirement, StateProblem};
use patchwright_git::GitError;
use patchwright_types::campaign::{
    CampaignState, ErrorClass, JobEnd, Millis, Target, TargetEnd, TargetState,
};
use patchwright_types::run_facts::RunFacts;

/// The first pause before another attempt, doubled each time, and the longest.
pub(in crate::batch) const PAUSE: Millis = 60_000;
const LONGEST_PAUSE: Millis = 30 * PAUSE;

/// Why there is no pull request yet.
#[derive(Debug)]
pub(super) enum PublishError {
    Forge(ForgeError),
    Store(StoreError),
    /// Decided: nothing that waiting repairs.
    Final {
        class: ErrorClass,
        message: String,
    },
}

impl PublishError {
    /// The configuration is against it; the hints say what would change that.
    pub(super) fn refused(failure: &Failure) -> PublishError {
        let hints = failure.hints.iter().map(|hint| hint.text.as_str());
        let said: Vec<&str> = std::iter::once(failure.message.as_str()).chain(hints).collect();
        PublishError::Final { class: ErrorClass::Policy, message: said.join("; ") }
    }
}

impl From<ForgeError> for PublishError {
    fn from(err: ForgeError) -> PublishError {
        PublishError::Forge(err)
    }
}

impl From<StoreError> for PublishError {
    fn from(err: StoreError) -> PublishError {
        PublishError::Store(err)
    }
}

impl From<GitError> for PublishError {
    fn from(err: GitError) -> PublishError {
        PublishError::Forge(match err {
            GitError::Machine(message) => ForgeError::Machine { message },
            err => ForgeError::Git { message: err.to_string() },
        })
    }
}

/// What to do about it. Of a run, [`RetryDecision`](patchwright_task::campaign::RetryDecision) says otherwise:
/// where a branch has moved, a run begins again from what is there now, while a stored change stays what it is.
#[derive(Debug, PartialEq, Eq)]
enum PublishDecision {
    /// It may pass: another attempt.
    Retry(ErrorClass),
    /// A limit: put back without counting an attempt.
    Later,
    /// Every repository would fail like this: the campaign stops until somebody looks.
    PauseCampaign,
    Final(ErrorClass),
}

fn decision(err: &ForgeError) -> PublishDecision {
    match err {
        ForgeError::RateLimited { .. } => PublishDecision::Later,
        ForgeError::Authentication { .. } | ForgeError::Untrusted { .. } => {
            PublishDecision::PauseCampaign
        }
        ForgeError::Unavailable { .. } | ForgeError::Malformed { .. } => {
            PublishDecision::Retry(ErrorClass::Forge)
        }
        ForgeError::Machine { .. } => PublishDecision::Retry(ErrorClass::Machine),
        ForgeError::Git { .. } => PublishDecision::Retry(ErrorClass::Publish),
        // Not written to the store: the new holder of the lease writes the end.
        ForgeError::Fenced { .. } => PublishDecision::Retry(ErrorClass::Lost),
        ForgeError::NotFound { .. }
        | ForgeError::State { what: StateProblem::Archived | StateProblem::Gone, .. } => {
            PublishDecision::Final(ErrorClass::Access)
        }
        ForgeError::Forbidden { need, .. } => {
            let is_workflows = *need == Some(Requirement::Workflows);
            PublishDecision::Final(if is_workflows {
                ErrorClass::Policy
            } else {
                ErrorClass::Access
            })
        }
        ForgeError::Conflict { .. } | ForgeError::Moved { .. } => {
            PublishDecision::Final(ErrorClass::Conflict)
        }
        ForgeError::Unverified { .. } | ForgeError::SecretFound { .. } => {
            PublishDecision::Final(ErrorClass::Policy)
        }
        ForgeError::State { .. } | ForgeError::Invalid { .. } | ForgeError::InTheWay { .. } => {
            PublishDecision::Final(ErrorClass::Publish)
        }
    }
}

/// For people: what happened, and what would help.
fn words(err: &ForgeError) -> String {
    match err {
        ForgeError::Forbidden { need: Some(need @ Requirement::Workflows), .. } => format!(
            "{err}; the change touches workflow files, and the token may not: give it {need}, or keep \
             workflow files out of the task"
        ),
        ForgeError::Forbidden { need: Some(need), .. } => format!("{err}; it takes {need}"),
        ForgeError::Unverified { hint, .. } => format!("{err}; {hint}"),
        err => err.to_string(),
    }
}

/// A repository that is gone together with its owner is no fault of its own.
async fn unless_all_are_gone(
    fleet: &Fleet,
    target: &Target,
    decision: PublishDecision,
    message: String,
) -> (PublishDecision, String) {
    if decision != PublishDecision::Final(ErrorClass::Access) {
        return (decision, message);
    }
    match owner::vanished(fleet, &target.repository).await {
        Some(why) => (PublishDecision::PauseCampaign, why),
        None => (decision, message),
    }
}

/// For how long the job is put back without an attempt counted, when what failed it is nothing of the repository's.
async fn postponed(
    fleet: &Fleet,
    held: &HeldJob,
    decision: &PublishDecision,
    outage: Option<Outage>,
    why: &str,
) -> StoreResult<Option<Millis>> {
    match (decision, outage) {
        (PublishDecision::Retry(_), Some(outage)) => {
            fleet.outages.postponed(held, outage, why).await
        }
        (PublishDecision::Retry(ErrorClass::Machine), None) => {
            fleet.ui.failure(&format!("nothing is published: {why}"));
            fleet.outages.machine_failed(held, &fleet.state).await
        }
        _ => Ok(None),
    }
}

/// Why a job is put back while GitHub takes nothing. It begins as whatever only time ends.
pub(in crate::batch) fn waits_for_limit(fleet: &Fleet, wait: Millis) -> String {
    let until = fleet.clock.now() + TimeDelta::milliseconds(wait);
    format!("waits for the end of GitHub's rate limit, at {}", until.format("%Y-%m-%d %H:%M UTC"))
}

/// Ends the job with a trouble.
pub(super) async fn end(
    fleet: &Fleet,
    held: &HeldJob,
    target: &Target,
    trouble: PublishError,
) -> StoreResult<()> {
    let (decision, message, outage) = match trouble {
        PublishError::Store(err) => return Err(err),
        PublishError::Final { class, message } => (PublishDecision::Final(class), message, None),
        PublishError::Forge(err) => (decision(&err), words(&err), err.outage()),
    };
    let (decision, message) = unless_all_are_gone(fleet, target, decision, message).await;
    let why = fleet.redactor.redact(&message);
    if let Some(after) = postponed(fleet, held, &decision, outage, &why).await? {
        return fleet.store.end_job(&held.lease, &JobEnd::Later { after, why }).await;
    }
    let attempt = held.job.attempt;
    let class = match decision {
        PublishDecision::Later => {
            let account = held.limited_account();
            let closed = pace::closed_for(&fleet.store, &fleet.token, &account).await?;
            let after = closed.max(scaled_wait(fleet, PAUSE));
            let why = waits_for_limit(fleet, after);
            return fleet.store.end_job(&held.lease, &JobEnd::Later { after, why }).await;
        }
        PublishDecision::PauseCampaign => {
            let store = &fleet.store;
            let reason = format!("publishing stopped: {why}");
            store
                .set_campaign_state(&target.campaign, CampaignState::Paused, Some(&reason))
                .await?;
            fleet.ui.failure(&format!("campaign `{}` is paused: {why}", target.campaign));
            let after = scaled_wait(fleet, PAUSE);
            return store.end_job(&held.lease, &JobEnd::Later { after, why }).await;
        }
        PublishDecision::Retry(_) if attempt < held.job.max_attempts => {
            let doubled = PAUSE.saturating_mul(1 << attempt.saturating_sub(1).clamp(0, 10));
            let after = scaled_wait(fleet, doubled.min(LONGEST_PAUSE));
            return fleet.store.end_job(&held.lease, &JobEnd::Retry { after, why }).await;
        }
        PublishDecision::Retry(class) | PublishDecision::Final(class) => class,
    };
    fleet.ui.warn(&format!("{}: not published: {why}", target.repository));
    let end = TargetEnd {
        state: TargetState::Failed,
        class: Some(class),
        reason: Some(why.clone()),
        run: None,
        cost_usd: 0.0,
        tokens: 0,
        pull_request: None,
        url: None,
        writes: held.written(),
        facts: RunFacts::default(),
    };
    let job_end = JobEnd::Failed { why };
    fleet.store.end_target(&held.lease, target.id, &end, None, None, &job_end).await
}

#[cfg(test)]
mod tests {
    use crate::batch::publish::publish_error::{PublishDecision, decision};
    use patchwright_base::error::Service;
    use patchwright_forge::{Credential, ForgeError, Requirement, StateProblem, WayThere};
    use patchwright_types::campaign::ErrorClass;

    #[test]
    fn what_may_pass_is_tried_again_and_what_may_not_is_not() {
        let text = || "x".to_owned();
        let forbidden =
            |need| ForgeError::Forbidden { action: text(), message: text(), need: Some(need) };
        for (err, wanted) in [
            (ForgeError::RateLimited { until: text() }, PublishDecision::Later),
            (
                ForgeError::Authentication { credential: Credential::Token, message: text() },
                PublishDecision::PauseCampaign,
            ),
            (
                ForgeError::Unavailable {
                    service: Service::ForgeApi,
                    host: text(),
                    message: text(),
                    way: WayThere::Open,
                },
                PublishDecision::Retry(ErrorClass::Forge),
            ),
            (ForgeError::Machine { message: text() }, PublishDecision::Retry(ErrorClass::Machine)),
            (ForgeError::NotFound { what: text() }, PublishDecision::Final(ErrorClass::Access)),
            (
                forbidden(Requirement::Permission("contents: write".into())),
                PublishDecision::Final(ErrorClass::Access),
            ),
            (forbidden(Requirement::Workflows), PublishDecision::Final(ErrorClass::Policy)),
            (
                ForgeError::State { what: StateProblem::Archived, message: text() },
                PublishDecision::Final(ErrorClass::Access),
            ),
            (
                ForgeError::Invalid { action: text(), message: text() },
                PublishDecision::Final(ErrorClass::Publish),
            ),
            (
                ForgeError::Conflict { message: text() },
                PublishDecision::Final(ErrorClass::Conflict),
            ),
        ] {
            assert_eq!(decision(&err), wanted, "{err}");
        }
    }
}
