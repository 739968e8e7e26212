//! The identity services of three clouds and of GitHub Actions, and the models behind them, on one loopback
//! port. Each checks what the real one checks before it gives anything: grant types, audiences, the tokens of
//! metadata services, signatures. What it gave is what a model in front of [`ModelServer`] is then asked with;
//! anything else is refused in the cloud's own words.
//!
//! Formats: AWS STS API reference and "Use `IMDSv2`", Google's AIP-4112 to 4117, Microsoft's "OAuth 2.0 client
//! credentials flow" and "Managed identities", GitHub's "OIDC reference".

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use chrono::{DateTime, Duration, Utc};
use parking_lot::Mutex;
use patchwright_base::clock::Clock;
use serde_json::{Value, json};

use super::listening::{Listening, Port};
use super::sigv4::{self, Received};

pub(crate) const ROLE: &str = "arn:aws:iam::123456789012:role/patchwright";
pub(crate) const REQUEST_TOKEN: &str = "actions-request-token-51c0a7";
pub(crate) const TENANT: &str = "5d0c1a52-0000-4000-8000-000000000001";
pub(crate) const CLIENT: &str = "5d0c1a52-0000-4000-8000-000000000002";
pub(crate) const CLIENT_SECRET: &str = "entra~client~secret~93f1";
pub(crate) const ACCOUNT: &str = "patchwright@project.iam.gserviceaccount.com";
pub(crate) const POOL: &str =
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/github";
/// The secret of keys that do not come from here.
pub(crate) const STATIC_SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYSTATICKEY";
pub(crate) const STATIC_KEY: &str = "AKIASTATICEXAMPLE000";

/// The running services.
pub(crate) struct Cloud {
    shared: Arc<Shared>,
    listening: Listening,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Records>,
    /// Where models are asked in truth.
    model: String,
    client: reqwest::Client,
    /// Public key of the service account.
    public: Vec<u8>,
}

/// What was asked and given.
#[derive(Default)]
pub(crate) struct Records {
    /// What was asked, in order: `actions sts.amazonaws.com`, `sts`, `model`.
    pub(crate) log: Vec<String>,
    /// OIDC tokens, with their audience.
    jobs: BTreeMap<String, String>,
    /// Access tokens that are good.
    tokens: Vec<String>,
    /// Secrets and session tokens by access key.
    keys: BTreeMap<String, (String, String)>,
    /// How long everything lasts.
    pub(crate) seconds: Option<i64>,
    /// How many requests to a model until all that was given is revoked, once.
    pub(crate) revoke_after: Option<usize>,
    /// Nothing that was given is good.
    pub(crate) revokes_all: bool,
    /// Nothing is given any more, with this status.
    pub(crate) refuses: Option<u16>,
    count: usize,
}

impl Cloud {
    /// Starts them, with the root of a model server behind.
    pub(crate) fn start(model: &str) -> Cloud {
        let shared = Arc::new(Shared {
            model: model.to_owned(),
            client: patchwright_provider::http::client().unwrap(),
            public: public_key(),
            ..Shared::default()
        });
        let app = Router::new().fallback(answer).with_state(shared.clone());
        let listening =
            Port::take().serve(async |listener| axum::serve(listener, app).await.unwrap());
        Cloud { shared, listening }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listening.address)
    }

    /// What was asked so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.shared.state.lock().log.clone()
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Records)) {
        change(&mut self.shared.state.lock());
    }

    /// Everything secret that it has given.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let state = self.shared.state.lock();
        let keys = state.keys.values().flat_map(|(secret, token)| [secret.clone(), token.clone()]);
        keys.chain(state.tokens.clone()).chain(state.jobs.keys().cloned()).collect()
    }

    /// A token that somebody else has from GitHub.
    pub(crate) fn knows(&self, token: &str, audience: &str) {
        self.shared.state.lock().jobs.insert(token.to_owned(), audience.to_owned());
    }

    /// The variables of a job that may have an OIDC token.
    pub(crate) fn job(&self) -> Vec<(&'static str, String)> {
        vec![
            ("ACTIONS_ID_TOKEN_REQUEST_URL", format!("{}/actions?api-version=2.0", self.url())),
            ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", REQUEST_TOKEN.to_owned()),
        ]
    }
}

