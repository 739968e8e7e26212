//! `GET /healthz`: whether this process does its work. Anybody may ask, so the answer has no names in
//! it and is made at most once a second.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::sync::Mutex;

use super::ServerState;
use crate::batch::fleet::Fleet;

const FRESH: Duration = Duration::from_secs(1);
/// A database that takes longer does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was found, and when.
#[derive(Default)]
pub(super) struct CachedHealth(Mutex<Option<(Instant, Health)>>);

#[derive(Clone, Serialize)]
struct Health {
    status: &'static str,
    database: &'static str,
    /// `off`: other processes do the work.
    worker: &'static str,
    /// `full`: the state folder takes nothing.
    disk: &'static str,
    /// `refused`: GitHub or the model does not take ours, and deliveries wait for that. Not unwell, because they are
    /// taken and stored as before.
    credentials: &'static str,
    /// Deliveries that wait to be stored.
    waiting: usize,
    /// Jobs that wait or run.
    queued: i64,
    running: i64,
}

pub(super) async fn healthz(State(shared): State<Arc<ServerState>>) -> Response {
    let mut last = shared.health.0.lock().await;
    let health = match last.as_ref() {
        Some((at, health)) if at.elapsed() < FRESH => health.clone(),
        _ => {
            let health = look(&shared).await;
            *last = Some((Instant::now(), health.clone()));
            health
        }
    };
    drop(last);
    let status =
        if health.status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health)).into_response()
}

async fn look(shared: &ServerState) -> Health {
    let counts = tokio::time::timeout(PATIENCE, shared.fleet.store.job_counts()).await;
    let (database, counts) = match counts {
        Ok(Ok(counts)) => ("ok", counts),
        Ok(Err(err)) => {
            tracing::error!(%err, "the database is not well");
            ("failing", std::collections::BTreeMap::new())
        }
        Err(_) => ("silent", std::collections::BTreeMap::new()),
    };
    let of = |wanted: &str| -> i64 {
        counts.iter().filter(|((_, state), _)| state == wanted).map(|(_, jobs)| jobs).sum()
    };
    let worker = match (&shared.options.worker, shared.worker_alive.load(Ordering::Relaxed)) {
        (None, _) => "off",
        (Some(_), true) => "ok",
        (Some(_), false) => "down",
    };
    let Fleet { store, state, outages, ui, .. } = &shared.fleet;
    let stores = database == "ok" && shared.intake.stores(store, *ui).await;
    let database = if database == "ok" && !stores { "failing" } else { database };
    let disk = if worker == "off" || outages.has_disk(state) { "ok" } else { "full" };
    let credentials = if outages.refused().is_some() { "refused" } else { "ok" };
    let well = stores && worker != "down" && disk == "ok" && shared.intake.is_open();
    Health {
        status: if well { "ok" } else { "failing" },
        database,
        worker,
        disk,
        credentials,
        waiting: shared.intake.waiting(),
        queued: of("queued"),
        running: of("running"),
    }
}
