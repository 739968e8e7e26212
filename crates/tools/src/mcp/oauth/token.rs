//! The access token of one server: asked for when it is needed, and again when it is used up or refused.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;
use url::{Url, form_urlencoded};

use super::discovery::{self, ClientAuthentication, Endpoint, Why, bounded, is_same};
use super::grant::{Credentials, Grant, RefreshToken};
use super::stored::StoredToken;
use super::trouble;
use patchwright_base::proxies;
use patchwright_base::redact;

/// How long an authorization server may take for an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Between requests to a token endpoint that is busy or has failed by itself.
const WAITS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(3)];
/// Tokens of one server in a run. A server that refuses each of them would have us ask for ever.
const MAX_TOKENS: u32 = 200;
/// Tokens in a row that the server refused.
const MAX_REFUSED: u32 = 3;
/// A token is renewed so long before its end.
const EARLY: Duration = Duration::from_secs(30);

/// How long the end of the process waits for exchanges that are under way.
const LAST: Duration = Duration::from_secs(10);
/// Those of all servers.
static EXCHANGES: LazyLock<TaskTracker> = LazyLock::new(TaskTracker::new);

/// Waits for exchanges that nobody waits for any more, for a while. The process must not end between an authorization
/// server's answer and the place where the refresh token is kept that takes the old one's place.
pub async fn finish_exchanges() {
    EXCHANGES.close();
    // What takes longer has no answer yet.
    let _ = tokio::time::timeout(LAST, EXCHANGES.wait()).await;
}

/// Says which addresses may be asked.
pub(in super::super) type AddressCheck = Arc<dyn Fn(&Url) -> Result<(), Why> + Send + Sync>;

/// Where the tokens of a server come from. Clones share the token.
#[derive(Clone)]
pub(in super::super) struct TokenSource {
    name: Arc<str>,
    server: Url,
    grant: Grant,
    client: reqwest::Client,
    reach: AddressCheck,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    endpoint: Option<Endpoint>,
    access: Option<Access>,
    /// The one that took the place of the one in the environment.
    refresh_token: Option<SecretString>,
    /// Why there was none when it was asked for last.
    trouble: Option<String>,
    /// What the last one did not suffice for.
    lacking: Option<String>,
    asked: u32,
    refused: u32,
}

struct Access {
    token: SecretString,
    until: Option<Instant>,
}

/// Why there is no token, for people and models.
#[derive(Debug)]
pub(in super::super) struct NoToken(String);

impl fmt::Display for NoToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoToken {}

impl NoToken {
    pub(super) fn not_taken() -> NoToken {
        NoToken("the server does not take the tokens that are issued for it".to_owned())
    }
}

/// What an authorization server answers.
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    pub(super) access_token: Option<SecretString>,
    pub(super) token_type: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
    pub(super) refresh_token: Option<SecretString>,
    pub(super) error: Option<String>,
    pub(super) error_description: Option<String>,
}

/// A number, or one between quotation marks, as some write it. What is neither is passed over: an answer that is
/// refused for it would take a refresh token with it that may be the only one from then on.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(match Option::<Value>::deserialize(from)? {
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    })
}

impl TokenResponse {
    /// It has a token of the only kind that servers of the protocol take.
    pub(super) fn is_bearer(&self) -> bool {
        self.token_type.as_deref().is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"))
    }

    /// The refresh token that counts from now on; some write an empty one where it stays as it is.
    pub(super) fn next_refresh_token(&self) -> Option<&SecretString> {
        self.refresh_token.as_ref().filter(|it| !it.expose_secret().is_empty())
    }
}

impl TokenSource {
    pub(in super::super) fn new(
        name: &str,
        server: &Url,
        grant: Grant,
        client: reqwest::Client,
        reach: AddressCheck,
    ) -> TokenSource {
        let (name, state) = (Arc::from(name), Arc::default());
        TokenSource { name, server: server.clone(), grant, client, reach, state }
    }

    /// The token to send. `refused` is one that the server did not take, and is not sent again.
    ///
    /// It is asked for to the end even where nobody waits any more: an answer that is not heard may have the only
    /// refresh token that counts from then on.
    pub(in super::super) async fn token(&self, refused: Option<&str>) -> Result<String, NoToken> {
        let (this, refused) = (self.clone(), refused.map(str::to_owned));
        let asking = EXCHANGES.spawn(async move { this.get(refused.as_deref()).await });
        asking.await.unwrap_or_else(|_| Err(NoToken("asking for it broke off".to_owned())))
    }

