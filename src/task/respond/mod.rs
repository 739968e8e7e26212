//! What a comment asks for, done or answered where it was asked.

use crate::config::Config;
use crate::error::{Failure, Result};
use crate::task::Task;
use crate::task::outcome::Conclusion;
use crate::task::run::Surroundings;
use crate::world::World;

/// What came of it.
#[derive(Debug)]
pub struct Responded {
    pub conclusion: Conclusion,
    /// The answer that was posted, or what was done.
    pub message: String,
}

/// Does what `task` (a [`crate::task::TaskKind::Respond`]) asks for.
///
/// # Errors
/// A [`Failure`] when there is no outcome to report.
pub async fn respond(
    world: &World,
    config: Config,
    task: Task,
    around: Surroundings,
) -> Result<Responded> {
    let _ = (world, config, task, around);
    Err(Failure::internal("not there yet"))
}
