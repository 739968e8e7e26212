//! Why a repository could not be finished: the class by which people choose what to try again, and what
//! happens by itself.

use std::time::Duration;

use patchwright_agent::StopKind;
use patchwright_base::error::{Failure, FailureKind};
use patchwright_forge::{ForgeError, RepositoryId};
use patchwright_provider::ProviderError;
use patchwright_types::campaign::ErrorClass;

/// A repository that was not finished.
#[derive(Debug)]
pub struct Trouble {
    pub class: ErrorClass,
    pub failure: Failure,
    pub fate: Fate,
}

/// What is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Once more later; the other side may have said when.
    Again(Option<Duration>),
    /// Nothing by itself.
    Final,
    /// It would be the same in every repository: the campaign stops until somebody has looked.
    Everywhere,
    /// The worker is ending: another one goes on.
    Released,
    /// The job was taken over: this run has nothing to say any more.
    Lost,
}

impl Trouble {
    pub(super) fn new(class: ErrorClass, fate: Fate, failure: Failure) -> Trouble {
        Trouble { class, failure, fate }
    }
}

impl From<Failure> for Trouble {
    /// By the kind alone, for phases whose failures say no more.
    fn from(failure: Failure) -> Trouble {
        let again = Fate::Again(None);
        let (class, fate) = match failure.kind {
            FailureKind::Sandbox => (ErrorClass::Sandbox, again),
            FailureKind::Machine => (ErrorClass::Machine, again),
            FailureKind::Forge => (ErrorClass::Forge, again),
            FailureKind::Provider => (ErrorClass::Model, again),
            // Usage: its own configuration file. What is wrong everywhere was found before.
            FailureKind::Refused | FailureKind::Usage => (ErrorClass::Policy, Fate::Final),
            FailureKind::Budget => (ErrorClass::Budget, Fate::Final),
            FailureKind::NothingToDo => (ErrorClass::Clone, Fate::Final),
            FailureKind::Signal(_) => (ErrorClass::Lost, Fate::Released),
            FailureKind::Partial | FailureKind::Internal => (ErrorClass::Internal, Fate::Final),
        };
        Trouble { class, failure, fate }
    }
}

/// The repository cannot be looked up.
pub(super) fn of_lookup(id: &RepositoryId, err: ForgeError) -> Trouble {
    match err {
        ForgeError::NotFound { .. } => Trouble::new(
            ErrorClass::Access,
            Fate::Final,
            Failure::forge(format!("`{id}` is gone, or the token may not see it"))
                .hint("check the name, and that the token may see the repository"),
        ),
        err => of_forge(ErrorClass::Forge, err),
    }
}

/// The repository cannot be fetched.
pub(super) fn of_fetch(id: &RepositoryId, err: ForgeError) -> Trouble {
    let trouble = of_forge(ErrorClass::Clone, err);
    let Failure { kind, message, cause, hints } = trouble.failure;
    let message = format!("cannot fetch `{id}`: {message}");
    Trouble { failure: Failure { kind, message, cause, hints }, ..trouble }
}

/// Any other trouble with the forge; `class` is for what may pass.
pub(super) fn of_forge(class: ErrorClass, err: ForgeError) -> Trouble {
    let (class, fate) = match &err {
        ForgeError::Authentication { .. } | ForgeError::Untrusted { .. } => {
            (ErrorClass::Configuration, Fate::Everywhere)
        }
        ForgeError::Forbidden { .. } | ForgeError::NotFound { .. } | ForgeError::State { .. } => {
            (ErrorClass::Access, Fate::Final)
        }
        ForgeError::Invalid { .. } | ForgeError::InTheWay { .. } => (class, Fate::Final),
        ForgeError::Fenced { .. } => (ErrorClass::Lost, Fate::Lost),
        ForgeError::Machine { .. } => (ErrorClass::Machine, Fate::Again(None)),
        ForgeError::RateLimited { .. } => (ErrorClass::Forge, Fate::Again(None)),
        ForgeError::Conflict { .. }
        | ForgeError::Moved { .. }
        | ForgeError::Unavailable { .. }
        | ForgeError::Git { .. }
        | ForgeError::Malformed { .. } => (class, Fate::Again(None)),
    };
    Trouble { class, fate, failure: Failure::from(err) }
}

/// Why the agent stopped before it was finished; `None` when it finished.
pub(super) fn of_stop(stop: StopKind) -> Option<Trouble> {
    let message = stop.sentence();
    let (class, fate) = match stop {
        StopKind::Finished => return None,
        StopKind::Provider(err) => return Some(of_provider(err)),
        StopKind::Machine(failure) => return Some(failure.into()),
        StopKind::Sandbox(_) => (ErrorClass::Sandbox, Fate::Again(None)),
        StopKind::Refused | StopKind::Filtered | StopKind::EmptyReply | StopKind::CutOff => {
            (ErrorClass::Model, Fate::Final)
        }
        StopKind::Budget(_) | StopKind::ContextExhausted => (ErrorClass::Budget, Fate::Final),
        StopKind::DoomLoop | StopKind::FormatErrors => (ErrorClass::Agent, Fate::Final),
        StopKind::Cancelled => (ErrorClass::Lost, Fate::Released),
    };
    let kind = match class {
        ErrorClass::Sandbox => FailureKind::Sandbox,
        ErrorClass::Budget => FailureKind::Budget,
        _ => FailureKind::Provider,
    };
    Some(Trouble::new(class, fate, Failure::new(kind, message)))
}

/// The provider has no reply. A wrong key, an empty account or a model that is not there are so in every
/// repository; a rejected conversation is this one's.
pub(super) fn of_provider(err: ProviderError) -> Trouble {
    let (class, fate) = match &err {
        ProviderError::RateLimited { wait, .. } => (ErrorClass::Model, Fate::Again(*wait)),
        ProviderError::Unavailable { .. } | ProviderError::Malformed { .. } => {
            (ErrorClass::Model, Fate::Again(None))
        }
        ProviderError::Quota { .. } => (ErrorClass::Model, Fate::Everywhere),
        ProviderError::Authentication { .. } | ProviderError::Rejected { status: 404, .. } => {
            (ErrorClass::Configuration, Fate::Everywhere)
        }
        ProviderError::Rejected { .. }
        | ProviderError::ContextOverflow { .. }
        | ProviderError::Filtered { .. }
        | ProviderError::ScriptExhausted { .. } => (ErrorClass::Model, Fate::Final),
    };
    Trouble { class, fate, failure: Failure::from(err) }
}