    async fn get(&self, refused: Option<&str>) -> Result<String, NoToken> {
        let mut state = self.state.lock().await;
        let is_usable = |access: &&Access| {
            refused.is_none_or(|refused| access.token.expose_secret() != refused)
                && access.until.is_none_or(|until| Instant::now() < until)
        };
        if let Some(access) = state.access.as_ref().filter(is_usable) {
            return Ok(access.token.expose_secret().to_owned());
        }
        state.refused = if refused.is_some() { state.refused + 1 } else { 0 };
        if state.asked >= MAX_TOKENS || state.refused > MAX_REFUSED {
            let none = NoToken::not_taken();
            state.trouble = Some(none.to_string());
            return Err(none);
        }
        let asked = self.ask(&mut state).await;
        state.trouble = asked.as_ref().err().cloned();
        asked.map_err(NoToken)
    }

    /// Why there is no token now, for the report.
    pub(in super::super) fn trouble(&self) -> Option<String> {
        self.state.try_lock().ok()?.trouble.clone()
    }

    /// The server takes the token, but not for what was asked: says which of these scopes is missing, and what to do.
    pub(in super::super) async fn lacks(&self, wanted: &[String]) -> NoToken {
        let why = trouble::lacks(&self.name, &self.grant, wanted);
        self.state.lock().await.lacking = Some(why.clone());
        NoToken(why)
    }

    /// What its token did not suffice for, for the report.
    pub(in super::super) fn lacking(&self) -> Option<String> {
        self.state.try_lock().ok()?.lacking.clone()
    }

    /// A token was taken: earlier refusals count no more.
    pub(in super::super) async fn was_taken(&self) {
        self.state.lock().await.refused = 0;
    }

    async fn ask(&self, state: &mut State) -> Result<String, Why> {
        let endpoint = if let Some(endpoint) = &state.endpoint {
            endpoint.clone()
        } else {
            let (client, issuer) = (&self.client, &self.grant.issuer);
            let found = discovery::endpoint(client, &self.server, issuer, &*self.reach).await?;
            state.endpoint.insert(found).clone()
        };
        state.asked += 1;
        let stored = match &self.grant.refresh_token {
            RefreshToken::File(file) => Some(StoredToken::open(file).await?),
            RefreshToken::Given(_) | RefreshToken::None => None,
        };
        let refresh_token = match (&stored, &state.refresh_token, &self.grant.refresh_token) {
            (Some(stored), ..) => Some(stored.token()),
            (None, Some(replaced), _) => Some(replaced),
            (None, None, RefreshToken::Given(given)) => Some(given),
            (None, None, _) => None,
        };
        if let Some(token) = refresh_token {
            redact::learn(&format!("refresh token of the MCP server {}", self.name), token);
        }
        let client = self.credentials(stored.as_ref())?;
        let answer = self.exchange(&endpoint, &client, refresh_token).await?;
        let Some(token) = &answer.access_token else {
            let sent = (client.secret.as_ref(), refresh_token);
            return Err(trouble::refusal(&self.name, &self.grant, &answer, sent));
        };
        redact::learn(&format!("token of the MCP server {}", self.name), token);
        // First of all: whatever else is wrong with the answer, the old one may be used up.
        if let Some(next) = answer.next_refresh_token() {
            redact::learn(&format!("refresh token of the MCP server {}", self.name), next);
            match stored {
                Some(stored) if stored.token().expose_secret() == next.expose_secret() => {}
                Some(stored) => stored.replace(next)?,
                None => state.refresh_token = Some(next.clone()),
            }
        }
        if !answer.is_bearer() {
            return Err("the authorization server issues no bearer tokens".to_owned());
        }
        let lives = answer.expires_in.map(|seconds| Duration::from_secs(seconds.min(86_400)));
        // Of a short life most is used.
        let until = lives.map(|lives| Instant::now() + lives.saturating_sub(EARLY.min(lives / 4)));
        let (token, text) = (token.clone(), token.expose_secret().to_owned());
        state.access = Some(Access { token, until });
        Ok(text)
    }

