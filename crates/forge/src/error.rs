//! Why a forge did not do something. The facts that decide what happens next are in the variants; the
//! messages are for people, and nothing is ever decided by them.

use std::fmt;

use patchwright_base::error::{Outage, OutageCause, Service};

/// Why the forge did not do it.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// 404: it is not there, or we may not see it.
    #[error("{what} was not found")]
    NotFound { what: String },
    /// 401, and 404 to an App that is not there.
    #[error("{credential}: {message}")]
    Authentication { credential: Credential, message: String },
    /// 403: `need` is what has to be changed first.
    #[error("not allowed to {action}: {message}")]
    Forbidden { action: String, message: String, need: Option<Requirement> },
    /// Archived, locked, merged, deleted: it can no longer be done.
    #[error("{message}")]
    State { what: StateProblem, message: String },
    /// 422: our request is wrong.
    #[error("{action} was rejected: {message}")]
    Invalid { action: String, message: String },
    /// A commit has to be verified, and the forge would not do so: `hint` says what would change that. Nothing was
    /// pushed.
    #[error("{message}")]
    Unverified { message: String, hint: String },
    /// The forge found keys or passwords in what was pushed, and took nothing of it. The change is for nobody's eyes.
    #[error("{action} was rejected because of a secret in it: {message}")]
    SecretFound { action: String, message: String },
    /// Somebody else changed it first.
    #[error("{message}")]
    Conflict { message: String },
    /// A branch is not where it was expected to be. Nothing was written; looking again tells where it is.
    #[error("{message}")]
    Moved { message: String },
    /// No branch can have this name beside the branches that are there: `a` is in the way of `a/b`.
    #[error("the branch `{branch}` cannot be made: {message}")]
    InTheWay { branch: String, message: String },
    /// We may no longer write: somebody else has taken over what this write belongs to. Nothing was sent.
    #[error("{message}")]
    Fenced { message: String },
    /// A rate limit that outlasts our patience.
    #[error("the rate limit lasts until {until}")]
    RateLimited { until: String },
    /// 5xx, timeouts, connection trouble, after retries.
    #[error("{host} is unavailable: {message}")]
    Unavailable { service: Service, host: String, message: String, way: WayThere },
    /// The certificate is signed by nobody whom this machine trusts. Nothing was sent.
    #[error("cannot connect to {host} safely: {message}")]
    Untrusted { host: String, message: String },
    /// Clone, fetch or push trouble that is none of the above.
    #[error("git: {message}")]
    Git { message: String },
    /// This machine: the state folder or its disk.
    #[error("{message}")]
    Machine { message: String },
    /// The answer makes no sense.
    #[error("{host} answered with something unexpected: {message}")]
    Malformed { host: String, message: String },
}

impl ForgeError {
    /// The service that failed, when it is not about what was asked for.
    pub fn outage(&self) -> Option<Outage> {
        match self {
            ForgeError::Unavailable { service, .. } => Some(Outage::down(*service)),
            ForgeError::RateLimited { .. } => {
                Some(Outage { service: Service::ForgeApi, cause: OutageCause::Limited(None) })
            }
            _ => None,
        }
    }

    /// The App's installation is suspended: until an owner of the account ends that, nothing there can be done.
    pub fn is_suspension(&self) -> bool {
        matches!(self, ForgeError::Forbidden { need: Some(Requirement::ActiveInstallation), .. })
    }

    /// A state that nothing depends on, beyond that it is in the way.
    pub fn state(message: impl Into<String>) -> ForgeError {
        ForgeError::State { what: StateProblem::Other, message: message.into() }
    }
}

/// Where the trouble with a service may be, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayThere {
    /// With the service, or anywhere before it.
    Open,
    /// The proxy that requests go by cannot be connected to.
    ProxyAway,
}

/// What the operator gave us to be somebody on the forge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    Token,
    /// The id and the private key of a GitHub App.
    App,
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credential::Token => "the token is missing, wrong or expired",
            Credential::App => "the GitHub App's id or private key is wrong, or the App is gone",
        })
    }
}

/// Which state of things is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateProblem {
    /// The repository takes no more writes.
    Archived,
    /// The repository has no commits.
    Empty,
    /// The branch has nothing that its base lacks.
    NothingToPropose,
    /// The file is larger than what GitHub gives out.
    TooLarge,
    /// 410: an issue was deleted, or the repository has issues turned off.
    Gone,
    /// The issue is in another repository now: `owner/name#number`, unless that is hidden from us.
    Transferred { to: Option<String> },
    /// Locked, closed, merged, turned off.
    Other,
}

/// What would have to be different for us to be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// A permission of the token, as GitHub writes it: `contents: write`.
    Permission(String),
    /// The permission to change workflow files, which no Actions token has.
    Workflows,
    /// A setting of the repository, in GitHub's words.
    Setting(&'static str),
    /// That the App's installation is not suspended.
    ActiveInstallation,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Requirement::Permission(permission) => write!(f, "`{permission}`"),
            Requirement::Workflows => f.write_str("`workflows: write`, which no Actions token has"),
            Requirement::Setting(setting) => f.write_str(setting),
            Requirement::ActiveInstallation => {
                f.write_str("the App's installation to be unsuspended by an owner of the account")
            }
        }
    }
}
