//! Logging in once, as the operator: the grant by authorization code with proof of who asked for it ([RFC 7636]), which
//! a browser brings back to an address of this machine ([RFC 8252]). What is kept of it is the refresh token.
//!
//! [RFC 7636]: https://www.rfc-editor.org/rfc/rfc7636
//! [RFC 8252]: https://www.rfc-editor.org/rfc/rfc8252

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::time::timeout;
use url::Url;

use super::discovery::{self, Endpoint, OFFLINE, Why, is_same};
use super::grant::{Credentials, Grant, is_usable};
use super::stored::{FutureToken, Registered, TokenContent};
use super::{callback, registration, token, trouble};
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::redact;
use patchwright_config::tools::McpServer;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_mins(10);

/// What a login needs.
pub struct Login<'a> {
    pub name: &'a str,
    pub server: &'a McpServer,
    pub client: &'a reqwest::Client,
    /// Port of this machine that the browser comes back to; any one when 0.
    pub port: u16,
}

/// Somebody who is logged in.
pub struct LoggedIn {
    /// Where the refresh token is.
    pub file: PathBuf,
    /// The id of the client that it was issued to, where that is not the operator's.
    pub registered: Option<String>,
    /// It was registered by an earlier login.
    pub was_registered: bool,
}

/// Logs in, by way of the page that `show` is given, and puts the refresh token into the operator's file. Registers a
/// client where the configuration names none.
///
/// # Errors
/// For the user: what is missing in the configuration, or why there is no token.
pub async fn login(asked: &Login<'_>, env: &Env, show: &dyn Fn(&Url)) -> Result<LoggedIn> {
    let name = asked.name;
    let (grant, address, file) = configured(asked, env)?;
    let hint = format!("make a place for `mcp.{name}.auth.token-file`, and log in again");
    let place = FutureToken::open(&file).map_err(|why| {
        Failure::machine(format!("a login at the MCP server `{name}` could not be kept"))
            .caused_by(anyhow::anyhow!("{why}"))
            .hint(hint.clone())
    })?;
    let logged_in = kept(asked, &grant, &address, (&place, show)).await.map_err(|why| {
        Failure::machine(format!("nobody is logged in at the MCP server `{name}`"))
            .caused_by(anyhow::anyhow!("{why}"))
            .hint(format!("see whether `mcp.{name}.auth` is right, and log in again"))
    })?;
    let (kept, was_registered) = logged_in;
    redact::learn(&format!("refresh token of the MCP server {name}"), &kept.token);
    place.keep(&kept).await.map_err(|why| {
        Failure::machine(format!("the login at the MCP server `{name}` could not be kept"))
            .caused_by(anyhow::anyhow!("{why}"))
            .hint(hint)
    })?;
    Ok(LoggedIn { file, registered: kept.registered.map(|it| it.id), was_registered })
}

/// What is to be kept of a login, and whether its client was known before.
async fn kept(
    asked: &Login<'_>,
    grant: &Grant,
    address: &Url,
    (place, show): (&FutureToken, &dyn Fn(&Url)),
) -> std::result::Result<(TokenContent, bool), Why> {
    let endpoint = discovery::endpoint(asked.client, address, &grant.issuer, &|_| Ok(())).await?;
    let page = usable_page(&endpoint)?;
    let scopes = scopes(grant, &endpoint);
    let Waiting { listener, back, client, registered, was_registered } =
        waiting(asked, grant, &endpoint, (&scopes, place)).await?;
    let (state, verifier) = (random(), random());
    show(&filled(page, &endpoint, &client.id, &scopes, &back, (&state, &verifier)));
    let expected = callback::Expected {
        state: &state,
        issuer: &grant.issuer,
        names_itself: endpoint.names_itself,
    };
    let code = timeout(PATIENCE, callback::code(&listener, &expected)).await;
    let code =
        code.unwrap_or_else(|_| Err(nobody_came(asked, was_registered.then_some(&client))))?;
    let exchanged = [
        ("grant_type", "authorization_code"),
        ("code", code.as_str()),
        ("redirect_uri", back.as_str()),
        ("code_verifier", verifier.as_str()),
    ];
    let answer = token::exchange(asked.client, &client, &endpoint, &exchanged).await?;
    if let Some(error) = answer.error.as_deref().filter(|_| answer.access_token.is_none()) {
        let error = trouble::code_without(error, &client.secret);
        return Err(format!("the authorization server issues no token ({error})"));
    }
    if !answer.is_bearer() {
        return Err("the authorization server issues no bearer tokens".to_owned());
    }
    let token = answer.next_refresh_token().cloned().ok_or(
        "the authorization server gave no refresh token, and without one a run cannot renew its tokens; many give one \
         for the scope `offline_access`",
    )?;
    Ok((TokenContent { token, registered }, was_registered))
}

/// What is asked for: what the operator says, else what the server says that it wants. The page shows it to whoever
/// logs in.
fn scopes(grant: &Grant, endpoint: &Endpoint) -> Vec<String> {
    if !grant.scopes.is_empty() || endpoint.wanted.is_empty() {
        return grant.scopes.clone();
    }
    let mut scopes = endpoint.wanted.clone();
    if endpoint.has_offline && !scopes.iter().any(|it| it == OFFLINE) {
        scopes.push(OFFLINE.to_owned());
    }
    scopes
}