    /// The operator's client, or the one that was registered for the token in the file, which goes to its own issuer only.
    fn credentials(&self, stored: Option<&StoredToken>) -> Result<Credentials, Why> {
        let registered = stored.and_then(|stored| Some((stored.path(), stored.registered()?)));
        let (name, own) = (&self.name, self.grant.client.as_ref());
        let other = |file: &Path, whose: &str| {
            Err(format!(
                "the token in `{}` was issued {whose}: `patchwright mcp login {name}` gets another",
                file.display()
            ))
        };
        match (own, registered) {
            (_, Some((file, known)))
                if !Url::parse(&known.issuer).is_ok_and(|it| is_same(&it, &self.grant.issuer)) =>
            {
                other(file, "by another authorization server than `issuer`")
            }
            (Some(own), Some((file, known))) if own.id != known.id => {
                other(file, "to another client than `client-id`")
            }
            (Some(own), _) => Ok(own.clone()),
            (None, Some((_, known))) => Ok(Credentials { id: known.id.clone(), secret: None }),
            (None, None) => Err(format!(
                "`mcp.{name}.auth` has no `client-id`, and there is none in the token file: `patchwright mcp login {name}` \
                 registers a client where the authorization server lets it"
            )),
        }
    }

    async fn exchange(
        &self,
        endpoint: &Endpoint,
        client: &Credentials,
        refresh_token: Option<&SecretString>,
    ) -> Result<TokenResponse, Why> {
        let mut asked = match refresh_token {
            Some(token) => {
                vec![("grant_type", "refresh_token"), ("refresh_token", token.expose_secret())]
            }
            None => vec![("grant_type", "client_credentials")],
        };
        let scopes = self.grant.scopes.join(" ");
        if !scopes.is_empty() {
            asked.push(("scope", &scopes));
        }
        exchange(&self.client, client, endpoint, &asked).await
    }
}

/// Asks the token endpoint, as a client that it knows.
pub(super) async fn exchange(
    http: &reqwest::Client,
    client: &Credentials,
    endpoint: &Endpoint,
    asked: &[(&str, &str)],
) -> Result<TokenResponse, Why> {
    let answer = send(http, client, endpoint, asked).await;
    let answer = answer.map_err(|err| {
        format!("the token endpoint cannot be asked: {}", proxies::told_to_model(err))
    })?;
    let status = answer.status();
    let body = bounded(answer).await.map_err(|why| format!("the token endpoint {why}"))?;
    let answer: TokenResponse = serde_json::from_slice(&body).map_err(|_| {
        format!("the token endpoint did not answer as one does (HTTP {})", status.as_u16())
    })?;
    if !status.is_success() && answer.access_token.is_none() && answer.error.is_none() {
        return Err(format!(
            "the token endpoint gave no reason for HTTP {}; start again later",
            status.as_u16()
        ));
    }
    Ok(answer)
}

/// Sends it, and once more where that cannot do harm: a refresh token or a code may be used up by a request that has no
/// good answer, a client's own secret is not.
async fn send(
    http: &reqwest::Client,
    client: &Credentials,
    endpoint: &Endpoint,
    asked: &[(&str, &str)],
) -> reqwest::Result<reqwest::Response> {
    let is_used_up = asked.iter().any(|(name, _)| matches!(*name, "refresh_token" | "code"));
    let mut waits = WAITS.into_iter();
    loop {
        let answer = request(http, client, endpoint, asked).send().await;
        let may_repeat = match &answer {
            Ok(answer) if answer.status() == StatusCode::TOO_MANY_REQUESTS => true,
            Ok(answer) => answer.status().is_server_error() && !is_used_up,
            Err(err) => err.is_connect() || (!is_used_up && !err.is_timeout()),
        };
        match waits.next().filter(|_| may_repeat) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => return answer,
        }
    }
}

fn request(
    http: &reqwest::Client,
    Credentials { id, secret }: &Credentials,
    endpoint: &Endpoint,
    asked: &[(&str, &str)],
) -> reqwest::RequestBuilder {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(asked).append_pair("resource", &endpoint.resource);
    let mut request = http.post(endpoint.url.clone()).timeout(PATIENCE);
    match (secret, endpoint.authentication) {
        (Some(secret), ClientAuthentication::Basic) => {
            let encoded =
                |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let secret = encoded(secret.expose_secret());
            request = request.basic_auth(encoded(id), Some(secret));
        }
        (Some(secret), ClientAuthentication::Post) => {
            form.append_pair("client_id", id);
            form.append_pair("client_secret", secret.expose_secret());
        }
        // A public client says its name only.
        (None, _) => {
            form.append_pair("client_id", id);
        }
    }
    let request = request
        .header("accept", "application/json")
        .header("content-type", "application/x-www-form-urlencoded");
    request.body(form.finish())
}