fn now() -> DateTime<Utc> {
    Clock::default().now()
}

/// The other half of the key in `tests/fixtures/serve/app.pem`.
fn public_key() -> Vec<u8> {
    use aws_lc_rs::signature::KeyPair as _;
    let pem = include_str!("../fixtures/serve/app.pem");
    let body: String = pem.lines().filter(|line| !line.starts_with("---")).collect();
    let der = base64::engine::general_purpose::STANDARD.decode(body).unwrap();
    let pair = aws_lc_rs::rsa::KeyPair::from_der(&der).unwrap();
    pair.public_key().as_ref().to_vec()
}

/// A request in parts.
struct Asked {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    raw_query: String,
    headers: BTreeMap<String, String>,
    body: Bytes,
}

impl Asked {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }

    fn form(&self) -> BTreeMap<String, String> {
        assert_eq!(self.header("content-type"), "application/x-www-form-urlencoded");
        url::form_urlencoded::parse(&self.body).into_owned().collect()
    }

    fn bearer(&self) -> &str {
        self.header("authorization").strip_prefix("Bearer ").unwrap_or_default()
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let raw_query = uri.query().unwrap_or_default().to_owned();
    let asked = Asked {
        method: method.to_string(),
        path: uri.path().to_owned(),
        query: url::form_urlencoded::parse(raw_query.as_bytes()).into_owned().collect(),
        raw_query,
        headers: headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect(),
        body,
    };
    let given = {
        let mut state = shared.state.lock();
        service(&mut state, &asked, &shared.public)
    };
    match given {
        Some(answer) => answer,
        None => model(&shared, asked).await,
    }
}

/// The answer of an identity service; `None` for a model.
fn service(state: &mut Records, asked: &Asked, public: &[u8]) -> Option<Response> {
    let name = match asked.path.as_str() {
        "/actions" => format!("actions {}", asked.query["audience"]),
        "/sts" => "sts".to_owned(),
        "/latest/api/token" => "imds token".to_owned(),
        path if path.starts_with("/latest/meta-data/") => "imds".to_owned(),
        "/container" => "container".to_owned(),
        "/google/sts" => "google sts".to_owned(),
        "/google/token" => "google token".to_owned(),
        path if path.starts_with("/google/impersonate/") => "google account".to_owned(),
        path if path.starts_with("/computeMetadata/") => "google metadata".to_owned(),
        path if path.starts_with("/entra/") => "entra".to_owned(),
        path if path.starts_with("/metadata/identity/") => "azure metadata".to_owned(),
        _ => return None,
    };
    state.log.push(name.clone());
    if let Some(status) = state.refuses {
        return Some(plain(status, json!({"message": "the service is not there for you"})));
    }
    Some(match name.split(' ').next().unwrap_or_default() {
        "actions" => actions(state, asked),
        "sts" => sts(state, asked),
        "imds" => imds(state, asked),
        "container" => container(state, asked),
        "google" => google(state, asked, public),
        _ => azure(state, asked),
    })
}

