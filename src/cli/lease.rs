//! `--lease`, a flag of every command that runs jobs.

use std::time::Duration;

use patchwright_base::duration::parse_duration;
use patchwright_base::error::{Failure, Result};
use patchwright_types::campaign::{Millis, millis_of};

/// The shortest lease that leaves time to renew it.
const SHORTEST: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub struct LeaseFlag {
    /// How long a job stays this worker's without a sign of life
    #[arg(long, env = "PATCHWRIGHT_LEASE", value_name = "DURATION", default_value = "120s", value_parser = parse_duration)]
    pub lease: Duration,
}

impl LeaseFlag {
    /// Its length.
    ///
    /// # Errors
    /// When it is too short to be renewed.
    pub fn length(&self) -> Result<Millis> {
        if self.lease < SHORTEST {
            return Err(Failure::usage("`--lease` is too short to be renewed").hint(
                "give at least `2s`; the usual `120s` survives short breaks of the network",
            ));
        }
        Ok(millis_of(self.lease))
    }
}
