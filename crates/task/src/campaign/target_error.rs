//! Why a repository could not be finished: the class by which people choose what to retry, and what the
//! worker does by itself.

use std::time::Duration;

use crate::guard::GuardError;
use patchwright_agent::StopKind;
use patchwright_agent::budget::LimitKind;
use patchwright_base::duration::format_duration;
use patchwright_base::error::{Failure, FailureKind};
use patchwright_forge::{ForgeError, RepositoryId};
use patchwright_provider::ProviderError;
use patchwright_types::campaign::ErrorClass;
use patchwright_types::outcome::Spending;
use patchwright_types::task::Limits;

/// A repository that was not finished.
#[derive(Debug)]
pub struct TargetError {
    pub class: ErrorClass,
    pub failure: Failure,
    pub decision: RetryDecision,
}

/// What the worker does about a run that failed; publishing has decisions of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Retry later; the other side may have said when.
    Retry(Option<Duration>),
    /// A service failed ([`Failure::outage`] says which), for other repositories as well: the attempt
    /// does not count, and the run is resumed when the service works again.
    Postpone,
    /// Nothing: a person has to decide.
    Final,
    /// Every repository would fail the same way: the campaign pauses until a person resumes it.
    PauseCampaign,
    /// The worker is shutting down: another one resumes the run.
    Released,
    /// Another worker has taken the job over: this run may not report anything.
    Lost,
}

impl TargetError {
    pub(super) fn new(class: ErrorClass, decision: RetryDecision, failure: Failure) -> TargetError {
        TargetError { class, failure, decision }
    }
}

impl From<Failure> for TargetError {
    /// By the failure's kind alone, for phases whose failures carry no more.
    fn from(failure: Failure) -> TargetError {
        let again = match failure.outage {
            Some(_) => RetryDecision::Postpone,
            None => RetryDecision::Retry(None),
        };
        let (class, decision) = match failure.kind {
            FailureKind::Sandbox => (ErrorClass::Sandbox, again),
            FailureKind::Machine => (ErrorClass::Machine, again),
            FailureKind::Forge => (ErrorClass::Forge, again),
            FailureKind::Provider => (ErrorClass::Model, again),
            // Usage: its own configuration file. What is wrong everywhere was found before.
            FailureKind::Refused | FailureKind::Usage => (ErrorClass::Policy, RetryDecision::Final),
            FailureKind::Budget => (ErrorClass::Budget, RetryDecision::Final),
            FailureKind::NothingToDo => (ErrorClass::Clone, RetryDecision::Final),
            FailureKind::Signal(_) => (ErrorClass::Lost, RetryDecision::Released),
            FailureKind::Partial | FailureKind::Internal => {
                (ErrorClass::Internal, RetryDecision::Final)
            }
        };
        TargetError { class, failure, decision }
    }
}

/// The repository cannot be looked up.
pub(super) fn of_lookup(id: &RepositoryId, err: ForgeError) -> TargetError {
    match err {
        ForgeError::NotFound { .. } => TargetError::new(
            ErrorClass::Access,
            RetryDecision::Final,
            Failure::forge(format!("`{id}` is gone, or the token may not see it"))
                .hint("check the name, and that the token may see the repository"),
        ),
        err => of_forge(ErrorClass::Forge, err),
    }
}

/// The repository cannot be fetched.
pub(super) fn of_fetch(id: &RepositoryId, err: ForgeError) -> TargetError {
    let trouble = of_forge(ErrorClass::Clone, err);
    let message = format!("cannot fetch `{id}`: {}", trouble.failure.message);
    TargetError { failure: Failure { message, ..trouble.failure }, ..trouble }
}

/// Any other error of the forge; `class` is that of transient ones.
pub(super) fn of_forge(class: ErrorClass, err: ForgeError) -> TargetError {
    if err.outage().is_some() {
        return TargetError::new(class, RetryDecision::Postpone, err.into());
    }
    let (class, decision) = match &err {
        ForgeError::Authentication { .. } | ForgeError::Untrusted { .. } => {
            (ErrorClass::Configuration, RetryDecision::PauseCampaign)
        }
        ForgeError::Forbidden { .. } | ForgeError::NotFound { .. } | ForgeError::State { .. } => {
            (ErrorClass::Access, RetryDecision::Final)
        }
        ForgeError::Invalid { .. } | ForgeError::InTheWay { .. } => (class, RetryDecision::Final),
        ForgeError::Unverified { .. } | ForgeError::SecretFound { .. } => {
            (ErrorClass::Policy, RetryDecision::Final)
        }
        ForgeError::Fenced { .. } => (ErrorClass::Lost, RetryDecision::Lost),
        ForgeError::Machine { .. } => (ErrorClass::Machine, RetryDecision::Retry(None)),
        ForgeError::RateLimited { .. } => (ErrorClass::Forge, RetryDecision::Retry(None)),
        ForgeError::Conflict { .. }
        | ForgeError::Moved { .. }
        | ForgeError::Unavailable { .. }
        | ForgeError::Git { .. }
        | ForgeError::Malformed { .. } => (class, RetryDecision::Retry(None)),
    };
    let need = match &err {
        ForgeError::Forbidden { need: Some(need), .. } => Some(need.to_string()),
        _ => None,
    };
    let mut failure = Failure::from(err);
    // What is kept of it has no hints.
    if let Some(need) = need {
        failure.message = format!("{}; it takes {need}", failure.message);
    }
    TargetError { class, failure, decision }
}

