//! A look at a campaign, and a database that goes away in between. Workers wait for it as long as it takes; somebody waits
//! for this command, and may not see why.

use std::time::{Duration, Instant};

use super::{Drive, StepOutcome, advance};
use crate::batch::fleet::Fleet;
use patchwright_base::error::Result;
use patchwright_types::campaign::{CampaignView, Event};

/// How long a database is waited for.
const PATIENCE: Duration = Duration::from_mins(10);
/// Between two tries.
const AGAIN: Duration = Duration::from_secs(1);
/// Looks in a row that may fail while the database answers: it may have come back before anybody could ask.
const MOST: u32 = 3;

/// How a campaign stands.
pub(super) struct Look {
    /// A wait is final only if nothing was running before the step: a job that ends meanwhile may open the next wave.
    pub(super) was_busy: bool,
    pub(super) step: StepOutcome,
    pub(super) events: Vec<Event>,
    pub(super) view: CampaignView,
}

impl Drive<'_> {
    /// Takes the next step, and reads what came of it.
    pub(super) async fn look(&mut self) -> Result<Look> {
        let was_busy = self.is_busy().await?;
        let step = advance(self.fleet, &self.id).await?;
        let seen = self.seen;
        let events = self.fresh_events().await?;
        let view = self.fleet.store.view(&self.id).await;
        if view.is_err() {
            // Nobody has been shown them.
            self.seen = seen;
        }
        Ok(Look { was_busy, step, events, view: view? })
    }
}

/// What is known of a database that did not answer.
#[derive(Default)]
pub(super) struct DatabaseWait {
    since: Option<Instant>,
    answered: u32,
}

impl DatabaseWait {
    /// After a look that failed, and a while: whether another one may do better. The worker beside says what is waited for.
    pub(super) async fn waits(&mut self, fleet: &Fleet) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let scale = fleet.env.time_scale();
        if fleet.drain.is_cancelled() || since.elapsed() >= PATIENCE.mul_f64(scale) {
            return false;
        }
        match fleet.store.check_version().await {
            Err(err) if err.is_transient() => self.answered = 0,
            Ok(()) if self.answered < MOST => self.answered += 1,
            Ok(()) | Err(_) => return false,
        }
        tokio::select! {
            () = fleet.drain.cancelled() => {}
            () = tokio::time::sleep(AGAIN.mul_f64(scale)) => {}
        }
        true
    }
}
