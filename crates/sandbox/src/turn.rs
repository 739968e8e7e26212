//! One setup of a kind at a time on a machine: runs that need the same result wait for the first to have made it,
//! instead of installing the same beside each other.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

/// Between two looks whether it is our turn.
const LOOK: Duration = Duration::from_millis(200);

/// Nobody else with the same state folder has this turn while it is held.
pub(crate) struct Turn {
    #[expect(dead_code, reason = "open, it holds the lock")]
    file: File,
}

impl Turn {
    /// Waits for the turn, at most so long. Without it the same work may be done twice, and comes to the same.
    pub(crate) async fn wait(state: &Path, key: &str, most: Duration) -> Option<Turn> {
        let folder = state.join("locks");
        let opened = fs_err::create_dir_all(&folder).and_then(|()| {
            let mut options = fs_err::OpenOptions::new();
            options.create(true).append(true).open(folder.join(format!("setup-{key}")))
        });
        let file = opened.inspect_err(|err| tracing::warn!(%err, "cannot lock a setup")).ok()?;
        let (file, deadline) = (file.into_parts().0, Instant::now() + most);
        loop {
            match file.try_lock() {
                Ok(()) => return Some(Turn { file }),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    tokio::time::sleep(LOOK).await;
                }
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return None,
            }
        }
    }
}
