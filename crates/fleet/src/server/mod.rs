//! `patchwright serve`: webhooks in, work done, pages out.
//!
//! [`run`] is the whole server. [`webhook`] takes deliveries and stores them ([`intake`]) before they
//! are acknowledged; the worker claims their jobs, and [`deliver`] does what they ask for. [`catch_up`]
//! asks for those that never arrived. Pages and metrics are read only ([`dashboard`], [`runs`], [`reports`]); who sees
//! them is decided by [`visitor`].

mod attempts;
mod body;
mod catch_up;
mod connections;
mod counted;
mod dashboard;
pub mod deliver;
mod delivered_event;
mod delivery_job;
mod health;
mod intake;
pub(crate) mod lost;
mod metrics;
mod outsiders;
mod page;
mod proxy;
mod recent;
mod reports;
mod runs;
mod session;
mod shut_out;
mod sign_in;
mod signature;
mod visitor;
mod webhook;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use globset::GlobSet;
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::intake::Intake;
pub use self::proxy::{Network, TrustedProxy};
pub use self::reports::is_here as has_report;
pub use self::visitor::DashboardAccess;
use crate::batch::fleet::Fleet;
use crate::batch::worker::{self, WorkerOptions};
use patchwright_base::error::{Failure, Result, Service};
use patchwright_forge::github::HookSource;
use patchwright_forge::{Forge, ForgeError, RepositoryId};
use patchwright_task::event::TriggerConfig;
use patchwright_task::live::LiveRuns;

/// How long a worker that ended by itself stays away.
const RESTART: Duration = Duration::from_secs(5);
/// Connections to pages at once, when they have an address of their own.
const MOST_VISITORS: usize = 128;

/// Which repositories are served.
#[derive(Clone, Debug)]
pub struct ServedRepositories(Option<GlobSet>);

/// The word that stands for every repository that sends webhooks.
pub const ALL: &str = "all";

impl ServedRepositories {
    /// Those that match one of these globs of `owner/name`, or all with `--repository all`.
    ///
    /// # Errors
    /// When there is none, or one is not a glob.
    pub fn matching(globs: &[String]) -> Result<ServedRepositories> {
        if globs.is_empty() {
            return Err(Failure::usage("`--repository` is missing")
                .hint("name them, such as `--repository 'acme/*'`")
                .hint(
                    "`--repository all` serves everybody who can send webhooks: everyone who installs a \
                     public App then spends your key",
                ));
        }
        if globs.iter().any(|glob| glob == ALL) {
            return Ok(ServedRepositories(None));
        }
        let mut set = GlobSet::builder();
        for glob in globs {
            let parsed = globset::GlobBuilder::new(glob)
                .case_insensitive(true)
                // `*` must not match a slash: `acme/*` names repositories of one owner only.
                .literal_separator(true)
                .build();
            let wrong =
                || Failure::usage(format!("`--repository` takes patterns of `OWNER/REPO`: {glob}"));
            set.add(parsed.map_err(|err| wrong().caused_by(err))?);
            if !can_match(glob) {
                return Err(wrong().hint("it can match no repository; write it like `acme/*`"));
            }
        }
        let set = set.build().map_err(|err| {
            Failure::usage("the patterns of `--repository` are too many").caused_by(err)
        })?;
        Ok(ServedRepositories(Some(set)))
    }

    fn allows(&self, repository: &RepositoryId) -> bool {
        self.0.as_ref().is_none_or(|set| set.is_match(repository.to_string()))
    }
}

/// Whether a glob could be of an `OWNER/REPO`: an address and an owner alone would serve nobody, without a word.
fn can_match(glob: &str) -> bool {
    let is_in_no_name = |c: char| c.is_whitespace() || matches!(c, ':' | '@' | '#');
    // What is in braces has its own slashes, and `**` stands for any number of them.
    let counts = !glob.contains("**") && !glob.contains(['{', '[']);
    let parts: Vec<&str> = glob.split('/').collect();
    let is_a_pair = parts.len() == 2 && parts.iter().all(|part| !part.is_empty());
    !glob.contains(is_in_no_name) && (is_a_pair || (!counts && (parts.len() > 1 || glob == "**")))
}

/// How the server behaves.
pub struct Options {
    /// Secrets of the hook: the one in use, and during a rotation the one before.
    pub secrets: Vec<SecretString>,
    /// Who sees pages.
    pub dashboard: DashboardAccess,
    pub repositories: ServedRepositories,
    /// Whose missed deliveries are asked for.
    pub hooks: Vec<HookSource>,
    /// How often.
    pub catch_up: Duration,
    /// Older events set nothing off.
    pub max_age: Duration,
    /// The longest that the head of a request may take, and its body.
    pub request_timeout: Duration,
    /// The worker of this process; `None` when others do the work.
    pub worker: Option<WorkerOptions>,
}

/// What all requests share.
struct ServerState {
    fleet: Fleet,
    options: Options,
    intake: Intake,
    room: body::BodyBudget,
    health: health::CachedHealth,
    attempts: attempts::Attempts,
    live: LiveRuns,
    worker_alive: AtomicBool,
    /// Cancelled when the server is to stop.
    stop: CancellationToken,
}

