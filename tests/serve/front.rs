//! The part of GitHub that is about Apps and about what was delivered to hooks, in front of the
//! GitHub of the other tests: signs nothing itself, but checks what an App signs as GitHub does.

use parking_lot::Mutex;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

use crate::support::listening::{Listening, Port};

pub(crate) const KEY: &str = include_str!("../fixtures/serve/app.pem");
const PUBLIC: &str = include_str!("../fixtures/serve/app.pub.pem");
pub(crate) const APP: u64 = 31_337;
pub(crate) const INSTALLATION: u64 = 4_242;
/// What it hands out, in this order; the GitHub behind it knows them.
pub(crate) const TOKENS: [&str; 3] = [
    "ghs_first0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0",
    "ghs_second0bC1dE2fG3hI4jK5lM6nO7pQ8rS9t",
    "ghs_third0cD1eF2gH3iJ4kL5mN6oP7qR8sT9uV",
];

/// What it is asked, and what it has to tell.
#[derive(Default)]
pub(crate) struct Seen {
    /// Bodies of the questions for tokens.
    pub(crate) minted: Vec<Value>,
    /// Attempts to deliver, newest first, as GitHub lists them, each with its payload.
    pub(crate) deliveries: Vec<(Value, Value)>,
    /// Tokens that are not taken any more.
    pub(crate) ended: Vec<String>,
    /// Requests that a token of the list above made after it had ended.
    pub(crate) refused: usize,
    pub(crate) mistakes: Vec<String>,
}

pub(crate) struct Front {
    pub(crate) seen: Arc<Mutex<Seen>>,
    listening: Listening,
}

#[derive(Clone)]
struct Behind {
    api: String,
    seen: Arc<Mutex<Seen>>,
    client: reqwest::Client,
}

impl Front {
    pub(crate) fn of(api: &str) -> Front {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        let behind =
            Behind { api: api.to_owned(), seen: seen.clone(), client: client.build().unwrap() };
        let app = Router::new().fallback(serve).with_state(behind);
        let listening =
            Port::take().serve(async |listener| axum::serve(listener, app).await.unwrap());
        Front { seen, listening }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listening.address)
    }

    pub(crate) fn assert_no_mistakes(&self) {
        let seen = self.seen.lock();
        assert!(seen.mistakes.is_empty(), "{:?}", seen.mistakes);
    }
}

async fn serve(State(behind): State<Behind>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 26).await.unwrap();
    let path = parts.uri.path().trim_matches('/').to_owned();
    let segments: Vec<&str> = path.split('/').collect();
    let is_app = segments[0] == "app"
        || segments.last() == Some(&"installation")
        || segments.last() == Some(&"access_tokens");
    if is_app {
        if let Err(why) = signed(&parts.headers) {
            behind.seen.lock().mistakes.push(format!("{path}: {why}"));
            return answer(401, &json!({"message": why}));
        }
        return of_app(&behind, &parts.method, &segments, &body);
    }
    if let ["repos", _, _, "hooks", _, "deliveries", ..] = segments[..] {
        return deliveries(&behind, &segments[6..]);
    }
    forward(&behind, parts, body).await
}

fn answer(status: u16, body: &Value) -> Response<Body> {
    let kind = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (StatusCode::from_u16(status).unwrap(), kind, body.to_string()).into_response()
}

fn bearer(headers: &HeaderMap) -> &str {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    value.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default()
}

/// What GitHub asks of a JWT: RS256, dated not after now, at most ten minutes long, of this App.
fn signed(headers: &HeaderMap) -> Result<(), String> {
    let mut rules = Validation::new(Algorithm::RS256);
    rules.leeway = 0;
    rules.set_required_spec_claims(&["exp", "iss"]);
    let key = DecodingKey::from_rsa_pem(PUBLIC.as_bytes()).unwrap();
    let claims = jsonwebtoken::decode::<Value>(bearer(headers), &key, &rules)
        .map_err(|err| format!("A JSON web token could not be decoded: {err}"))?
        .claims;
    let now = i64::try_from(jsonwebtoken::get_current_timestamp()).unwrap();
    let (iat, exp) = (claims["iat"].as_i64().unwrap(), claims["exp"].as_i64().unwrap());
    if iat > now || exp - now > 600 || exp - iat > 600 {
        return Err(format!("'Expiration time' claim ('exp') is too far in the future: {claims}"));
    }
    if claims["iss"] != json!(APP.to_string()) {
        return Err(format!("the issuer is {}", claims["iss"]));
    }
    Ok(())
}

