//! `patchwright serve`: a server for webhooks of a GitHub App or a repository.

use std::num::NonZeroUsize;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpListener;

use crate::cli::lease::LeaseFlag;
use crate::cli::retention::RetentionFlag;
use patchwright_base::duration::parse_duration;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_fleet::batch::fleet::Fleet;
use patchwright_fleet::batch::worker::{self, WorkerOptions};
use patchwright_fleet::server::{
    self, DashboardAccess, Network, Options, ServedRepositories, TrustedProxy,
};
use patchwright_forge::github::HookSource;
use patchwright_task::signals;
use patchwright_types::campaign::{JobKind, Millis};

const SECRET: &str = "PATCHWRIGHT_WEBHOOK_SECRET";
const PREVIOUS: &str = "PATCHWRIGHT_WEBHOOK_SECRET_PREVIOUS";
const DASHBOARD: &str = "PATCHWRIGHT_DASHBOARD_TOKEN";

/// The shortest secret of a hook.
const SHORTEST: usize = 16;
/// The shortest token of the dashboard. Its sessions can be tried offline by whoever steals a cookie.
const SHORTEST_TOKEN: usize = 32;

/// Receive webhooks, do what they ask for, serve a dashboard
///
/// Listens for webhooks of a GitHub App or a repository at `/webhook`, stores each one before it is
/// acknowledged, and does what it asks for as `action` would: issues, reviews and comments. Also runs
/// the jobs of campaigns. `/` is a dashboard, `/healthz` says whether all is well, `/metrics` is for Prometheus.
///
/// Needs `PATCHWRIGHT_WEBHOOK_SECRET`; `GITHUB_TOKEN`, or `PATCHWRIGHT_APP_ID` with
/// `PATCHWRIGHT_APP_PRIVATE_KEY` or `PATCHWRIGHT_APP_PRIVATE_KEY_FILE`; and the key of the model's
/// provider. `DATABASE_URL` names a database that several machines share.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address and port to listen on
    #[arg(
        long,
        env = "PATCHWRIGHT_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8080"
    )]
    pub listen: String,

    /// Another address and port for the dashboard and the metrics; `--listen` then has the webhooks alone
    #[arg(long, env = "PATCHWRIGHT_DASHBOARD_LISTEN", value_name = "ADDRESS:PORT")]
    pub dashboard_listen: Option<String>,

    /// Header in which a reverse proxy names its user, who may then see the dashboard; needs
    /// `--dashboard-proxy`
    #[arg(
        long,
        env = "PATCHWRIGHT_DASHBOARD_USER_HEADER",
        value_name = "NAME",
        requires = "dashboard_proxy"
    )]
    pub dashboard_user_header: Option<String>,

    /// Address or network of that proxy, such as `10.0.0.0/8`; repeatable. Nobody else is believed
    #[arg(
        long,
        env = "PATCHWRIGHT_DASHBOARD_PROXY",
        value_name = "ADDRESS",
        value_delimiter = ',',
        requires = "dashboard_user_header"
    )]
    pub dashboard_proxy: Vec<Network>,

    /// Whose repositories are served, such as `acme/*`, or `all`; repeatable
    #[arg(
        long = "repository",
        env = "PATCHWRIGHT_REPOSITORIES",
        value_name = "GLOB",
        value_delimiter = ','
    )]
    pub repositories: Vec<String>,

    /// Repository hook whose missed deliveries are asked for; takes a token of an administrator;
    /// repeatable. An App's own are asked for anyway
    #[arg(
        long = "hook",
        env = "PATCHWRIGHT_HOOKS",
        value_name = "OWNER/REPO/ID",
        value_delimiter = ','
    )]
    pub hooks: Vec<HookSource>,

    /// How often missed deliveries are asked for
    #[arg(long, env = "PATCHWRIGHT_CATCH_UP", value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub catch_up: Duration,

    /// Events that are older set nothing off
    #[arg(long, env = "PATCHWRIGHT_MAX_AGE", value_name = "DURATION", default_value = "24h", value_parser = parse_duration)]
    pub max_age: Duration,

    /// The longest that a request may take to arrive
    #[arg(long, env = "PATCHWRIGHT_REQUEST_TIMEOUT", value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub request_timeout: Duration,

    /// Agent runs at once [default: by cores and memory]
    #[arg(long, env = "PATCHWRIGHT_ROOM", value_name = "N")]
    pub room: Option<NonZeroUsize>,

    #[command(flatten)]
    pub lease: LeaseFlag,

    /// How long running jobs may go on after SIGTERM; then they are put back into the queue
    #[arg(long, env = "PATCHWRIGHT_DRAIN", value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub drain: Duration,

    /// Only take webhooks; `patchwright worker` does the work
    #[arg(long, env = "PATCHWRIGHT_NO_WORKER")]
    pub no_worker: bool,

    #[command(flatten)]
    pub retention: RetentionFlag,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    signals::watch_serving();
    let lease = args.lease.length()?;
    let retention = args.retention.length()?;
    let secrets = secrets(env)?;
    let repositories = ServedRepositories::matching(&named(&args.repositories))?;
    let dashboard = dashboard_access(&args, env)?;
    let config = args.common.resolve()?;
    // Jobs read the limit from the environment, so the flag is written there.
    let max_age = format!("{}s", args.max_age.as_secs());
    let env = &env.clone().with("PATCHWRIGHT_MAX_AGE", max_age);
    let listener = listen(&args.listen).await?;
    let pages = match named(args.dashboard_listen.as_slice()).first() {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let fleet = Fleet::open(config, &args.common, env, ui).await?;
    let fleet = Fleet { drain_time: args.drain, retention: args.retention.retention, ..fleet };
    let mut hooks = args.hooks.clone();
    // An App has one hook for all installations, which its own key may read.
    if fleet.forge.is_app() {
        hooks.push(HookSource::App);
    }
    let options = Options {
        secrets,
        dashboard,
        repositories,
        hooks,
        catch_up: args.catch_up,
        max_age: args.max_age,
        request_timeout: args.request_timeout,
        worker: (!args.no_worker).then(|| worker_options(&args, lease, retention)),
    };
    greet(&args, &options, (&listener, pages.as_ref()), ui);
    let store = fleet.store.clone();
    server::run(fleet, options, listener, pages).await?;
    store.close().await;
    Ok(0)
}

