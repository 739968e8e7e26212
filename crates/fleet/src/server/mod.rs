//! `patchwright serve`: webhooks in, work done, pages out.
//!
//! [`run`] is the whole server. [`webhook`] takes deliveries and stores them ([`intake`]) before they
//! are acknowledged; the worker claims their jobs, and [`deliver`] does what they ask for. [`catch_up`]
//! asks for those that never arrived. Pages and metrics are read only ([`dashboard`]).

mod attempts;
mod body;
mod catch_up;
mod connections;
mod dashboard;
pub mod deliver;
mod health;
mod intake;
mod metrics;
mod outsiders;
mod page;
mod recent;
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
use crate::batch::fleet::Fleet;
use crate::batch::worker::{self, WorkerOptions};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::RepositoryId;
use patchwright_forge::github::HookSource;

/// How long a worker that ended by itself stays away.
const RESTART: Duration = Duration::from_secs(5);

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
            set.add(parsed.map_err(|err| {
                Failure::usage(format!("`--repository` takes patterns of `OWNER/REPO`: {glob}"))
                    .caused_by(err)
            })?);
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

/// How the server behaves.
pub struct Options {
    /// Of the hook: the one in use, and during a rotation the one before.
    pub secrets: Vec<SecretString>,
    /// For pages; without one only this machine sees them.
    pub dashboard: Option<SecretString>,
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
    worker_alive: AtomicBool,
    /// Cancelled when the server is to stop.
    stop: CancellationToken,
}

/// Serves on a socket until [`Fleet::drain`] is cancelled; then answers what has begun, stores what was
/// handed in, and lets the worker finish.
pub async fn run(fleet: Fleet, options: Options, listener: TcpListener) -> Result<()> {
    let stop = fleet.drain.clone();
    let (intake, writer) = Intake::start(fleet.store.clone());
    let head_timeout = options.request_timeout;
    let shared = Arc::new(ServerState {
        fleet,
        options,
        intake,
        room: body::BodyBudget::new(),
        health: health::CachedHealth::default(),
        attempts: attempts::Attempts::default(),
        worker_alive: AtomicBool::new(true),
        stop: stop.clone(),
    });
    let work = tokio::spawn(work(Arc::clone(&shared)));
    let catch_up = {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move { catch_up::run(&shared).await })
    };
    let router = router(Arc::clone(&shared));
    connections::serve(listener, router, head_timeout, stop, head_timeout).await;
    shared.fleet.ui.say("stopping: no more webhooks are taken");
    let worked = work.await;
    let _ = catch_up.await;
    // The writer stores what it has and ends when the last sender is dropped.
    drop(shared);
    if tokio::time::timeout(Duration::from_secs(10), writer).await.is_err() {
        tracing::warn!("the writer of deliveries did not end");
    }
    worked.map_err(|err| Failure::internal("the worker ended").caused_by(err))
}

fn router(shared: Arc<ServerState>) -> Router {
    let pages = Router::new()
        .route("/", get(dashboard::index))
        .route("/campaigns/{id}", get(dashboard::campaign))
        .route("/campaigns/{id}/events", get(dashboard::events))
        .route("/metrics", get(dashboard::metrics))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&shared), dashboard::guard));
    Router::new()
        .route("/webhook", post(webhook::webhook))
        .route("/healthz", get(health::healthz))
        .merge(pages)
        .with_state(shared)
}

/// Runs the worker. One that ends by itself, for any reason, is started again.
async fn work(shared: Arc<ServerState>) {
    let Some(options) = shared.options.worker.clone() else { return };
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
        tracing::error!(%why, "the worker is started again");
        shared.fleet.ui.failure(&format!("the worker is started again: {why}"));
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = tokio::time::sleep(RESTART) => {}
        }
    }
}
