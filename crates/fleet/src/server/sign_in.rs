//! `/sign-in` and `/sign-out`: the token of the dashboard for a cookie, and back.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::connections::Peer;
use super::{ServerState, dashboard, page, session, visitor};

/// Bytes of the form.
const LARGEST: usize = 4096;

/// `GET /sign-in`.
pub(super) async fn form(State(shared): State<Arc<ServerState>>) -> Response {
    match shared.options.dashboard.token {
        Some(_) => asked(&shared, StatusCode::OK, None),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The form, and why it is shown.
pub(super) fn asked(shared: &ServerState, status: StatusCode, mistake: Option<&str>) -> Response {
    let html = page::sign_in(mistake);
    let mut response = dashboard::page_response(shared, &html, &page::policy());
    *response.status_mut() = status;
    dashboard::careful(response)
}

/// `POST /sign-in`.
pub(super) async fn sign_in(
    State(shared): State<Arc<ServerState>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Response {
    let Some(token) = &shared.options.dashboard.token else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let now = Instant::now();
    if shared.attempts.is_blocked(peer.ip(), now) {
        return dashboard::blocked();
    }
    let (parts, body) = request.into_parts();
    if is_foreign(&parts.headers) {
        return (StatusCode::FORBIDDEN, "another site may not sign anybody in\n").into_response();
    }
    let reading = axum::body::to_bytes(body, LARGEST);
    let read = tokio::time::timeout(shared.options.request_timeout, reading).await;
    let Ok(Ok(body)) = read else {
        return asked(&shared, StatusCode::BAD_REQUEST, Some("The form could not be read."));
    };
    let given = url::form_urlencoded::parse(&body).find(|(name, _)| name == "token");
    let is_right = given.is_some_and(|(_, given)| visitor::is_same(token, given.trim()));
    if !is_right {
        shared.attempts.failed(peer.ip(), now);
        return asked(&shared, StatusCode::UNAUTHORIZED, Some("This is not the token."));
    }
    let cookie = session::begin(token, shared.fleet.clock.now(), is_https(&parts.headers));
    match cookie {
        Some(cookie) => to("/", cookie),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// `POST /sign-out`.
pub(super) async fn sign_out(headers: HeaderMap) -> Response {
    to("/sign-in", session::end(is_https(&headers)))
}

fn to(place: &'static str, cookie: String) -> Response {
    let headers = [(header::LOCATION, place.to_owned()), (header::SET_COOKIE, cookie)];
    dashboard::careful((StatusCode::SEE_OTHER, headers).into_response())
}

/// A browser says so itself (<https://www.w3.org/TR/fetch-metadata/>).
fn is_foreign(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
}

/// Only makes the cookie stricter, so it may be believed of anybody.
fn is_https(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https")
}