fn of_app(
    behind: &Behind,
    method: &axum::http::Method,
    path: &[&str],
    body: &[u8],
) -> Response<Body> {
    let installation = json!({
        "id": INSTALLATION, "app_id": APP, "repository_selection": "selected",
        "permissions": {
            "contents": "write", "issues": "write", "pull_requests": "write", "checks": "read",
            "metadata": "read", "members": "read",
        },
    });
    let id = INSTALLATION.to_string();
    match path {
        ["app"] => answer(200, &json!({"id": APP, "slug": "patchy", "name": "Patchy"})),
        ["repos", "acme", "app", "installation"] => answer(200, &installation),
        ["app", "installations", number] if *number == id => answer(200, &installation),
        ["app", "installations", number, "access_tokens"] if *number == id => {
            assert_eq!(method, "POST");
            let mut seen = behind.seen.lock();
            seen.minted.push(serde_json::from_slice(body).unwrap());
            let token = TOKENS[(seen.minted.len() - 1).min(TOKENS.len() - 1)];
            answer(201, &json!({"token": token, "expires_at": "2026-11-20T13:00:00Z"}))
        }
        ["app", "hook", "deliveries", rest @ ..] => deliveries(behind, rest),
        _ => answer(404, &json!({"message": "Not Found"})),
    }
}

fn deliveries(behind: &Behind, rest: &[&str]) -> Response<Body> {
    let seen = behind.seen.lock();
    match rest {
        [] => {
            let list: Vec<&Value> = seen.deliveries.iter().map(|(listed, _)| listed).collect();
            answer(200, &json!(list))
        }
        [id] => {
            let found = seen.deliveries.iter().find(|(listed, _)| {
                listed["id"].as_u64().is_some_and(|listed| id.parse() == Ok(listed))
            });
            match found {
                Some((listed, payload)) => {
                    let mut whole = listed.clone();
                    whole["request"] = json!({"headers": {}, "payload": payload});
                    whole["response"] = json!({"headers": {}, "payload": ""});
                    answer(200, &whole)
                }
                None => answer(404, &json!({"message": "Not Found"})),
            }
        }
        _ => answer(404, &json!({"message": "Not Found"})),
    }
}

/// Everything else is asked of the GitHub behind, unless its token has ended.
async fn forward(
    behind: &Behind,
    parts: axum::http::request::Parts,
    body: Bytes,
) -> Response<Body> {
    {
        let mut seen = behind.seen.lock();
        if seen.ended.iter().any(|token| token == bearer(&parts.headers)) {
            seen.refused += 1;
            return answer(401, &json!({"message": "Bad credentials"}));
        }
    }
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let mut asked = behind.client.request(parts.method, format!("{}{path}", behind.api)).body(body);
    for (name, value) in &parts.headers {
        if name != header::HOST && name != header::CONTENT_LENGTH {
            asked = asked.header(name, value);
        }
    }
    let answered = asked.send().await.unwrap();
    let (status, headers) = (answered.status(), answered.headers().clone());
    let body = answered.bytes().await.unwrap();
    let mut response = Response::builder().status(status);
    for (name, value) in &headers {
        if name != header::TRANSFER_ENCODING && name != header::CONTENT_LENGTH {
            response = response.header(name, value);
        }
    }
    response.body(Body::from(body)).unwrap()
}

/// One attempt as GitHub lists it.
pub(crate) fn attempt(id: u64, guid: &str, event: &str, at: &str, status: u16) -> Value {
    json!({
        "id": id, "guid": guid, "delivered_at": at, "redelivery": false, "duration": 0.27,
        "status": if status < 300 { "OK" } else { "Invalid HTTP Response" }, "status_code": status,
        "event": event, "action": "labeled", "installation_id": null, "repository_id": 1,
    })
}