/// Serves on a socket until [`Fleet::drain`] is cancelled; then answers what has begun, stores what was
/// handed in, and lets the worker finish. Pages are on the second socket, when there is one.
pub async fn run(
    fleet: Fleet,
    options: Options,
    listener: TcpListener,
    pages: Option<TcpListener>,
) -> Result<()> {
    let stop = fleet.drain.clone();
    let (intake, writer) =
        Intake::start(fleet.store.clone(), fleet.ui, TriggerConfig::of(&fleet.config));
    let head_timeout = options.request_timeout;
    let shared = Arc::new(ServerState {
        fleet,
        options,
        intake,
        room: body::BodyBudget::new(),
        health: health::CachedHealth::default(),
        attempts: attempts::Attempts::default(),
        live: LiveRuns::default(),
        worker_alive: AtomicBool::new(true),
        stop: stop.clone(),
    });
    let work = tokio::spawn(work(Arc::clone(&shared)));
    let greeting = tokio::spawn(greet_github(shared.fleet.clone()));
    let catch_up = {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move { catch_up::run(&shared).await })
    };
    listen(&shared, listener, pages, head_timeout).await;
    shared.fleet.ui.say("stopping: no more webhooks are taken");
    let worked = work.await;
    let _ = catch_up.await;
    greeting.abort();
    // The writer stores what it has and ends when the last sender is dropped.
    drop(shared);
    if tokio::time::timeout(Duration::from_secs(10), writer).await.is_err() {
        tracing::warn!("the writer of deliveries did not end");
    }
    worked.map_err(|err| Failure::internal("the worker ended").caused_by(err))
}

/// Asks as the App who we are, beside everything else: deliveries are taken and stored whatever comes of it, and that an
/// App is not taken is better known now than with the first of them.
async fn greet_github(fleet: Fleet) {
    if !fleet.forge.is_app() {
        return;
    }
    // What may pass is asked again by the first delivery.
    if let Err(err @ ForgeError::Authentication { .. }) = fleet.forge.viewer().await {
        fleet.ui.failure(&err.to_string());
        fleet.outages.refuses_our_credential(Service::ForgeApi);
    }
}

/// Answers until the server is to stop.
async fn listen(
    shared: &Arc<ServerState>,
    listener: TcpListener,
    pages: Option<TcpListener>,
    patience: Duration,
) {
    let (hooks, dashboard) = (hook_routes(), page_routes(shared));
    let serve = |listener, router: Router<Arc<ServerState>>, most| {
        let router = router.with_state(Arc::clone(shared));
        connections::serve(listener, router, patience, shared.stop.clone(), most)
    };
    match pages {
        None => serve(listener, hooks.merge(dashboard), connections::most()).await,
        Some(pages) => {
            // Neither takes the other's connections.
            let few = MOST_VISITORS.min(connections::most() / 2);
            let most = connections::most() - few;
            let dashboard = dashboard.route("/healthz", get(health::healthz));
            tokio::join!(serve(listener, hooks, most), serve(pages, dashboard, few));
        }
    }
}

fn hook_routes() -> Router<Arc<ServerState>> {
    Router::new().route("/webhook", post(webhook::webhook)).route("/healthz", get(health::healthz))
}

fn page_routes(shared: &Arc<ServerState>) -> Router<Arc<ServerState>> {
    Router::new()
        .route("/", get(dashboard::index))
        .route("/runs", get(runs::runs))
        .route("/runs/{id}/report.html", get(reports::report))
        .route("/campaigns/{id}", get(dashboard::campaign))
        .route("/campaigns/{id}/events", get(dashboard::events))
        .route("/metrics", get(dashboard::metrics))
        .route("/sign-out", post(sign_in::sign_out))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(shared), dashboard::guard))
        // Not behind the guard: here is the way in.
        .route("/sign-in", get(sign_in::form).post(sign_in::sign_in))
}

/// Runs the worker. One that ends by itself, for any reason, is started again.
async fn work(shared: Arc<ServerState>) {
    let Some(options) = shared.options.worker.clone() else { return };
    let mut said = String::new();
    while !shared.stop.is_cancelled() {
        let (fleet, options) = (shared.fleet.clone(), options.clone());
        shared.worker_alive.store(true, Ordering::Relaxed);
        let ended = tokio::spawn(async move { worker::run(&fleet, options).await }).await;
        if shared.stop.is_cancelled() {
            return;
        }
        shared.worker_alive.store(false, Ordering::Relaxed);
        let why = match ended {
            Ok(Ok(())) => "it ended".to_owned(),
            Ok(Err(failure)) => failure.message,
            Err(_) => "it panicked".to_owned(),
        };
        // What lasts, such as a database that a newer version has changed, is said once.
        if why != said {
            tracing::error!(%why, "the worker is started again");
            shared.fleet.ui.failure(&format!("the worker is started again: {why}"));
            said = why;
        }
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = tokio::time::sleep(RESTART) => {}
        }
    }
}
