//! The pages for people, and the metrics: read only, for visitors who may ([`super::visitor`]).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream::unfold;

use super::connections::Peer;
use super::page::{self, Overview};
use super::visitor::{Refusal, Visitor};
use super::{ServerState, metrics, recent, reports, sign_in, visitor};
use crate::batch::history;
use crate::store::StoreError;
use patchwright_base::redact::keys::without_keys;
use patchwright_report::campaign::{self, PageOptions};
use patchwright_types::campaign::Event;

/// Events that one question asks for.
const MOST_NEW_EVENTS: i64 = 500;
/// Campaigns that are listed, and whose repositories are counted for it.
const MOST_CAMPAIGNS: i64 = 50;
/// How often new events are asked for.
const INTERVAL: Duration = Duration::from_secs(2);
/// An event stream ends after this, and the browser opens another one.
const LONGEST_STREAM: Duration = Duration::from_mins(10);
const REFRESH: HeaderName = HeaderName::from_static("refresh");
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Lets only those through who may see pages, and makes browsers careful with them.
pub(super) async fn guard(
    State(shared): State<Arc<ServerState>>,
    Extension(Peer(peer)): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let access = &shared.options.dashboard;
    let now = Instant::now();
    // Only who guesses waits: a session or a proxy's user has been admitted before.
    let presents_token = request.headers().contains_key(header::AUTHORIZATION);
    if access.token.is_some() && presents_token && shared.attempts.is_blocked(peer.ip(), now) {
        return blocked();
    }
    match visitor::admit(request.headers(), peer, access, shared.fleet.clock.now()) {
        Ok(visitor) => {
            request.extensions_mut().insert(visitor);
            careful(next.run(request).await)
        }
        Err(refusal) => {
            if presents_token && refusal == Refusal::Token {
                shared.attempts.failed(peer.ip(), now);
            }
            refused(&shared, request.headers(), refusal)
        }
    }
}

/// People get the form, programs a line.
fn refused(shared: &ServerState, headers: &HeaderMap, refusal: Refusal) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let is_browser = accept.is_some_and(|accept| accept.contains("text/html"));
    if refusal != Refusal::Token || !is_browser {
        return refusal.response();
    }
    let mut response = sign_in::asked(shared, StatusCode::UNAUTHORIZED, None);
    let challenge = header::HeaderValue::from_static(visitor::CHALLENGE);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

pub(super) fn blocked() -> Response {
    let wait = [(header::RETRY_AFTER, "60")];
    (StatusCode::TOO_MANY_REQUESTS, wait, "too many wrong tokens\n").into_response()
}

/// What browsers are told about everything that is shown here.
pub(super) fn careful(mut response: Response) -> Response {
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        response.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    response
}

/// `GET /`.
pub(super) async fn index(
    State(shared): State<Arc<ServerState>>,
    Extension(visitor): Extension<Visitor>,
) -> Response {
    match look(&shared).await {
        Ok(overview) => {
            let html = page::overview(&overview, &visitor);
            let mut response = page_response(&shared, &html, &page::policy());
            response.headers_mut().insert(REFRESH, header::HeaderValue::from_static("15"));
            response
        }
        Err(err) => trouble(&err),
    }
}

async fn look(shared: &Arc<ServerState>) -> Result<Overview, StoreError> {
    let store = &shared.fleet.store;
    let campaigns = store.campaign_summaries(MOST_CAMPAIGNS).await?;
    let jobs = store.job_counts().await?;
    let (today, days) = store.run_days(page::DAYS).await?;
    let running = store.running_jobs().await?;
    let reader = Arc::clone(shared);
    let progress = tokio::task::spawn_blocking(move || reader.live.look(&reader.fleet.state));
    Ok(Overview {
        campaigns,
        jobs: jobs.into_iter().map(|((kind, state), number)| (kind, state, number)).collect(),
        queued: store.queued_jobs().await?,
        progress: progress.await.unwrap_or_default(),
        running,
        today,
        days,
        idle: recent::idle_reasons(),
        deliveries: recent::list(store.recent_deliveries(recent::MOST).await?),
        now: shared.fleet.clock.now(),
        store_now: store.now().await?,
    })
}

