//! Looks for deliveries that were given up without a word ([`crate::server::lost`]), beside the claims: saying so writes
//! on GitHub.

use std::time::{Duration, Instant};

use tokio_util::task::AbortOnDropHandle;

use crate::batch::fleet::Fleet;
use crate::server::lost;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);

/// When it was looked last, and the look that is not over.
#[derive(Default)]
pub(super) struct LostDeliveries {
    looked: Option<Instant>,
    looking: Option<AbortOnDropHandle<()>>,
}

impl LostDeliveries {
    pub(super) fn look(&mut self, fleet: &Fleet) {
        let apart = LOOK.mul_f64(fleet.env.time_scale());
        let is_idle = self.looking.as_ref().is_none_or(AbortOnDropHandle::is_finished);
        if !is_idle || self.looked.is_some_and(|at| at.elapsed() < apart) {
            return;
        }
        self.looked = Some(Instant::now());
        let fleet = fleet.clone();
        let looking = async move {
            if let Err(err) = lost::look(&fleet).await {
                // The claims say so, when it is more than a moment.
                tracing::debug!(%err, "lost deliveries cannot be looked for");
            }
        };
        self.looking = Some(AbortOnDropHandle::new(tokio::spawn(looking)));
    }
}
