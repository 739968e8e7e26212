//! Crontab lines as people mean them, over the `cron` crate.

use chrono::{DateTime, Utc};

use crate::error::{Failure, Result};

/// A five-field crontab line in a time zone.
#[derive(Clone, Debug)]
pub struct Crontab {}

impl Crontab {
    /// Reads minute, hour, day of the month, month, day of the week (0 and 7 are Sunday; names are
    /// understood) and a zone such as `Europe/Berlin`.
    pub fn parse(_line: &str, _timezone: Option<&str>) -> Result<Crontab> {
        Err(Failure::internal("not there yet"))
    }

    /// The first moment after `after`, with its local date and time as text, which names it for
    /// [`crate::store::Store::fire_once`]. A local time that is skipped by daylight saving fires when
    /// the gap ends; one that comes twice fires once.
    pub fn next_after(&self, _after: DateTime<Utc>) -> Option<(DateTime<Utc>, String)> {
        None
    }
}