fn plain(status: u16, body: Value) -> Response {
    (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
}

impl Records {
    fn next(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    fn lasts(&self) -> i64 {
        self.seconds.unwrap_or(3600)
    }

    fn token(&mut self, start: &str) -> String {
        let token = format!("{start}{:04}-cloud-given-token", self.next());
        self.tokens.push(token.clone());
        token
    }

    /// A key with its secret and session token.
    fn key(&mut self) -> (String, String, String, String) {
        let number = self.next();
        let key = format!("ASIAEXAMPLE{number:09}");
        let secret = format!("secret/of+the/key{number:06}aVeryLongOne");
        let token = format!("session//token=={number:06}aVeryLongOne");
        self.keys.insert(key.clone(), (secret.clone(), token.clone()));
        let until = now() + Duration::seconds(self.lasts());
        (key, secret, token, until.format("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

fn actions(state: &mut Records, asked: &Asked) -> Response {
    if asked.bearer() != REQUEST_TOKEN || !asked.query.contains_key("api-version") {
        return plain(401, json!({"message": "the request token is not valid"}));
    }
    let part =
        |value: Value| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string());
    let audience = asked.query["audience"].clone();
    let number = state.next();
    let claims =
        json!({"aud": audience, "sub": "repo:acme/app:ref:refs/heads/main", "jti": number});
    let token = format!("{}.{}.c2lnbmF0dXJl", part(json!({"alg": "RS256"})), part(claims));
    state.jobs.insert(token.clone(), audience);
    plain(200, json!({"count": token.len(), "value": token}))
}

fn sts(state: &mut Records, asked: &Asked) -> Response {
    let form = asked.form();
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let failed = |code: &str, message: &str| {
        let body = format!(
            "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>\
             <Code>{code}</Code><Message>{message}</Message></Error><RequestId>r-1</RequestId></ErrorResponse>"
        );
        (StatusCode::BAD_REQUEST, [("content-type", "text/xml")], body).into_response()
    };
    let is_call = asked.method == "POST"
        && field("Action") == "AssumeRoleWithWebIdentity"
        && field("Version") == "2011-06-15";
    if !is_call {
        return failed("InvalidAction", "Could not find operation");
    }
    let name = field("RoleSessionName");
    let fits = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    if !(2..=64).contains(&name.len()) || !name.chars().all(fits) {
        return failed(
            "ValidationError",
            "Value at 'roleSessionName' failed to satisfy constraint",
        );
    }
    let audience = state.jobs.get(field("WebIdentityToken")).map(String::as_str);
    if audience != Some("sts.amazonaws.com") {
        return failed("InvalidIdentityToken", "Incorrect token audience");
    }
    if field("RoleArn") != ROLE {
        return failed("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity");
    }
    let (key, secret, token, until) = state.key();
    let body = format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
         <AssumeRoleWithWebIdentityResult><SubjectFromWebIdentityToken>repo:acme/app</SubjectFromWebIdentityToken>\
         <AssumedRoleUser><Arn>{ROLE}</Arn><AssumedRoleId>AROA:x</AssumedRoleId></AssumedRoleUser>\
         <Credentials><SessionToken>{token}</SessionToken><SecretAccessKey>{secret}</SecretAccessKey>\
         <Expiration>{until}</Expiration><AccessKeyId>{key}</AccessKeyId></Credentials>\
         </AssumeRoleWithWebIdentityResult><ResponseMetadata><RequestId>r-2</RequestId></ResponseMetadata>\
         </AssumeRoleWithWebIdentityResponse>"
    );
    ([("content-type", "text/xml")], body).into_response()
}

fn imds(state: &mut Records, asked: &Asked) -> Response {
    const TOKEN: &str = "imds-session-token";
    if asked.path == "/latest/api/token" {
        let ttl = asked.header("x-aws-ec2-metadata-token-ttl-seconds").parse::<u32>();
        let is_sound = asked.method == "PUT" && ttl.is_ok_and(|ttl| (1..=21600).contains(&ttl));
        let status = if is_sound { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        return (status, TOKEN).into_response();
    }
    if asked.header("x-aws-ec2-metadata-token") != TOKEN {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    match asked.path.strip_prefix("/latest/meta-data/iam/security-credentials/") {
        Some("") => "machine-role".into_response(),
        Some("machine-role") => {
            let (key, secret, token, until) = state.key();
            plain(
                200,
                json!({
                    "Code": "Success", "Type": "AWS-HMAC", "LastUpdated": "2026-11-20T12:00:00Z",
                    "AccessKeyId": key, "SecretAccessKey": secret, "Token": token, "Expiration": until,
                }),
            )
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn container(state: &mut Records, asked: &Asked) -> Response {
    if asked.header("authorization") != "container-token" {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let (key, secret, token, until) = state.key();
    plain(
        200,
        json!({
            "RoleArn": ROLE, "AccessKeyId": key, "SecretAccessKey": secret, "Token": token,
            "Expiration": until,
        }),
    )
}

fn google(state: &mut Records, asked: &Asked, public: &[u8]) -> Response {
    let wrong =
        |what: &str| plain(400, json!({"error": "invalid_grant", "error_description": what}));
    let seconds = state.lasts();
    let given = |token: String| {
        plain(200, json!({"access_token": token, "expires_in": seconds, "token_type": "Bearer"}))
    };
    match asked.path.as_str() {
        "/google/token" => {
            let form = asked.form();
            if form["grant_type"] != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
                return wrong("unsupported grant type");
            }
            match assertion(&form["assertion"], public) {
                Ok(()) => given(state.token("ya29.account-")),
                Err(what) => wrong(&what),
            }
        }
        "/google/sts" => {
            let form = asked.form();
            let is_exchange = form["grant_type"]
                == "urn:ietf:params:oauth:grant-type:token-exchange"
                && form["requested_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
                && form["subject_token_type"] == "urn:ietf:params:oauth:token-type:jwt"
                && form["scope"] == "https://www.googleapis.com/auth/cloud-platform";
            if !is_exchange {
                return wrong("the exchange is not one");
            }
            let audience = state.jobs.get(&form["subject_token"]).cloned();
            if form["audience"] != POOL || audience.as_deref() != Some(POOL) {
                return wrong("The audience in ID Token does not match the expected audience");
            }
            given(state.token("ya29.federated-"))
        }
        "/computeMetadata/v1/instance/service-accounts/default/token" => {
            if asked.header("metadata-flavor") != "Google" {
                return StatusCode::FORBIDDEN.into_response();
            }
            given(state.token("ya29.machine-"))
        }
        path if path == format!("/google/impersonate/{ACCOUNT}:generateAccessToken") => {
            let body: Value = serde_json::from_slice(&asked.body).unwrap();
            assert_eq!(body["scope"], json!(["https://www.googleapis.com/auth/cloud-platform"]));
            if !state.tokens.iter().any(|it| it == asked.bearer()) {
                let error = json!({"code": 401, "message": "Request had invalid authentication credentials", "status": "UNAUTHENTICATED"});
                return plain(401, json!({"error": error}));
            }
            let token = state.token("ya29.impersonated-");
            let until = (now() + Duration::seconds(seconds)).to_rfc3339();
            plain(200, json!({"accessToken": token, "expireTime": until}))
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The signed claims of a service account.
fn assertion(token: &str, public: &[u8]) -> Result<(), String> {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
    let mut validation = Validation::new(Algorithm::RS256);
    validation.validate_aud = false;
    let key = DecodingKey::from_rsa_der(public);
    let read = decode::<Value>(token, &key, &validation).map_err(|_| "Invalid JWT Signature.")?;
    let claims = read.claims;
    let lasts = claims["exp"].as_i64().unwrap_or_default() - claims["iat"].as_i64().unwrap_or(1);
    let audience = claims["aud"].as_str().unwrap_or_default();
    let is_sound = claims["iss"] == ACCOUNT
        && claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
        && audience.ends_with("/google/token")
        && (1..=3600).contains(&lasts);
    if is_sound { Ok(()) } else { Err("Invalid JWT: claims".to_owned()) }
}

fn azure(state: &mut Records, asked: &Asked) -> Response {
    const RESOURCE: &str = "https://cognitiveservices.azure.com";
    let wrong = |status: u16, error: &str, what: &str| {
        plain(status, json!({"error": error, "error_description": what, "error_codes": [700_016]}))
    };
    if asked.path.starts_with("/metadata/identity/") {
        let is_sound = asked.header("metadata") == "true"
            && asked.query.get("resource").map(String::as_str) == Some(RESOURCE)
            && asked.query.get("api-version").map(String::as_str) == Some("2018-02-01");
        if !is_sound {
            return wrong(400, "invalid_request", "Required metadata header not specified");
        }
        let token = state.token("eyJ0eXAi.machine-");
        // A text, as it really is there.
        let seconds = state.lasts().to_string();
        return plain(
            200,
            json!({"access_token": token, "expires_in": seconds, "resource": RESOURCE}),
        );
    }
    if asked.path != format!("/entra/{TENANT}/oauth2/v2.0/token") {
        return wrong(400, "invalid_request", "AADSTS90002: Tenant not found.");
    }
    let form = asked.form();
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    if field("grant_type") != "client_credentials"
        || field("scope") != format!("{RESOURCE}/.default")
        || field("client_id") != CLIENT
    {
        return wrong(400, "unauthorized_client", "AADSTS700016: Application was not found.");
    }
    let by_job = field("client_assertion_type")
        == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        && state.jobs.get(field("client_assertion")).map(String::as_str)
            == Some("api://AzureADTokenExchange");
    if field("client_secret") != CLIENT_SECRET && !by_job {
        return wrong(401, "invalid_client", "AADSTS7000215: Invalid client secret provided.");
    }
    let token = state.token("eyJ0eXAi.application-");
    plain(200, json!({"token_type": "Bearer", "expires_in": state.lasts(), "access_token": token}))
}

/// A model, which is asked by those who may.
async fn model(shared: &Shared, asked: Asked) -> Response {
    let refusal = {
        let mut state = shared.state.lock();
        state.log.push("model".to_owned());
        revoke(&mut state);
        refusal(&state, &asked)
    };
    if let Some(refusal) = refusal {
        return refusal;
    }
    let path = match asked.path.rsplit_once("/publishers/google/models/") {
        Some((_, rest)) => format!("/v1beta/models/{rest}"),
        None => asked.path.clone(),
    };
    let url = format!("{}{path}?{}", shared.model, asked.raw_query);
    let request = shared.client.post(url).header("content-type", "application/json");
    let request = if path.starts_with("/v1beta") {
        request.header("x-goog-api-key", "behind")
    } else {
        request.bearer_auth("behind")
    };
    let answer = request.body(asked.body).send().await.unwrap();
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut response = Response::new(Body::from_stream(answer.bytes_stream()));
    *response.status_mut() = status;
    if let Some(kind) = headers.get("content-type") {
        response.headers_mut().insert("content-type", kind.clone());
    }
    response
}

fn revoke(state: &mut Records) {
    if state.revokes_all {
        state.tokens.clear();
    }
    match &mut state.revoke_after {
        Some(0) => {
            state.keys.clear();
            state.tokens.clear();
            state.revoke_after = None;
        }
        Some(left) => *left -= 1,
        None => {}
    }
}

/// Why a request is not answered.
fn refusal(state: &Records, asked: &Asked) -> Option<Response> {
    let authorization = asked.header("authorization");
    if authorization.starts_with("AWS4-HMAC-SHA256 ") {
        return signature(state, asked).map(|(kind, message)| {
            let body = axum::Json(json!({"message": message}));
            (StatusCode::FORBIDDEN, [("x-amzn-errortype", kind)], body).into_response()
        });
    }
    if state.tokens.iter().any(|token| token == asked.bearer()) {
        return None;
    }
    let error =
        json!({"code": "401", "message": format!("the token {} is not valid", asked.bearer())});
    Some(plain(401, json!({"error": error})))
}

/// What is wrong with a signature: the kind of error, and the words of AWS.
fn signature(state: &Records, asked: &Asked) -> Option<(&'static str, String)> {
    let wrong = |message: &str| Some(("InvalidSignatureException", message.to_owned()));
    let Some(claim) = sigv4::claim(asked.header("authorization")) else {
        return wrong("Authorization header requires existence of either parameters");
    };
    let token = asked.header("x-amz-security-token");
    let secret = match state.keys.get(&claim.key) {
        Some((secret, session)) if session == token => secret.clone(),
        None if claim.key == STATIC_KEY && token.is_empty() => STATIC_SECRET.to_owned(),
        _ => {
            let message = format!("The security token {token} included in the request is expired");
            return Some(("ExpiredTokenException", message));
        }
    };
    let time = asked.header("x-amz-date");
    let at = chrono::NaiveDateTime::parse_from_str(time, "%Y%m%dT%H%M%SZ");
    let is_now = at.is_ok_and(|at| (at.and_utc() - now()).num_seconds().abs() < 300);
    if !is_now || !time.starts_with(&claim.date) {
        return wrong("Signature expired");
    }
    let must = ["host", "x-amz-date", "x-amz-content-sha256"];
    if must.iter().any(|name| !claim.signed.iter().any(|it| it == name)) {
        return wrong("a header that must be signed is not");
    }
    if (claim.region.as_str(), claim.service.as_str()) != ("eu-west-1", "bedrock") {
        return wrong("Credential should be scoped to a valid region and service");
    }
    let received = Received {
        method: &asked.method,
        path: &asked.path,
        query: &asked.raw_query,
        headers: &asked.headers,
        body: &asked.body,
    };
    if sigv4::signature(&received, &claim, &secret) != claim.signature {
        return wrong(
            "The request signature we calculated does not match the signature you provided.",
        );
    }
    None
}
