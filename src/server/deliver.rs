//! A webhook delivery that was accepted: what it asks for, and the run that does it.

use std::sync::Arc;

use crate::batch::fleet::Fleet;
use crate::batch::lease::Held;
use crate::error::{Failure, Result};

/// Decides what follows from the delivery, does it, and ends the job.
pub async fn work(_fleet: &Fleet, _held: Arc<Held>) -> Result<()> {
    Err(Failure::internal("not there yet"))
}