fn worker_options(args: &Args, lease: Millis, retention: Millis) -> WorkerOptions {
    WorkerOptions {
        kinds: JobKind::ALL.to_vec(),
        campaign: None,
        room: args.room.unwrap_or_else(worker::room),
        lease,
        retention: Some(retention),
        until_idle: false,
        launcher: None,
    }
}

/// The secrets of the hook, the one in use first.
fn secrets(env: &Env) -> Result<Vec<SecretString>> {
    let set = |name: &str| env.secret(name).filter(|secret| !secret.expose_secret().is_empty());
    let current = set(SECRET).ok_or_else(|| {
        Failure::usage(format!("`{SECRET}` is not set")).hint(format!(
            "choose a long random secret (`openssl rand -hex 32`), give it to the webhook on GitHub \
             and set `{SECRET}` to it"
        ))
    })?;
    let previous = set(PREVIOUS);
    for (name, secret) in [(SECRET, Some(&current)), (PREVIOUS, previous.as_ref())] {
        if secret.is_some_and(|secret| secret.expose_secret().len() < SHORTEST) {
            return Err(Failure::usage(format!("`{name}` is shorter than {SHORTEST} characters"))
                .hint("anyone who guesses it can send events: make a new one with `openssl rand -hex 32`"));
        }
    }
    Ok(std::iter::once(current).chain(previous).collect())
}

/// Who sees the dashboard.
fn dashboard_access(args: &Args, env: &Env) -> Result<DashboardAccess> {
    let token = env.secret(DASHBOARD).filter(|token| !token.expose_secret().is_empty());
    if token.as_ref().is_some_and(|token| token.expose_secret().len() < SHORTEST_TOKEN) {
        return Err(Failure::usage(format!(
            "`{DASHBOARD}` is shorter than {SHORTEST_TOKEN} characters"
        ))
        .hint(
            "anyone who guesses it sees the dashboard: make a new one with `openssl rand -hex 32`",
        ));
    }
    let header =
        args.dashboard_user_header.as_deref().map(str::trim).filter(|name| !name.is_empty());
    let proxy = match header {
        None => None,
        Some(name) => Some(TrustedProxy {
            header: name.parse().map_err(|_| {
                Failure::usage(format!("`--dashboard-user-header` is no header's name: {name}"))
                    .hint("such as `X-Forwarded-User`")
            })?,
            networks: args.dashboard_proxy.clone(),
        }),
    };
    Ok(DashboardAccess { token, proxy })
}

/// Words without blank ones.
fn named(words: &[String]) -> Vec<String> {
    words.iter().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

async fn listen(address: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|err| {
        let failure = Failure::usage(format!("cannot listen on `{address}`"));
        let hint = match err.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another program listens there: stop it, or choose another port with `--listen`"
            }
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 are for administrators: choose a higher one with `--listen`"
            }
            std::io::ErrorKind::AddrNotAvailable => {
                "this machine has no such address: `0.0.0.0:PORT` stands for all that it has"
            }
            _ => "`--listen` takes an address of this machine and a port, such as `0.0.0.0:8080`",
        };
        failure.caused_by(err).hint(hint)
    })
}

fn greet(
    args: &Args,
    options: &Options,
    (listener, pages): (&TcpListener, Option<&TcpListener>),
    ui: Ui,
) {
    let address = listener.local_addr().map_or(args.listen.clone(), |at| at.to_string());
    // The line about webhooks is the last one: whoever waits for it may ask for pages as well.
    if let Some(Ok(pages)) = pages.map(TcpListener::local_addr) {
        ui.say(&format!("dashboard at http://{pages}"));
    }
    ui.say(&format!("listening on http://{address}, webhooks at /webhook"));
    if options.dashboard.token.is_none() && options.dashboard.proxy.is_none() {
        ui.say(&format!("pages and metrics are for this machine only; `{DASHBOARD}` opens them"));
    }
    match &options.worker {
        Some(worker) => ui.say(&format!("{} agent runs at once", worker.room)),
        None => ui.say("no worker here: `patchwright worker` does the work"),
    }
}