fn nobody_came(asked: &Login<'_>, known: Option<&Credentials>) -> Why {
    let file = asked.server.auth.as_ref().and_then(|auth| auth.token_file.as_ref());
    match (known, file) {
        (Some(client), Some(file)) => format!(
            "nobody came back from the page; if it did not know the client `{}`, remove `{}`, and the next login \
             registers another",
            client.id.replace('`', "'"),
            file.display()
        ),
        _ => "nobody came back from the page".to_owned(),
    }
}

/// What a login waits with for the browser.
struct Waiting {
    listener: TcpListener,
    /// Where the browser comes back to.
    back: String,
    client: Credentials,
    registered: Option<Registered>,
    was_registered: bool,
}

/// The operator's client, the one of the login before, or one that is registered now.
async fn waiting(
    asked: &Login<'_>,
    grant: &Grant,
    endpoint: &Endpoint,
    (scopes, place): (&[String], &FutureToken),
) -> std::result::Result<Waiting, Why> {
    let public = |id: &str| Credentials { id: id.to_owned(), secret: None };
    let before = place.registered().filter(|it| grant.client.is_none() && fits(it, grant, scopes));
    let port = before.as_ref().and_then(port).filter(|port| [0, *port].contains(&asked.port));
    if let (Some(before), Some(port)) = (before, port)
        && let Ok((listener, back)) = listen(port).await
        && registration::is_known(asked.client, &public(&before.id), endpoint, &back).await
    {
        let (client, registered) = (public(&before.id), Some(before));
        return Ok(Waiting { listener, back, client, registered, was_registered: true });
    }
    let (listener, back) = listen(asked.port).await?;
    let was_registered = false;
    if let Some(client) = grant.client.clone() {
        return Ok(Waiting { listener, back, client, registered: None, was_registered });
    }
    let id = registration::register(asked.client, endpoint, &back, scopes).await?;
    let client = public(&id);
    let (issuer, redirect) = (grant.issuer.to_string(), Some(back.clone()));
    let registered = Some(Registered { issuer, id, redirect, scopes: scopes.to_vec() });
    Ok(Waiting { listener, back, client, registered, was_registered })
}

/// It was registered at this issuer, for the same scopes: a client may be held to those that it was registered with.
fn fits(before: &Registered, grant: &Grant, scopes: &[String]) -> bool {
    Url::parse(&before.issuer).is_ok_and(|it| is_same(&it, &grant.issuer))
        && before.scopes == scopes
}

/// The port that it comes back to.
fn port(before: &Registered) -> Option<u16> {
    let back = before.redirect.as_deref()?;
    let port = Url::parse(back).ok()?.port()?;
    (back == redirect(port)).then_some(port)
}

fn redirect(port: u16) -> String {
    format!("http://127.0.0.1:{port}/callback")
}

/// Listens at a port of this machine, any one for 0; with the address that a browser comes back to.
async fn listen(port: u16) -> std::result::Result<(TcpListener, String), Why> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener = listener.map_err(|err| format!("the port cannot be used: {err}"))?;
    let port = listener.local_addr().map_err(|err| err.to_string())?.port();
    Ok((listener, redirect(port)))
}

/// What the configuration has for it.
fn configured(asked: &Login<'_>, env: &Env) -> Result<(Grant, Url, PathBuf)> {
    let (name, server) = (asked.name, asked.server);
    let lacks = |what: &str, hint: &str| {
        Failure::usage(format!("`mcp.{name}` has no {what}")).hint(hint.to_owned())
    };
    let url = server.url.as_deref().and_then(|url| Url::parse(url).ok());
    let address = url.filter(is_usable).ok_or_else(|| {
        lacks("`url` with `https`", "tokens go to no other, and servers with `command` want none")
    })?;
    let auth = server.auth.as_ref().ok_or_else(|| {
        lacks("`auth`", "name its `issuer` and a `token-file`; `docs/mcp.md` has an example")
    })?;
    let file = auth.token_file.clone().ok_or_else(|| {
        lacks("`auth.token-file`", "name the file where the refresh token is to be kept")
    })?;
    let wrong = |(message, hint): (String, String)| Failure::usage(message).hint(hint);
    let grant = Grant::look_up(name, auth, env).map_err(wrong)?;
    Ok((grant, address, file))
}

/// The page where a person logs in, where a login can come to something.
fn usable_page(endpoint: &Endpoint) -> std::result::Result<Url, Why> {
    let page = endpoint
        .authorization
        .clone()
        .ok_or("the authorization server names no page to log in that can be used")?;
    if !endpoint.takes_s256 {
        return Err("the authorization server does not say that it takes proofs (PKCE with S256), without which \
                    others could use what it answers"
            .to_owned());
    }
    Ok(page)
}

/// The page with what it is asked for.
fn filled(
    mut page: Url,
    endpoint: &Endpoint,
    client: &str,
    scopes: &[String],
    back: &str,
    (state, verifier): (&str, &str),
) -> Url {
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    let mut query = page.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", client)
        .append_pair("redirect_uri", back)
        .append_pair("state", state)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &endpoint.resource);
    if !scopes.is_empty() {
        query.append_pair("scope", &scopes.join(" "));
    }
    drop(query);
    page
}

/// 256 bits that nobody can guess.
pub(super) fn random() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}
