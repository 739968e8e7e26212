//! Errors of the sandbox as people read them: the exit code, and the next step.

use std::io;

use rustix::io::Errno;

use super::{SandboxError, setup};
use patchwright_base::error::{Failure, FailureKind, Hint};

/// How a user comes to use Docker's socket, who may not.
pub const JOIN_DOCKER: &str = "let this user use Docker (`sudo usermod -aG docker $USER`, then sign in again; who is in \
                               that group can become root), or install rootless Docker";

/// What to do when a sandbox is gone.
const RESUME: &str = "run the same command again to resume";

/// What to do about the network, and how the output ended.
fn setup_hint(network: Option<String>, output: &str) -> Option<String> {
    let ended = (!output.is_empty()).then(|| format!("its output ended with:\n{output}"));
    let hints: Vec<String> = [network, ended].into_iter().flatten().collect();
    (!hints.is_empty()).then(|| hints.join("; "))
}

impl From<SandboxError> for Failure {
    fn from(err: SandboxError) -> Failure {
        // What the public reads has no path in it.
        if let SandboxError::Folder { verb, path, cause } = err {
            let is_full = cause.kind() == std::io::ErrorKind::StorageFull;
            // It lies in the state folder, whose disk is this machine's.
            let kind = if is_full { FailureKind::Machine } else { FailureKind::Sandbox };
            let failure = Failure::new(kind, format!("cannot {verb} a folder of the sandbox"))
                .hint(Hint::on_this_machine(format!("it is `{path}`")))
                .caused_by(without_path(&cause));
            return if is_full { failure.hint("free some space on that disk") } else { failure };
        }
        if let SandboxError::GuestFile { path, trouble, hint } = err {
            return Failure::sandbox(format!("the guest of the local sandbox {trouble}"))
                .hint(hint)
                .hint(Hint::on_this_machine(format!("it is `{path}`")));
        }
        let hint = match &err {
            SandboxError::NoDocker { .. } if err.is_closed_socket() => Some(format!(
                "{JOIN_DOCKER}, or name another socket with `DOCKER_HOST`, or use `--sandbox local` (in a workflow \
                 `sandbox: local`)"
            )),
            SandboxError::NoDocker { .. } => Some(
                "start Docker, or name its socket with `DOCKER_HOST`, or use `--sandbox local` \
                 (in a workflow `sandbox: local`); `patchwright doctor` checks it"
                    .to_owned(),
            ),
            SandboxError::NoImage { image, .. } => Some(format!(
                "`docker pull {image}`, or name an image that is there with `--image`"
            )),
            SandboxError::Setup { output, refused, unreached, is_offline, .. } => {
                let network = setup::network_hint(refused, *is_offline);
                let network = network.or_else(|| setup::unreached_hint(unreached));
                setup_hint(network, output)
            }
            SandboxError::SetupTime { output, .. } => {
                let more = "give it more with `limits.setup-timeout`, and the run with `--timeout`";
                Some(if output.is_empty() {
                    more.to_owned()
                } else {
                    format!("{more}; its output ended with:\n{output}")
                })
            }
            SandboxError::DiskFull(_) | SandboxError::EngineFull(_) => Some("free some space on Docker's disk".to_owned()),
            SandboxError::HardeningMismatch(_) => Some(
                "the Docker daemon, or an admission webhook of the cluster, changes what containers are started \
                 with; see `docs/sandbox.md`"
                    .to_owned(),
            ),
            SandboxError::Kubernetes { hint, .. } => hint.clone(),
            SandboxError::Gone(_) | SandboxError::EngineBroken(_) => Some(RESUME.to_owned()),
            SandboxError::Folder { .. }
            | SandboxError::GuestFile { .. }
            | SandboxError::Other(_) => None,
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

/// What the system said, without the path that `fs_err` puts in front. That keeps the number of the error
/// to itself, so its kind has to do.
fn without_path(err: &io::Error) -> io::Error {
    match (err.raw_os_error(), err.kind()) {
        (Some(code), _) => io::Error::from_raw_os_error(code),
        (None, io::ErrorKind::StorageFull) => Errno::NOSPC.into(),
        (None, kind) => kind.into(),
    }
}
