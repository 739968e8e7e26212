//! `--retention`, a flag of every command that runs jobs for as long as it lives.

use std::time::Duration;

use patchwright_base::duration::parse_duration;
use patchwright_base::error::{Failure, Result};
use patchwright_types::campaign::{Millis, millis_of};

/// GitHub can redeliver for three days: what is forgotten sooner could be done twice.
const SHORTEST: Duration = Duration::from_hours(4 * 24);

#[derive(Debug, clap::Args)]
pub struct RetentionFlag {
    /// How long webhook deliveries, their jobs and the events of ended campaigns are kept, and where that is longer than
    /// 720 h, reports and journals of runs
    #[arg(long, env = "PATCHWRIGHT_RETENTION", value_name = "DURATION", default_value = "720h", value_parser = parse_duration)]
    pub retention: Duration,
}

impl RetentionFlag {
    /// Its length.
    ///
    /// # Errors
    /// When it is shorter than GitHub can redeliver.
    pub fn length(&self) -> Result<Millis> {
        if self.retention < SHORTEST {
            return Err(Failure::usage("`--retention` is too short")
                .hint("give at least `96h`: GitHub delivers again what is up to three days old"));
        }
        Ok(millis_of(self.retention))
    }
}
