//! `POST /webhook`: a delivery of GitHub is checked, read, stored and answered, in this order. Work is
//! done later, by the worker that claims its job.
//!
//! Nothing of a body is logged: before its signature has been checked it may be anybody's, and after
//! that it may be private.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::body::{self, BodyError};
use super::intake::IntakeError;
use super::recent::{self, RecentDelivery};
use super::signature::{self, Check};
use super::{ServerState, metrics};
use patchwright_task::event::payload::{self, ActionEnv, Envelope};
use patchwright_task::event::{Decision, TriggerConfig, decide};
use patchwright_types::campaign::Delivery;

/// GUIDs have 36 characters.
const LONGEST_ID: usize = 100;

/// What a delivery is answered with.
#[derive(Debug)]
pub(super) struct WebhookResponse {
    status: StatusCode,
    /// Counted by this word.
    pub(super) outcome: &'static str,
    text: String,
}

impl WebhookResponse {
    fn new(status: StatusCode, outcome: &'static str, text: impl Into<String>) -> WebhookResponse {
        WebhookResponse { status, outcome, text: text.into() }
    }

    fn ignored(why: impl Into<String>) -> WebhookResponse {
        WebhookResponse::new(StatusCode::ACCEPTED, "ignored", why)
    }

    fn wrong(status: StatusCode, text: &str) -> WebhookResponse {
        WebhookResponse::new(status, "refused", text)
    }
}

impl IntoResponse for WebhookResponse {
    fn into_response(self) -> Response {
        let mut response =
            (self.status, format!("{}: {}\n", self.outcome, self.text)).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, header::HeaderValue::from_static("10"));
        }
        response
    }
}

/// Takes one delivery.
pub(super) async fn webhook(State(shared): State<Arc<ServerState>>, request: Request) -> Response {
    let began = Instant::now();
    let (parts, body) = request.into_parts();
    let mut pieces = body::pieces(body);
    let answer = match receive(&shared, &parts.headers, &mut pieces).await {
        Ok(answer) => answer,
        Err(answer) => {
            // A client that is still sending would see a reset connection instead of the answer.
            body::drain(&mut pieces).await;
            answer
        }
    };
    let took = began.elapsed();
    metrics::tally().answered(answer.outcome, answer.status.as_u16(), took);
    tracing::info!(
        delivery = id(&parts.headers, "x-github-delivery").unwrap_or_default(),
        event = id(&parts.headers, "x-github-event").unwrap_or_default(),
        status = answer.status.as_u16(),
        outcome = answer.outcome,
        milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "delivery"
    );
    answer.into_response()
}

/// `Err` is an answer before the body was read.
async fn receive(
    shared: &ServerState,
    headers: &HeaderMap,
    pieces: &mut axum::body::BodyDataStream,
) -> Result<WebhookResponse, WebhookResponse> {
    let too_large =
        || WebhookResponse::wrong(StatusCode::PAYLOAD_TOO_LARGE, "the body has more than 25 MB");
    if body::announced(headers).is_some_and(|length| length > body::LARGEST as u64) {
        return Err(too_large());
    }
    let unsigned = "`X-Hub-Signature-256` is missing or not a signature with this server's secret";
    let unsigned = || WebhookResponse::wrong(StatusCode::UNAUTHORIZED, unsigned);
    // Before the body is read: a request without a signature gets no memory.
    let claimed = signature::claimed(headers).ok_or_else(unsigned)?;
    let mut check = Check::new(&shared.options.secrets);
    let deadline = tokio::time::Instant::now() + shared.options.request_timeout;
    let read = body::read(pieces, deadline, &shared.room, |piece| check.update(piece)).await;
    let held = match read {
        Ok(held) => held,
        Err(BodyError::TooLarge) => return Err(too_large()),
        Err(BodyError::NoRoom) => return Err(busy("too many large bodies at once")),
        Err(BodyError::TooSlow) => {
            return Ok(WebhookResponse::wrong(
                StatusCode::REQUEST_TIMEOUT,
                "the body took too long",
            ));
        }
        Err(BodyError::Broken) => {
            return Ok(WebhookResponse::wrong(StatusCode::BAD_REQUEST, "the body broke off"));
        }
    };
    // The MAC was updated piece by piece, so a forged body was never parsed.
    if !check.accepts(&claimed) {
        return Ok(unsigned());
    }
    let (Some(guid), Some(event)) =
        (id(headers, "x-github-delivery"), id(headers, "x-github-event"))
    else {
        let text = "`X-GitHub-Delivery` or `X-GitHub-Event` is missing";
        return Ok(WebhookResponse::wrong(StatusCode::BAD_REQUEST, text));
    };
    // GitHub sends it when a hook is created, and shows the answer to its owner.
    if event == "ping" {
        return Ok(WebhookResponse::new(StatusCode::OK, "ignored", "the hook works"));
    }
    if !payload::is_for_hooks(event) {
        let why = format!("event `{event}` sets nothing off");
        recent::did_nothing(&why, shared.fleet.clock.now());
        return Ok(WebhookResponse::ignored(why));
    }
    let json = match json(headers, held.bytes) {
        Ok(json) => json,
        Err(answer) => return Ok(answer),
    };
    Ok(take(shared, guid, event, json, held.room).await)
}