/// `GET /campaigns/ID`.
pub(super) async fn campaign(
    State(shared): State<Arc<ServerState>>,
    Path(id): Path<String>,
) -> Response {
    let store = &shared.fleet.store;
    let asked = async {
        // Before the rest: what happens meanwhile is told to the page once more, and nothing is missed.
        let newest = store.newest_event(&id).await?;
        let view = store.view(&id).await?;
        let history = history::history(store, &view).await?;
        Ok::<_, StoreError>((newest, view, history))
    };
    let (newest, view, history) = match asked.await {
        Ok(asked) => asked,
        Err(err) => return trouble(&err),
    };
    let runs = view.targets.iter().filter_map(|target| target.run.clone()).collect();
    let options = PageOptions {
        github: Some(shared.fleet.env.github_server_url()),
        reports: reports::here(&shared.fleet.state, runs).await,
        live: Some(newest),
    };
    let html = campaign::page(&view, &history, &options);
    let policy = format!("{}; frame-ancestors 'none'", campaign::policy(true));
    page_response(&shared, &html, &policy)
}

/// Where an event stream begins.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Cursor {
    after: Option<i64>,
}

/// `GET /campaigns/ID/events`: what happens from now on (or after `Last-Event-ID`, or after the event that
/// the query `after` names), as server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
pub(super) async fn events(
    State(shared): State<Arc<ServerState>>,
    Path(id): Path<String>,
    Query(cursor): Query<Cursor>,
    headers: HeaderMap,
) -> Response {
    if let Err(err) = shared.fleet.store.campaign(&id).await {
        return trouble(&err);
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = match last.or(cursor.after) {
        Some(after) => after,
        None => match shared.fleet.store.newest_event(&id).await {
            Ok(newest) => newest,
            Err(err) => return trouble(&err),
        },
    };
    Sse::new(stream(shared, id, after)).keep_alive(KeepAlive::default()).into_response()
}

/// One server-sent event for each event of the campaign, until this process drains.
fn stream(
    shared: Arc<ServerState>,
    campaign: String,
    after: i64,
) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    let until = tokio::time::Instant::now() + LONGEST_STREAM;
    unfold(
        (shared, campaign, after, Vec::new()),
        move |(shared, campaign, mut after, mut ready)| async move {
            loop {
                if let Some(event) = ready.pop() {
                    let event: Event = event;
                    after = event.id;
                    let told = sse_event(&shared, &event);
                    return Some((Ok(told), (shared, campaign, after, ready)));
                }
                tokio::select! {
                    () = shared.stop.cancelled() => return None,
                    () = tokio::time::sleep_until(until) => return None,
                    () = tokio::time::sleep(INTERVAL) => {}
                }
                ready = shared.fleet.store.events(&campaign, after, MOST_NEW_EVENTS).await.ok()?;
                // `pop` takes from the end.
                ready.reverse();
            }
        },
    )
}

fn sse_event(shared: &ServerState, event: &Event) -> sse::Event {
    let json = serde_json::to_string(event).unwrap_or_default();
    let told = without_keys(&shared.fleet.redactor.redact(&json));
    sse::Event::default().id(event.id.to_string()).data(told)
}

/// `GET /metrics`.
pub(super) async fn metrics(State(shared): State<Arc<ServerState>>) -> Response {
    match metrics::text(&shared).await {
        Ok(text) => ([(header::CONTENT_TYPE, METRICS)], text).into_response(),
        Err(failure) => {
            tracing::error!(failure = %failure.message, "metrics");
            (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n").into_response()
        }
    }
}

/// A page without our secrets, and without keys of others.
pub(super) fn page_response(shared: &ServerState, html: &str, policy: &str) -> Response {
    let html = without_keys(&shared.fleet.redactor.redact(html));
    let mut response = Html(html).into_response();
    let headers = response.headers_mut();
    if let Ok(policy) = header::HeaderValue::from_str(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

pub(super) fn trouble(err: &StoreError) -> Response {
    if let StoreError::NotFound(_) = err {
        return (StatusCode::NOT_FOUND, "there is no such campaign\n").into_response();
    }
    tracing::error!(%err, "the database is not well");
    (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n").into_response()
}
