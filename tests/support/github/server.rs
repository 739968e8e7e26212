//! The port: counts and records requests, applies limits and faults, checks them and their answers
//! against the description, and leaves the rest to [`super::routes`] and git.

use parking_lot::{Mutex, MutexGuard};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request as HttpRequest, State};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use super::builder::TOKEN;
use super::fault::{Fault, Kind};
use super::hooks;
use super::openapi::{description, pairs};
use super::routes::{self, Answer, Request};
use super::shape::Base;
use super::world::{Token, World};
use crate::support::git_http;
use crate::support::listening::{Listening, Port};

/// A request that arrived, and what was answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) method: String,
    /// With the query.
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
    pub(crate) status: u16,
}

pub(super) type Shared = Arc<Mutex<World>>;

/// GitHub, running. Dropping it checks that nothing impossible was asked, and that nothing which it was
/// told names a private place.
pub(crate) struct Server {
    pub(super) world: Shared,
    listening: Listening,
    /// The other origin, where logs are.
    logs: Listening,
}

impl Server {
    /// Serves on threads of its own, so that tests may block.
    pub(super) fn start(world: World) -> Server {
        let mut world = world;
        world.sync_git();
        let (port, logs) = (Port::take(), Port::take());
        world.logs_address = Some(logs.address);
        let git = git_http::router(world.git.clone());
        let world: Shared = Arc::new(Mutex::new(world));
        let git = git.layer(axum::middleware::from_fn_with_state(world.clone(), follow_branches));
        let api = Router::new().fallback(serve).with_state((world.clone(), port.address));
        let batch = axum::routing::post(super::lfs::batch);
        let lfs = Router::new().route("/{owner}/{name}/info/lfs/objects/batch", batch);
        let app = git.merge(lfs.with_state(world.clone())).merge(api);
        let log = Router::new().fallback(serve_log).with_state(world.clone());
        let listening =
            port.serve_by(2, async |listener| axum::serve(listener, app).await.unwrap());
        let logs = logs.serve(async |listener| axum::serve(listener, log).await.unwrap());
        Server { world, listening, logs }
    }

    pub(crate) fn server_url(&self) -> String {
        format!("http://{}", self.listening.address)
    }

    pub(crate) fn api_url(&self) -> String {
        self.server_url()
    }

    /// The API's address where Enterprise Server has it.
    pub(crate) fn enterprise_api_url(&self) -> String {
        format!("{}/api/v3", self.server_url())
    }

    pub(crate) fn token(&self) -> &'static str {
        TOKEN
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    /// A folder of the machine that asks. What the public can read must not name it.
    pub(crate) fn keep_private(&self, folder: &std::path::Path) {
        self.world().private.push(folder.display().to_string());
    }

    /// Requests whose bodies name a private folder.
    fn told_of_private_places(&self) -> Vec<String> {
        let world = self.world();
        let names = |body: &Value| {
            let text = body.to_string();
            world.private.iter().any(|folder| text.contains(folder.as_str()))
        };
        let told = world.requests.iter().filter(|asked| asked.body.as_ref().is_some_and(names));
        told.map(|asked| format!("{} {}: {:?}", asked.method, asked.path, asked.body)).collect()
    }

    /// What was asked and must not have been; for tests of the server itself. Empties the list.
    pub(crate) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.world().violations)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.listening.end();
        self.logs.end();
        let violations = self.take_violations();
        let told = self.told_of_private_places();
        if !std::thread::panicking() {
            assert!(violations.is_empty(), "GitHub would not have it:\n{}", violations.join("\n"));
            assert!(told.is_empty(), "everybody can read a private place:\n{}", told.join("\n"));
        }
    }
}

/// Git shows `refs/pull/N/head` as of now, before and after what it was asked.
async fn follow_branches(
    State(world): State<Shared>,
    request: HttpRequest,
    next: axum::middleware::Next,
) -> Response<Body> {
    if request.method() == "POST" && request.uri().path().ends_with("/git-receive-pack") {
        lock(&world).pace.pushed();
    }
    lock(&world).drop_ended_tokens();
    lock(&world).sync_pulls();
    let answer = next.run(request).await;
    lock(&world).sync_pulls();
    answer
}