/// What comes of the run could not be pushed.
pub(super) fn of_guard(err: GuardError) -> TargetError {
    match err {
        GuardError::Failure(failure) => failure.into(),
        GuardError::Forge(err) => of_forge(ErrorClass::Forge, err),
    }
}

/// Why the agent stopped before it was finished; `None` when it finished.
pub(super) fn of_stop(
    stop: StopKind,
    (limits, spending): (&Limits, &Spending),
) -> Option<TargetError> {
    let message = match &stop {
        StopKind::Budget(which) => of_limit(*which, &stop.sentence(), limits, spending),
        _ => stop.sentence(),
    };
    let (class, decision) = match stop {
        StopKind::Finished => return None,
        StopKind::Provider(err) => return Some(of_provider(err)),
        StopKind::Machine(failure) => return Some(failure.into()),
        StopKind::Sandbox(_) => (ErrorClass::Sandbox, RetryDecision::Retry(None)),
        StopKind::Refused | StopKind::Filtered | StopKind::EmptyReply | StopKind::CutOff => {
            (ErrorClass::Model, RetryDecision::Final)
        }
        StopKind::Budget(_) | StopKind::Unanswered(_) | StopKind::ContextExhausted => {
            (ErrorClass::Budget, RetryDecision::Final)
        }
        StopKind::DoomLoop | StopKind::FormatErrors => (ErrorClass::Agent, RetryDecision::Final),
        StopKind::Cancelled | StopKind::NewSandbox => (ErrorClass::Lost, RetryDecision::Released),
    };
    let kind = match class {
        ErrorClass::Sandbox => FailureKind::Sandbox,
        ErrorClass::Budget => FailureKind::Budget,
        _ => FailureKind::Provider,
    };
    Some(TargetError::new(class, decision, Failure::new(kind, message)))
}

/// Which limit ended a run, as the campaign's file calls it, and how far the run was: whoever reads the reason decides
/// by it how much the next attempt gets.
fn of_limit(which: LimitKind, reached: &str, limits: &Limits, spending: &Spending) -> String {
    let (used, most) = (spending.cost_usd, limits.max_cost_usd);
    match which {
        LimitKind::Dollars if used < most => format!(
            "the next request and the last words do not fit into what is left of \
             `agent.max-cost-usd`: ${used:.4} of ${most:.2} are used"
        ),
        LimitKind::Dollars => format!("{reached} (`agent.max-cost-usd` is ${most:.2})"),
        LimitKind::Turns => format!("{reached} (`agent.max-turns` is {})", limits.max_turns),
        LimitKind::Tokens => format!("{reached} (`agent.max-tokens` is {})", limits.max_tokens),
        LimitKind::Time => {
            format!("{reached} (`agent.timeout` is {})", format_duration(limits.timeout))
        }
    }
}

/// The provider has no reply. A wrong key, an empty account or a model that is not there are so in every
/// repository; a rejected conversation is this one's.
pub(super) fn of_provider(err: ProviderError) -> TargetError {
    if err.outage().is_some() {
        return TargetError::new(ErrorClass::Model, RetryDecision::Postpone, err.into());
    }
    let (class, decision) = match &err {
        ProviderError::RateLimited { wait, .. } => (ErrorClass::Model, RetryDecision::Retry(*wait)),
        ProviderError::Unavailable { .. } | ProviderError::Malformed { .. } => {
            (ErrorClass::Model, RetryDecision::Retry(None))
        }
        ProviderError::Quota { .. } => (ErrorClass::Model, RetryDecision::PauseCampaign),
        ProviderError::Authentication { .. }
        | ProviderError::SignIn { .. }
        | ProviderError::Rejected { status: 404, .. } => {
            (ErrorClass::Configuration, RetryDecision::PauseCampaign)
        }
        ProviderError::PicturesRefused { .. }
        | ProviderError::Rejected { .. }
        | ProviderError::ContextOverflow { .. }
        | ProviderError::Filtered { .. }
        | ProviderError::ScriptExhausted { .. } => (ErrorClass::Model, RetryDecision::Final),
    };
    TargetError { class, decision, failure: Failure::from(err) }
}
