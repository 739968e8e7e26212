//! Calls to the engine: every one has a bound, and an error that names the call.

use std::time::Duration;

use bollard::errors::Error;

use crate::SandboxError;
use patchwright_base::error::chain;

/// Longest message that is kept of what the engine says, in characters.
const MESSAGE: usize = 1_000;

/// A call that failed.
#[derive(Debug)]
pub(super) struct ApiError {
    /// The call, in words for a person.
    what: String,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    TimedOut(Duration),
    Answered {
        status: u16,
        message: String,
    },
    /// No answer, or one that is not HTTP and JSON.
    Broken(String),
}

/// Runs one call, at most `limit` long.
pub(super) async fn bounded<T>(
    what: &str,
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, ApiError> {
    let cause = match tokio::time::timeout(limit, call).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(Error::DockerResponseServerError { status_code, message })) => {
            Cause::Answered { status: status_code, message: clip(&message) }
        }
        Ok(Err(Error::DockerStreamError { error })) => {
            Cause::Answered { status: 500, message: clip(&error) }
        }
        Ok(Err(err)) => Cause::Broken(clip(&chain(&err))),
        Err(_) => Cause::TimedOut(limit),
    };
    Err(ApiError { what: what.to_owned(), cause })
}

impl ApiError {
    /// There is no such container, image or volume.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.cause, Cause::Answered { status: 404, .. })
    }

    /// The name is taken, or the thing is in a state that forbids this.
    pub(super) fn is_conflict(&self) -> bool {
        match &self.cause {
            Cause::Answered { status: 409, .. } => true,
            // Podman says of a name that its storage has already that something is wrong inside, from 3.0 to 4.3 at least.
            Cause::Answered { status: 500, message } => {
                message.contains("name \"") && message.contains("is already in use")
            }
            Cause::Answered { .. } | Cause::TimedOut(_) | Cause::Broken(_) => false,
        }
    }

    /// The engine has taken the call and does not come to its end.
    pub(super) fn is_timeout(&self) -> bool {
        matches!(self.cause, Cause::TimedOut(_))
    }

    /// The container does not run any more: a state of Podman's, on the way to the one that Docker has as well, that
    /// the client library does not know.
    pub(super) fn says_stopped(&self) -> bool {
        matches!(&self.cause, Cause::Broken(message) if message.contains("unknown variant `stopped`"))
    }

    /// The engine does not answer at all.
    pub(super) fn is_unreachable(&self) -> bool {
        matches!(self.cause, Cause::TimedOut(_) | Cause::Broken(_))
    }

    /// What went wrong, without the name of the call.
    pub(super) fn cause(&self) -> String {
        match &self.cause {
            Cause::TimedOut(limit) => format!("no answer within {} s", limit.as_secs()),
            Cause::Answered { message, .. } | Cause::Broken(message) => message.clone(),
        }
    }
}

impl From<ApiError> for SandboxError {
    fn from(err: ApiError) -> SandboxError {
        let message = format!("docker {}: {}", err.what, err.cause());
        if message.contains("no space left on device") {
            return SandboxError::EngineFull(message);
        }
        if err.is_unreachable() {
            SandboxError::EngineBroken(message)
        } else {
            SandboxError::Other(message)
        }
    }
}

/// Cuts what the engine said to a bound and to one line.
fn clip(message: &str) -> String {
    message
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .take(MESSAGE)
        .collect::<String>()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_name_is_known_by_the_words_of_each_engine() {
        let taken = "container create: creating container storage: the container name \"patchwright-r1-agent\" is \
                     already in use by 0123. You have to remove that container to be able to reuse that name";
        for (status, message, expected) in [
            (
                409,
                "Conflict. The container name \"/a\" is already in use by container \"0\".",
                true,
            ),
            (409, "removal of container 0 is already in progress", true),
            (500, taken, true),
            (500, "driver failed: bind: address already in use", false),
            (404, "no such container", false),
        ] {
            let failed = async {
                Err::<(), _>(Error::DockerResponseServerError {
                    status_code: status,
                    message: message.to_owned(),
                })
            };
            let err = bounded("create", Duration::from_secs(1), failed).await.unwrap_err();
            assert_eq!(err.is_conflict(), expected, "{status} {message}");
        }
    }
}