/// Stores a delivery whose sender is known, when it can set anything off.
pub(super) async fn take(
    shared: &ServerState,
    guid: &str,
    event: &str,
    json: String,
    room: Option<tokio::sync::OwnedSemaphorePermit>,
) -> WebhookResponse {
    let triggers = TriggerConfig::of(&shared.fleet.config);
    let name = event.to_owned();
    let look = move || {
        let envelope = payload::envelope(json.as_bytes());
        let ignored = ignored(&name, &json, &triggers);
        (json, envelope, ignored)
    };
    // Only large bodies have reserved memory; parsing one would block other requests on this
    // thread.
    let looked = if room.is_some() { tokio::task::spawn_blocking(look).await } else { Ok(look()) };
    let Ok((json, envelope, ignored)) = looked else { return busy("the payload was not read") };
    let Ok(envelope) = envelope else {
        return WebhookResponse::wrong(
            StatusCode::BAD_REQUEST,
            "the payload is not what GitHub sends",
        );
    };
    let seen = |outcome: String| {
        let Envelope { action, repository, number, .. } = envelope.clone();
        let repository = repository.map(|repository| repository.to_string());
        let (guid, event, at) = (guid.to_owned(), event.to_owned(), shared.fleet.clock.now());
        recent::add(RecentDelivery { guid, event, action, repository, number, at, outcome })
    };
    let outside = match &envelope.repository {
        None => Some("the payload names no repository".to_owned()),
        Some(repository) if !shared.options.repositories.allows(repository) => {
            Some(format!("`{repository}` is not among the repositories of this server"))
        }
        Some(_) => None,
    };
    if let Some(why) = outside.or(ignored) {
        if seen(format!("ignored: {why}")) {
            recent::did_nothing(&why, shared.fleet.clock.now());
        }
        return WebhookResponse::ignored(why);
    }
    let delivery = delivery(guid, event, &envelope, json);
    // Listed before it is stored: a worker may finish it before this function continues.
    let is_new = seen("waiting".to_owned());
    let (answer, became) = match shared.intake.put(delivery, room).await {
        Ok(true) => return WebhookResponse::new(StatusCode::ACCEPTED, "accepted", guid),
        Ok(false) => {
            let text = format!("{guid} came before");
            (
                WebhookResponse::new(StatusCode::ACCEPTED, "known", text),
                "came before this process started",
            )
        }
        Err(IntakeError::Full) => {
            (busy("too many deliveries at once"), "refused: too many at once")
        }
        Err(IntakeError::Failed) => {
            (busy("the database did not take it"), "refused: the database did not take it")
        }
    };
    if is_new {
        recent::end(guid, became);
    }
    answer
}

/// The row of a delivery; its time is that of the transaction.
fn delivery(guid: &str, event: &str, envelope: &Envelope, body: String) -> Delivery {
    // The database has signed integers only.
    let integer = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok());
    Delivery {
        guid: guid.to_owned(),
        event: event.to_owned(),
        action: envelope.action.clone(),
        repository: envelope.repository.as_ref().map(ToString::to_string),
        number: integer(envelope.number),
        installation: integer(envelope.installation),
        body,
        received_at: 0,
    }
}

/// Why a payload sets nothing off. One that we cannot read is no reason to call the hook broken.
fn ignored(event: &str, json: &str, triggers: &TriggerConfig) -> Option<String> {
    match payload::parse(event, json.as_bytes(), &ActionEnv::default()) {
        Err(failure) => Some(failure.message),
        Ok(event) => match decide(&event, triggers) {
            Decision::Ignored(why) => Some(why),
            Decision::Run(_) | Decision::ReviewAt { .. } | Decision::AnswerQueue { .. } => None,
        },
    }
}

fn busy(why: &str) -> WebhookResponse {
    WebhookResponse::new(StatusCode::SERVICE_UNAVAILABLE, "busy", why)
}

/// A header that names something: printable and short.
fn id<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = headers.get(name)?.to_str().ok()?;
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!value.is_empty() && value.len() <= LONGEST_ID && value.chars().all(fine)).then_some(value)
}

/// The payload, which hooks send as it is or as the field of a form.
fn json(headers: &HeaderMap, body: Vec<u8>) -> Result<String, WebhookResponse> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let wrong = |text: &str| WebhookResponse::wrong(StatusCode::BAD_REQUEST, text);
    match kind.to_ascii_lowercase().as_str() {
        "application/json" => {
            String::from_utf8(body).map_err(|_| wrong("the payload is not UTF-8"))
        }
        "application/x-www-form-urlencoded" => {
            let mut fields = url::form_urlencoded::parse(&body);
            let payload = fields.find(|(name, _)| name == "payload");
            payload
                .map(|(_, json)| json.into_owned())
                .ok_or_else(|| wrong("the form has no field `payload`"))
        }
        _ => Err(WebhookResponse::wrong(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the content type is neither `application/json` nor `application/x-www-form-urlencoded`",
        )),
    }
}
