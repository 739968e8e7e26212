//! Errors of the forge as people read them: the exit code, and the next step.

use super::{Credential, ForgeError, Requirement, StateProblem, WayThere};
use patchwright_base::error::{Failure, FailureKind};
use patchwright_base::{proxies, roots};

impl From<ForgeError> for Failure {
    /// The exit code is the forge's; hints name what to change.
    fn from(err: ForgeError) -> Failure {
        let hint = match &err {
            ForgeError::Authentication { credential: Credential::App, .. } => Some(
                "check `PATCHWRIGHT_APP_ID` and the private key against the App's settings on GitHub".to_owned(),
            ),
            ForgeError::Authentication { credential: Credential::Token, .. } => Some(
                "set `GITHUB_TOKEN` to a token with `contents: write`, `issues: write` and \
                 `pull-requests: write`"
                    .to_owned(),
            ),
            ForgeError::Forbidden { need: Some(need), .. } => Some(how_to_get(need)),
            ForgeError::State { what: StateProblem::Transferred { to: Some(to) }, .. } => {
                Some(format!("run the same command for `{to}`"))
            }
            ForgeError::State { what: StateProblem::Transferred { to: None }, .. } => Some(
                "open its address in a browser to see where it is, and give the token access to that repository"
                    .to_owned(),
            ),
            ForgeError::Unverified { hint, .. } => Some(hint.clone()),
            ForgeError::SecretFound { .. } => Some(
                "have the change made without the secret; a false alarm can be allowed with the link that GitHub shows \
                 to whoever pushes it"
                    .to_owned(),
            ),
            ForgeError::InTheWay { .. } => {
                Some("choose another name with `--branch`, or delete that branch".to_owned())
            }
            ForgeError::Machine { .. } => {
                Some("check free space and permissions of the state folder".to_owned())
            }
            ForgeError::RateLimited { .. } => {
                Some("run the same command again after that; no work is lost".to_owned())
            }
            ForgeError::Unavailable { way: WayThere::ProxyAway, .. } => {
                Some(format!("{}; then run the same command again, no work is lost", proxies::AWAY))
            }
            ForgeError::Unavailable { way: WayThere::Open, .. } => {
                Some("run the same command again later; no work is lost".to_owned())
            }
            ForgeError::Untrusted { .. } => Some(roots::TRUST.to_owned()),
            _ => None,
        };
        let kind = match &err {
            ForgeError::Machine { .. } => FailureKind::Machine,
            ForgeError::Unverified { .. } | ForgeError::SecretFound { .. } => FailureKind::Refused,
            // As of an issue that is closed: there is nothing to be done here, now or later.
            ForgeError::State {
                what: StateProblem::Gone | StateProblem::Transferred { .. },
                ..
            } => FailureKind::NothingToDo,
            _ => FailureKind::Forge,
        };
        let failure = Failure::new(kind, err.to_string()).in_an_outage(err.outage());
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// How what is needed can be had.
fn how_to_get(need: &Requirement) -> String {
    match need {
        Requirement::Permission(_) => format!("give the token {need}"),
        Requirement::Workflows => {
            "the token may not change workflow files; leave them to be handed over as a patch, or give the token of an \
             App or of a person, with the `workflows` permission: a job's own `GITHUB_TOKEN` can never have it"
                .to_owned()
        }
        Requirement::Setting(_) => format!("turn on {need}"),
        Requirement::ActiveInstallation => {
            "an owner of the account ends the suspension in its settings on GitHub, under \u{201c}GitHub \
             Apps\u{201d}, \u{201c}Configure\u{201d}; then run the same command again"
                .to_owned()
        }
    }
}
