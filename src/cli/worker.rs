//! `patchwright worker`.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::cli::lease::LeaseFlag;
use crate::cli::retention::RetentionFlag;
use patchwright_base::duration::parse_duration;
use patchwright_base::env::Env;
use patchwright_base::error::Result;
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_fleet::batch::fleet::Fleet;
use patchwright_fleet::batch::worker::{self, WorkerOptions};
use patchwright_types::campaign::JobKind;

/// Run jobs of the shared database until stopped
///
/// Takes what `batch run --detach`, `schedule` and `serve` have queued: agent runs, publishing,
/// deliveries. Any number of workers on any number of machines share a PostgreSQL database that
/// `DATABASE_URL` names; without it, workers of this machine share `fleet.db` in the state folder.
///
/// SIGTERM (or Ctrl-C) lets running jobs end and takes no new ones; a second one ends at once, and the
/// running jobs are taken over when their leases have run out.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub lease: LeaseFlag,

    /// Agent runs at once [default: by cores and memory]
    #[arg(long, env = "PATCHWRIGHT_ROOM", value_name = "N")]
    pub room: Option<NonZeroUsize>,

    /// How long running jobs may go on after SIGTERM; then they are put back into the queue
    #[arg(long, env = "PATCHWRIGHT_DRAIN", value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub drain: Duration,

    /// End when nothing is left to do
    #[arg(long, env = "PATCHWRIGHT_UNTIL_IDLE")]
    pub until_idle: bool,

    #[command(flatten)]
    pub retention: RetentionFlag,

    #[command(flatten)]
    pub common: Common,
}

/// Works until a signal; exits with 0, because jobs have outcomes of their own.
pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let lease = args.lease.length()?;
    let config = args.common.resolve()?;
    let fleet = Fleet::open(config, &args.common, env, ui).await?;
    let fleet = Fleet { drain_time: args.drain, ..fleet };
    let room = args.room.unwrap_or_else(worker::room);
    let runs = if room.get() == 1 { "1 run".to_owned() } else { format!("{room} runs") };
    ui.say(&format!("worker {}: {runs} at once, jobs of {}", fleet.owner, fleet.store.name()));
    if fleet.store.is_file() {
        let said = if env.database_url().is_some() { "names" } else { "is not set: this is" };
        ui.say(&format!(
            "`DATABASE_URL` {said} an SQLite file, for workers of this machine only; several machines \
             share a PostgreSQL, as in `postgres://USER:PASSWORD@HOST/NAME`"
        ));
    }
    let options = WorkerOptions {
        kinds: JobKind::ALL.to_vec(),
        campaign: None,
        room,
        lease,
        retention: Some(args.retention.length()?),
        until_idle: args.until_idle,
    };
    worker::run(&fleet, options).await?;
    fleet.store.close().await;
    Ok(0)
}
