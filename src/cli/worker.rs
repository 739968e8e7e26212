//! `patchwright worker`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::lease::LeaseFlag;
use crate::cli::retention::RetentionFlag;
use patchwright_base::duration::parse_duration;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_fleet::batch::fleet::{self, Fleet};
use patchwright_fleet::batch::launch::Launcher;
use patchwright_fleet::batch::worker::{self, WorkerOptions};
use patchwright_task::signals;
use patchwright_types::campaign::{JobKind, Lease, Millis};

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

    /// Carry out each agent run in a pod of its own instead of in this process
    ///
    /// This process claims jobs, makes a Kubernetes Job for each, and looks after it; the pod takes the job over. Pods have
    /// the settings that the template gives them, not those of this process. See `docs/fleet.md`.
    #[arg(long, env = "PATCHWRIGHT_LAUNCH", value_name = "WHERE", requires = "pod_template")]
    pub launch: Option<Launch>,

    /// What pods of `--launch` look like: a file with a Kubernetes `PodTemplate`
    #[arg(long, env = "PATCHWRIGHT_POD_TEMPLATE", value_name = "FILE")]
    pub pod_template: Option<PathBuf>,

    /// Take over this job, work on it, and end: what `--launch` starts
    #[arg(long, value_name = "JOB/EPOCH", hide = true, requires = "from", conflicts_with_all = ["launch", "until_idle"])]
    pub one_job: Option<String>,

    /// Who claimed the job of `--one-job`
    #[arg(long, value_name = "OWNER", hide = true)]
    pub from: Option<String>,

    #[command(flatten)]
    pub retention: RetentionFlag,

    #[command(flatten)]
    pub common: Common,
}

/// Where agent runs are carried out.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Launch {
    Kubernetes,
}

/// Pods at once, where nobody says; the cluster has its own limits.
const PODS: NonZeroUsize = NonZeroUsize::new(10).expect("it is not zero");

/// Works until a signal; exits with 0, because jobs have outcomes of their own.
pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    signals::watch_serving();
    let lease = args.lease.length()?;
    let handed_over = handed_over(&args, lease)?;
    let config = args.common.resolve()?;
    // A pod has its job already.
    if handed_over.is_none() {
        fleet::spread(env).await;
    }
    let fleet = Fleet::open(config, &args.common, env, ui).await?;
    // Pods go on without their launcher.
    let drain_time = if args.launch.is_some() { Duration::ZERO } else { args.drain };
    let fleet = Fleet { drain_time, retention: args.retention.retention, ..fleet };
    if let Some(lease) = handed_over {
        worker::one_job(&fleet, &lease).await?;
        fleet.store.close().await;
        return Ok(0);
    }
    let launcher = launcher(&args, &fleet).await?;
    let by_default = || if launcher.is_some() { PODS } else { worker::room() };
    let room = args.room.unwrap_or_else(by_default);
    greet(&fleet, env, room, launcher.as_ref());
    let options = WorkerOptions {
        kinds: JobKind::ALL.to_vec(),
        campaign: None,
        room,
        lease,
        retention: Some(args.retention.length()?),
        until_idle: args.until_idle,
        launcher,
    };
    worker::run(&fleet, options).await?;
    fleet.store.close().await;
    Ok(0)
}

fn greet(fleet: &Fleet, env: &Env, room: NonZeroUsize, launcher: Option<&Launcher>) {
    let ui = fleet.ui;
    let (one, many) = if launcher.is_some() { ("pod", "pods") } else { ("run", "runs") };
    let runs = if room.get() == 1 { format!("1 {one}") } else { format!("{room} {many}") };
    let place = launcher.map(|launcher| format!(" in {}", launcher.place())).unwrap_or_default();
    ui.say(&format!(
        "worker {}: {runs} at once{place}, jobs of {}",
        fleet.owner,
        fleet.store.name()
    ));
    if fleet.store.is_file() {
        let said = if env.database_url().is_some() { "names" } else { "is not set: this is" };
        ui.say(&format!(
            "`DATABASE_URL` {said} an SQLite file, for workers of this machine only; several machines \
             share a PostgreSQL, as in `postgres://USER:PASSWORD@HOST/NAME`"
        ));
    }
}

async fn launcher(args: &Args, fleet: &Fleet) -> Result<Option<Launcher>> {
    match (args.launch, &args.pod_template) {
        (Some(Launch::Kubernetes), Some(template)) => {
            Launcher::open(fleet, template).await.map(Some)
        }
        // Without a template the command line is refused.
        (Some(Launch::Kubernetes), None) | (None, _) => Ok(None),
    }
}

/// The lease of `--one-job` and `--from`.
fn handed_over(args: &Args, length: Millis) -> Result<Option<Lease>> {
    let (Some(job), Some(from)) = (&args.one_job, &args.from) else { return Ok(None) };
    let parts = job.split_once('/').map(|(job, epoch)| (job.parse().ok(), epoch.parse().ok()));
    let Some((Some(job), Some(epoch))) = parts else {
        return Err(Failure::usage(format!("`--one-job {job}` is not of the form JOB/EPOCH")));
    };
    Ok(Some(Lease { job, epoch, owner: from.clone(), length }))
}