/// The other origin, where logs are. Its addresses are secrets of their own: a token has no business
/// there, and real storage refuses requests that carry one.
async fn serve_log(State(world): State<Shared>, request: HttpRequest) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let mut world = lock(&world);
    world.logs_read.push(path.clone());
    if request.headers().contains_key("authorization") {
        world.violations.push(format!("GET {path}: the token was sent to another origin"));
        return (StatusCode::BAD_REQUEST, "InvalidAuthenticationInfo").into_response();
    }
    if let Some(answer) = super::lfs::stored(&mut world, &path, request.headers()) {
        return answer;
    }
    let id = path.rsplit('/').next().and_then(|id| id.parse::<u64>().ok());
    let checks = world.repositories.iter().flat_map(|repository| &repository.check_runs);
    let log = checks.into_iter().find(|check| Some(check.id) == id).and_then(|c| c.log.clone());
    match log {
        Some(log) => ([("content-type", "text/plain")], log).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// What people have uploaded. Real storage has nothing to do with tokens.
fn upload(world: &mut World, name: &str, has_token: bool) -> Response<Body> {
    if has_token {
        world.violations.push(format!("the token was sent for the picture {name}"));
    }
    match world.uploads.get(name) {
        Some(bytes) => ([("content-type", "image/png")], bytes.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn serve(
    State((shared, address)): State<(Shared, SocketAddr)>,
    request: HttpRequest,
) -> Response<Body> {
    let world = shared.clone();
    let arrived = Instant::now();
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 30).await.unwrap_or_default();
    let path = parts.uri.path().to_owned();
    if let Some(name) = path.strip_prefix("/user-attachments/assets/") {
        return upload(&mut lock(&world), name, parts.headers.contains_key("authorization"));
    }
    let delayed = {
        let delays = |fault: &Fault| fault.delay().is_some();
        take_fault(&mut lock(&world), parts.method.as_str(), &path, delays)
    };
    if let Some(Kind::Delay(delay)) = delayed {
        tokio::time::sleep(delay).await;
    }
    let (answer, cut) = {
        let mut world = lock(&world);
        let (answer, cut) = api(&mut world, (address, arrived), &parts, &body);
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        send_later(&shared, std::mem::take(&mut world.outbox));
        world.requests.push(Recorded {
            method: parts.method.to_string(),
            path: format!("{path}{query}"),
            body: serde_json::from_slice(&body).ok(),
            status: if cut { 0 } else { answer.status },
        });
        (answer, cut)
    };
    if let Some(Kind::DelayAfter(delay)) = delayed {
        tokio::time::sleep(delay).await;
    }
    if cut { cut_off() } else { respond(&parts.headers, answer) }
}

/// Deliveries that somebody asked for.
fn send_later(world: &Shared, deliveries: Vec<u64>) {
    for id in deliveries {
        let world = world.clone();
        tokio::spawn(async move { hooks::transmit(&world, id, hooks::Signing::Right).await });
    }
}

pub(super) fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock()
}

/// An answer that never ends as it should.
fn cut_off() -> Response<Body> {
    let broken = std::io::Error::other("cut");
    let pieces: Vec<Result<Bytes, std::io::Error>> =
        vec![Ok(Bytes::from_static(b"{")), Err(broken)];
    Body::from_stream(futures_util::stream::iter(pieces)).into_response()
}

fn respond(asked: &axum::http::HeaderMap, answer: Answer) -> Response<Body> {
    let mut response = Response::builder()
        .status(StatusCode::from_u16(answer.status).unwrap())
        .header("x-github-media-type", "github.v3; format=json")
        .header("x-ratelimit-limit", "5000")
        .header("x-ratelimit-resource", "core");
    for (name, value) in &answer.headers {
        response = response.header(*name, value);
    }
    if !answer.headers.iter().any(|(name, _)| *name == "x-ratelimit-remaining") {
        response = response.header("x-ratelimit-remaining", "4999");
    }
    if let Some(text) = answer.text {
        return response.body(Body::from(text)).unwrap();
    }
    if answer.status == 204 {
        return response.body(Body::empty()).unwrap();
    }
    let body = answer.body.to_string();
    let etag = format!("W/\"{:x}\"", Sha1::digest(body.as_bytes()));
    if asked.get("if-none-match").is_some_and(|seen| seen.as_bytes() == etag.as_bytes()) {
        return response.status(304).body(Body::empty()).unwrap();
    }
    response
        .header("etag", etag)
        .header("content-type", "application/json; charset=utf-8")
        .body(Body::from(body))
        .unwrap()
}

/// The answer, and whether the connection breaks instead of giving it.
fn api(
    world: &mut World,
    (address, arrived): (SocketAddr, Instant),
    parts: &axum::http::request::Parts,
    body: &Bytes,
) -> (Answer, bool) {
    let method = parts.method.to_string();
    let path = parts.uri.path().to_owned();
    if world.limited_until.is_some_and(|until| Instant::now() < until) {
        world.violations.push(format!("{method} {path}: asked while told to wait"));
    }
    if !parts.headers.contains_key("user-agent") {
        let text = "Request forbidden by administrative rules. Please make sure your request has a User-Agent header";
        return (Answer::text(403, text), false);
    }
    if let Some(version) = parts.headers.get("x-github-api-version")
        && version != "2022-11-28"
    {
        return (Answer::problem(400, "The API version is not supported."), false);
    }
    world.drop_ended_tokens();
    let token = match viewer(world, &parts.headers, &path) {
        Ok(token) => token,
        Err(answer) => return (answer, false),
    };
    world.sync_pulls();
    let prefix = ["/api/v3", "/api"].into_iter().find(|prefix| path.starts_with(prefix));
    let prefix = prefix.unwrap_or_default();
    let server = format!("http://{address}");
    let base = Base { server, prefix: prefix.to_owned(), viewer: token.clone() };
    let segments = path[prefix.len()..].trim_start_matches('/').split('/').map(decode).collect();
    let body: Option<Value> = if body.is_empty() {
        None
    } else {
        match serde_json::from_slice(body) {
            Ok(body) => Some(body),
            Err(_) => return (Answer::problem(400, "Problems parsing JSON"), false),
        }
    };
    if world.is_down {
        return (Answer::unicorn(502), false);
    }
    if let Some(answer) = world.pace.arrive(arrived, &token.login, &method, &path, body.as_ref()) {
        return (answer, false);
    }
    let query = pairs(parts.uri.query().unwrap_or_default());
    let accept = parts.headers.get("accept").and_then(|value| value.to_str().ok());
    let accept = accept.unwrap_or_default().to_owned();
    let login = token.login.clone();
    let request =
        Request { method, segments, query, body, login, token, accept, base, stale: false };
    checked(world, &path, request)
}

fn checked(world: &mut World, path: &str, mut request: Request) -> (Answer, bool) {
    request.segments = routes::by_name(world, &request.segments);
    let body = request.body.as_ref();
    let operation = if request.segments == ["graphql"] {
        None
    } else {
        match description().check_request(&request.method, &request.segments, &request.query, body)
        {
            Ok(operation) => Some(operation),
            Err(err) => {
                world.violations.push(err);
                return (Answer::problem(404, "Not Found"), false);
            }
        }
    };
    let fault = take_fault(world, &request.method.clone(), path, |fault| fault.delay().is_none());
    let mut answer = match &fault {
        Some(Kind::ErrorBefore(status)) => return (Answer::unicorn(*status), false),
        Some(Kind::Answer(status, body)) => {
            return (Answer { body: body.clone(), ..Answer::new(*status, Value::Null) }, false);
        }
        Some(Kind::Text(status, text)) => return (Answer::text(*status, text), false),
        Some(Kind::Redirect(to)) => {
            return (Answer::problem(302, "Found").header("location", to.clone()), false);
        }
        Some(Kind::Primary { reset_in, window }) => {
            world.limited_until = Some(Instant::now() + *window);
            world.pace.told(&request.login, *reset_in);
            return (Answer::primary(*reset_in), false);
        }
        Some(Kind::Secondary { retry_after, window }) => {
            world.limited_until = Some(Instant::now() + *window);
            world.pace.told(&request.login, retry_after.unwrap_or(60));
            return (Answer::secondary(*retry_after), false);
        }
        _ => {
            request.stale = matches!(fault, Some(Kind::StaleList));
            routes::answer(world, &request)
        }
    };
    if answer.text.is_none()
        && let Some(operation) = operation
        && let Err(err) = description().check_answer(&operation, answer.status, &answer.body)
    {
        world.violations.push(format!("the test server itself is wrong: {err}"));
    }
    match &fault {
        Some(Kind::ErrorAfter(status)) => answer = Answer::unicorn(*status),
        Some(Kind::NextPage(to)) => answer = answer.header("link", format!("<{to}>; rel=\"next\"")),
        _ => {}
    }
    (answer, matches!(fault, Some(Kind::CutAfter)))
}

fn take_fault(
    world: &mut World,
    method: &str,
    path: &str,
    which: impl Fn(&Fault) -> bool,
) -> Option<Kind> {
    if let Some(kind) = world.take_fault_in(method, path, &which) {
        return Some(kind);
    }
    let place = world.faults.iter().position(|fault| {
        fault.method == method && path.contains(fault.path) && fault.times > 0 && which(fault)
    })?;
    world.faults[place].times -= 1;
    Some(world.faults[place].kind.clone())
}

/// Whose token it is. Without one, nobody's: anonymous reading is allowed.
fn viewer(world: &World, headers: &axum::http::HeaderMap, path: &str) -> Result<Token, Answer> {
    let Some(header) = headers.get("authorization").and_then(|value| value.to_str().ok()) else {
        return Ok(Token::default());
    };
    let token = header.split_once(' ').map_or("", |(_, token)| token);
    // What only an App may ask.
    let of_app = path.trim_start_matches("/api/v3").starts_with("/app")
        || (path.ends_with("/installation") && !path.contains("/contents/"));
    if of_app && token.matches('.').count() == 2 {
        world.check_jwt(token)?;
        return Ok(Token { is_app: true, ..Token::default() });
    }
    let known = world.tokens.get(token).cloned();
    known.ok_or_else(|| Answer::problem(401, "Bad credentials"))
}

fn decode(segment: &str) -> String {
    // A `+` in a path is a plus.
    let text = format!("x={}", segment.replace('+', "%2B"));
    url::form_urlencoded::parse(text.as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

/// `{"message": …}` as GitHub words it.
pub(crate) fn message(text: &str, status: u16) -> Value {
    json!({"message": text, "documentation_url": "https://docs.github.com/rest", "status": status.to_string()})
}
