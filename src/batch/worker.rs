//! Claims jobs and runs them, as many at once as this machine has room for.

use std::num::NonZeroUsize;

use super::fleet::Fleet;
use crate::error::{Failure, Result};
use crate::store::model::{JobKind, Millis};

/// What a worker takes.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub kinds: Vec<JobKind>,
    /// Agent runs at once.
    pub room: NonZeroUsize,
    pub lease: Millis,
    /// Ends when there is nothing left to do, instead of waiting for more.
    pub until_idle: bool,
}

/// As many agent runs at once as cores and memory allow: 2 GiB each.
pub fn room() -> NonZeroUsize {
    NonZeroUsize::MIN
}

/// Claims and runs jobs until [`Fleet::drain`] is cancelled. Each kind has its function: [`super::target::work`],
/// [`super::publish::work`], and [`crate::server::deliver::work`].
pub async fn run(_fleet: &Fleet, _options: WorkerOptions) -> Result<()> {
    Err(Failure::internal("not there yet"))
}
