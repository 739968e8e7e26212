//! A review from beginning to end.

use super::outcome::Reviewed;
use super::publish::Published;
use crate::config::Config;
use crate::error::{Failure, Result};
use crate::task::Task;
use crate::task::run::Surroundings;
use crate::world::World;

/// A review that came to an end.
#[derive(Debug)]
pub struct Ended {
    pub reviewed: Reviewed,
    pub published: Option<Published>,
    /// Where journal, findings and report are.
    pub folder: std::path::PathBuf,
}

/// Reviews: admit → open the head → look at what is there → checks → agent → place → publish.
///
/// # Errors
/// A [`Failure`] when there is no outcome to report.
pub async fn review(
    world: &World,
    config: Config,
    task: Task,
    around: Surroundings,
) -> Result<Ended> {
    let _ = (world, config, task, around);
    Err(Failure::internal("not there yet"))
}
