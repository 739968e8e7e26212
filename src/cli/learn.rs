//! `patchwright learn`: what maintainers corrected → a file of lessons, proposed by a pull request.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};

use patchwright_base::clock::Clock;
use patchwright_base::duration::parse_duration;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::{Common, PublishFlags};
use patchwright_config::{Config, SandboxChoice};
use patchwright_forge::RepositoryId;
use patchwright_task::learn::{LearnReport, learn};
use patchwright_task::run::RunEnvironment;
use patchwright_task::world::World;
use patchwright_types::outcome::Conclusion;
use patchwright_types::task::LearnRequest;

/// Propose lessons from what maintainers corrected
///
/// Reads what people with write access said on Patchwright's own pull requests and in answer to its reviews, and
/// what they pushed onto its branches, since the last proposal; has the model put it into lessons; and opens or
/// updates one pull request with `.github/patchwright-memory.md`. Runs read that file from the base branch, once
/// somebody has merged it.
///
/// Needs `GITHUB_TOKEN` with `contents: write` and `pull-requests: write`, and the key of the model's provider.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The repository
    #[arg(value_name = "OWNER/REPO")]
    pub repository: RepositoryId,

    /// Read what was said since this day (`2026-11-01`) or for so long (`30d`) [default: since the last proposal, 90
    /// days at most]
    #[arg(long, env = "PATCHWRIGHT_SINCE", value_name = "WHEN", value_parser = since)]
    pub since: Option<Since>,

    #[command(flatten)]
    pub common: Common,

    #[command(flatten)]
    pub publish: PublishFlags,
}

/// A moment, or how long it is ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    Day(NaiveDate),
    Ago(Duration),
}

/// Reads `2026-11-01`, `30d` or `12h`.
///
/// # Errors
/// A sentence about what it is not.
pub fn since(text: &str) -> std::result::Result<Since, String> {
    let text = text.trim();
    if let Ok(day) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return Ok(Since::Day(day));
    }
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    let ago = days.and_then(|days| days.checked_mul(24 * 60 * 60)).map(Duration::from_secs);
    let ago = ago.map_or_else(|| parse_duration(text), Ok);
    ago.map(Since::Ago).map_err(|_| {
        format!("`{text}` is neither a day such as `2026-11-01` nor a time such as `30d`")
    })
}

impl Since {
    /// # Errors
    /// When it is not in the past.
    pub fn before(self, now: DateTime<Utc>) -> Result<DateTime<Utc>> {
        let at = match self {
            Since::Day(day) => Some(day.and_time(NaiveTime::MIN).and_utc()),
            Since::Ago(ago) => {
                TimeDelta::from_std(ago).ok().and_then(|ago| now.checked_sub_signed(ago))
            }
        };
        at.filter(|at| *at < now).ok_or_else(|| {
            Failure::usage("`--since` is not in the past")
                .hint("give a day such as `2026-11-01`, or a time such as `30d`")
        })
    }
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<Conclusion> {
    let mut config = args.common.resolve()?;
    args.publish.overlay(&mut config);
    let now = Clock::new(env)?.now();
    let since = args.since.map(|since| since.before(now)).transpose()?;
    let request = LearnRequest { repository: args.repository, since, trigger: None };
    let learned = Box::pin(start(config, &args.common, request, env, ui)).await?;
    ui.data(&learned.message);
    Ok(learned.conclusion)
}

/// Proposes lessons; shared with `action`.
///
/// # Errors
/// As of [`learn`].
pub async fn start(
    config: Config,
    common: &Common,
    request: LearnRequest,
    env: &Env,
    ui: Ui,
) -> Result<LearnReport> {
    if !env.has_github() {
        return Err(Failure::forge("no GitHub token").hint(
            "set `GITHUB_TOKEN` to a token with `contents: write` and `pull-requests: write`",
        ));
    }
    // Nothing is run, so a machine without Docker will do.
    let config = Config { sandbox: SandboxChoice::Local, ..config };
    let world = World::for_github(&config, common, env).await?;
    Box::pin(learn(&world, config, request, RunEnvironment::new(ui, env))).await
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use crate::cli::learn::since;

    #[test]
    fn a_beginning_is_a_day_or_so_long_ago() {
        let now: DateTime<Utc> = "2026-11-20T12:00:00Z".parse().unwrap();
        for (text, at) in [
            ("2026-11-01", Some("2026-11-01T00:00:00Z")),
            ("30d", Some("2026-10-21T12:00:00Z")),
            ("12h", Some("2026-11-20T00:00:00Z")),
            ("2027-01-01", None),
            ("0d", None),
        ] {
            let expected = at.map(|at| at.parse::<DateTime<Utc>>().unwrap());
            assert_eq!(since(text).unwrap().before(now).ok(), expected, "{text}");
        }
        for text in ["", "yesterday", "2026-13-01", "-3d", "d", "99999999999999999999d"] {
            assert!(since(text).is_err(), "{text}");
        }
    }
}
