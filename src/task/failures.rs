//! Errors of the seams as people read them: exit code by where it happened, and the next step.

use crate::egress::roots;
use crate::error::{Failure, FailureKind, Hint};
use crate::forge::{ForgeError, Need};
use crate::sandbox::SandboxError;

impl From<ForgeError> for Failure {
    /// The exit code is the forge's; hints name what to change.
    fn from(err: ForgeError) -> Failure {
        let hint = match &err {
            ForgeError::Authentication { .. } => Some(
                "set `GITHUB_TOKEN` to a token with `contents: write`, `issues: write` and \
                 `pull-requests: write`"
                    .to_owned(),
            ),
            ForgeError::Forbidden { need: Some(need), .. } => Some(match need {
                Need::Permission(_) => format!("give the token {need}"),
                Need::Workflows => {
                    "the token may not change workflow files; leave them to be handed \
                                    over as a patch, or give the token the `workflows` permission"
                        .to_owned()
                }
                Need::Setting(_) => format!("turn on {need}"),
            }),
            ForgeError::InTheWay { .. } => {
                Some("choose another name with `--branch`, or delete that branch".to_owned())
            }
            ForgeError::Machine { .. } => {
                Some("check free space and permissions of the state folder".to_owned())
            }
            ForgeError::RateLimited { .. } => {
                Some("run the same command again after that; no work is lost".to_owned())
            }
            ForgeError::Unavailable { .. } => {
                Some("run the same command again later; no work is lost".to_owned())
            }
            ForgeError::Untrusted { .. } => Some(roots::TRUST.to_owned()),
            _ => None,
        };
        let kind = match &err {
            ForgeError::Machine { .. } => FailureKind::Machine,
            _ => FailureKind::Forge,
        };
        let failure = Failure::new(kind, err.to_string());
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// The same with what was being done in front, and the forge's words as the cause.
pub(super) fn of_forge(doing: impl Into<String>, err: ForgeError) -> Failure {
    let cause = anyhow::anyhow!("{err}");
    let failure = Failure::from(err);
    Failure { message: doing.into(), cause: Some(cause), ..failure }
}

impl From<SandboxError> for Failure {
    fn from(err: SandboxError) -> Failure {
        // What the public reads has no path in it.
        if let SandboxError::Folder { verb, path, cause } = err {
            let failure = Failure::sandbox(format!("cannot {verb} a folder of the sandbox"))
                .hint(Hint::on_this_machine(format!("it is `{path}`")));
            let is_full = cause.kind() == std::io::ErrorKind::StorageFull;
            let failure = failure.caused_by(cause);
            return if is_full { failure.hint("free some space on that disk") } else { failure };
        }
        let hint = match &err {
            SandboxError::NoDocker { .. } => Some(
                "start Docker, or name its socket with `DOCKER_HOST`, or use `--sandbox local`; \
                 `patchwright doctor` checks it"
                    .to_owned(),
            ),
            SandboxError::NoImage { image, .. } => Some(format!(
                "`docker pull {image}`, or name an image that is there with `--image`"
            )),
            SandboxError::Setup { output, .. } if !output.is_empty() => {
                Some(format!("its output ended with:\n{output}"))
            }
            SandboxError::SetupTime { output, .. } => {
                let more = "give it more with `limits.setup-timeout`, and the run with `--timeout`";
                Some(if output.is_empty() {
                    more.to_owned()
                } else {
                    format!("{more}; its output ended with:\n{output}")
                })
            }
            SandboxError::DiskFull(_) => Some("free some space on Docker's disk".to_owned()),
            SandboxError::Looser(_) => Some(
                "the Docker daemon changes what containers are started with; see `docs/sandbox.md`"
                    .to_owned(),
            ),
            SandboxError::Gone(_) => Some("run the same command again to go on".to_owned()),
            SandboxError::Setup { .. } | SandboxError::Folder { .. } | SandboxError::Other(_) => {
                None
            }
        };
        let failure = match &err {
            SandboxError::SetupTime { .. } => Failure::new(FailureKind::Budget, err.to_string()),
            _ => Failure::sandbox(err.to_string()),
        };
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
