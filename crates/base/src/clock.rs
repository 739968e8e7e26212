//! Time, as everything that dates or waits reads it.

use std::time::Instant;

use chrono::{DateTime, Utc};

use crate::env::Env;
use crate::error::{Failure, Result};

/// Time. `PATCHWRIGHT_NOW` fixes the wall clock for reproducible output; waiting uses monotonic time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Wall clock when fixed.
    pub fixed: Option<DateTime<Utc>>,
}

impl Clock {
    /// The clock that the environment asks for.
    pub fn new(env: &Env) -> Result<Clock> {
        let fixed = env.var("PATCHWRIGHT_NOW").map(DateTime::parse_from_rfc3339).transpose();
        let fixed = fixed.map_err(|err| {
            Failure::usage("`PATCHWRIGHT_NOW` is not a time like `2026-11-20T12:00:00Z`")
                .caused_by(err)
        })?;
        Ok(Clock { fixed: fixed.map(|time| time.with_timezone(&Utc)) })
    }

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
