//! What is simulated: how large the fleet is, and what goes wrong in the meantime.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, TimeZone, Utc};
use serde::{Serialize, Serializer};

use patchwright_base::duration::parse_duration;
use patchwright_base::error::{Failure, Result, Service};
use patchwright_types::campaign::{Millis, millis_of};

/// More repositories are not simulated: their rows would not fit into the memory of a small machine.
pub const MOST_REPOSITORIES: usize = 5_000_000;
const MOST_WORKERS: usize = 1_000_000;
const MOST_TOKENS: usize = 1_000;
const MOST_ROUNDS: usize = 1_000;
/// More go through the real queue only very slowly.
const MOST_CHECKED: usize = 100_000;

/// A service that does not answer for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledOutage {
    pub service: Service,
    /// After the campaign has begun.
    pub begins: Duration,
    pub lasts: Duration,
}

impl ScheduledOutage {
    /// From when to when, for a simulation that begins at `start`.
    pub(super) fn span(&self, start: Millis) -> (Millis, Millis) {
        let begins = start + millis_of(self.begins);
        (begins, begins + millis_of(self.lasts))
    }
}

impl FromStr for ScheduledOutage {
    type Err = String;

    fn from_str(text: &str) -> Result<ScheduledOutage, String> {
        let mistake = |why: &str| {
            format!("`{text}` is no outage{why}; write `github:60m@2h` or `model:30m@1h`")
        };
        let parts = text.split_once(':').and_then(|(service, times)| {
            let (lasts, begins) = times.split_once('@')?;
            Some((service, lasts, begins))
        });
        let (service, lasts, begins) = parts.ok_or_else(|| mistake(""))?;
        let service = match service {
            "github" => Service::ForgeApi,
            "model" => Service::Model,
            other => return Err(mistake(&format!(": `{other}` is neither `github` nor `model`"))),
        };
        let time = |text: &str| parse_duration(text).map_err(|why| mistake(&format!(": {why}")));
        let (lasts, begins) = (time(lasts)?, time(begins)?);
        if lasts.is_zero() {
            return Err(mistake(": it does not last"));
        }
        Ok(ScheduledOutage { service, begins, lasts })
    }
}

impl fmt::Display for ScheduledOutage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = if self.service == Service::Model { "model" } else { "github" };
        let (lasts, begins) = (self.lasts.as_secs(), self.begins.as_secs());
        write!(f, "{service}:{lasts}s@{begins}s")
    }
}

impl Serialize for ScheduledOutage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What is simulated, beside the campaign and what its runs are like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Options {
    pub repositories: usize,
    /// Runs at once that the machines have room for.
    pub workers: usize,
    /// GitHub identities, each with a pace of its own.
    pub tokens: usize,
    /// Owners of the repositories.
    pub organizations: usize,
    pub outages: Vec<ScheduledOutage>,
    /// Seed of the draws; equal seeds give equal answers.
    pub seed: u64,
    /// How often the whole is simulated, each time with other draws.
    pub rounds: usize,
    /// Repositories that go through the real queue as well.
    pub check: usize,
    pub start: DateTime<Utc>,
    /// REST requests that GitHub takes from one token in an hour.
    pub requests_per_hour: u32,
    /// After which time half of the pull requests are merged.
    pub merged_after: Duration,
    /// Whether it is simulated again with one limit lifted at a time.
    pub what_if: bool,
}

/// A Monday morning: the answer is the same on every day that it is asked for.
fn monday() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 1, 5, 8, 0, 0).single().unwrap_or_default()
}

impl Default for Options {
    fn default() -> Options {
        Options {
            repositories: 1_000,
            workers: 10,
            tokens: 1,
            organizations: 1,
            outages: Vec::new(),
            seed: 1,
            rounds: 5,
            check: 200,
            start: monday(),
            requests_per_hour: 5_000,
            merged_after: Duration::from_hours(24),
            what_if: true,
        }
    }
}

impl Options {
    /// # Errors
    /// With the flag that is out of its bounds.
    pub(super) fn check(&self) -> Result<()> {
        let bounds = [
            ("--repositories", self.repositories, 1, MOST_REPOSITORIES),
            ("--workers", self.workers, 1, MOST_WORKERS),
            ("--tokens", self.tokens, 1, MOST_TOKENS),
            ("--organizations", self.organizations, 1, self.repositories.max(1)),
            ("--rounds", self.rounds, 1, MOST_ROUNDS),
            ("--check", self.check, 0, MOST_CHECKED),
            ("--requests-per-hour", self.requests_per_hour as usize, 100, 1_000_000),
        ];
        for (flag, value, least, most) in bounds {
            if value < least || value > most {
                return Err(Failure::usage(format!(
                    "`{flag}` must be from {least} to {most}, and is {value}"
                )));
            }
        }
        if self.merged_after.is_zero() {
            return Err(Failure::usage("`--merged-after` must be longer than nothing"));
        }
        Ok(())
    }

    pub(super) fn start(&self) -> Millis {
        self.start.timestamp_millis()
    }

    /// The owner of a repository, by its place.
    pub(super) fn owner_of(&self, place: usize) -> usize {
        place % self.organizations.max(1)
    }

    /// What a repository is called, by its place.
    pub(super) fn name_of(&self, place: usize) -> String {
        format!("org-{}/repository-{place:07}", self.owner_of(place))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::batch::simulate::{Options, ScheduledOutage};
    use patchwright_base::error::Service;

    #[test]
    fn an_outage_is_a_service_a_time_and_a_beginning() {
        let outage: ScheduledOutage = "github:60m@2h".parse().unwrap();
        let wanted = ScheduledOutage {
            service: Service::ForgeApi,
            begins: Duration::from_hours(2),
            lasts: Duration::from_hours(1),
        };
        assert_eq!(outage, wanted);
        assert_eq!(outage.to_string().parse(), Ok(wanted));
        for (text, why) in [
            ("github", "write `github:60m@2h`"),
            ("gitlab:1h@1h", "neither `github` nor `model`"),
            ("model:0s@1h", "does not last"),
            ("model:1h@soon", "`soon` is not a duration"),
        ] {
            let said = text.parse::<ScheduledOutage>().unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        let wrong = Options { workers: 0, ..Options::default() };
        assert!(wrong.check().unwrap_err().message.contains("`--workers` must be from 1"));
        assert!(Options::default().check().is_ok());
    }
}
