//! The outside, in one struct that is passed first: forge, model, sandbox, clock, state folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use chrono::{DateTime, Utc};

use crate::forge::Forge;
use crate::provider::Provider;
use crate::redact::Redactor;
use crate::sandbox::Sandbox;

/// Everything a run needs of the outside.
pub struct World {
    pub forge: Arc<dyn Forge>,
    pub provider: Arc<dyn Provider>,
    pub sandbox: Arc<dyn Sandbox>,
    pub clock: Clock,
    pub redactor: Arc<Redactor>,
    /// `…/patchwright`; runs live in `runs/<run-id>` below it, clone mirrors in `mirrors/`.
    pub state: PathBuf,
}

/// Time. `PATCHWRIGHT_NOW` fixes the wall clock for reproducible output; waiting uses monotonic time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Wall clock when fixed.
    pub fixed: Option<DateTime<Utc>>,
}

impl Clock {
    /// The wall clock, for display and dates.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now(&self) -> DateTime<Utc> {
        self.fixed.unwrap_or_else(Utc::now)
    }

    /// Monotonic time, for waits and durations.
    pub fn instant(&self) -> Instant {
        Instant::now()
    }
}
