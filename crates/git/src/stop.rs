//! When long work on a thread of its own is to end: a run's deadline, or its end.

use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::GitError;

/// Asked now and then by work that may take long.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    pub cancel: CancellationToken,
    /// Never, when absent.
    pub deadline: Option<Instant>,
}

impl Stop {
    /// For work that only its own limits end.
    pub fn never() -> Stop {
        Stop { cancel: CancellationToken::new(), deadline: None }
    }

    /// # Errors
    /// When it is time to end; who gave the deadline knows what that means.
    pub fn check(&self) -> Result<(), GitError> {
        if self.is_over() { Err(over()) } else { Ok(()) }
    }

    /// It is time to end.
    pub fn is_over(&self) -> bool {
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        is_late || self.cancel.is_cancelled()
    }
}

fn over() -> GitError {
    GitError::Machine("the time for it is over".to_owned())
}
