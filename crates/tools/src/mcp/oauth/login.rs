//! Logging in once, as the operator: the grant by authorization code with proof of who asked for it ([RFC 7636]), which
//! a browser brings back to an address of this machine ([RFC 8252]). What is kept of it is the refresh token.
//!
//! [RFC 7636]: https://www.rfc-editor.org/rfc/rfc7636
//! [RFC 8252]: https://www.rfc-editor.org/rfc/rfc8252

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::Url;

use super::discovery::{self, Endpoint, Why};
use super::grant::{Credentials, Grant, is_usable};
use super::stored::{self, Kept, Registered};
use super::{registration, token};
use crate::mcp::text;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::redact;
use patchwright_config::tools::McpServer;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// How long a browser may take to say what it wants, and in how many bytes.
const READ: Duration = Duration::from_secs(5);
const MAX_REQUEST: usize = 16 << 10;

/// What a login needs.
pub struct Login<'a> {
    pub name: &'a str,
    pub server: &'a McpServer,
    pub client: &'a reqwest::Client,
    /// Of this machine, where the browser comes back to; any one when 0.
    pub port: u16,
}

/// Somebody who is logged in.
pub struct LoggedIn {
    /// Where the refresh token is.
    pub file: PathBuf,
    /// The id of the client that was registered for it; `None` for the operator's.
    pub registered: Option<String>,
}

/// Logs in, by way of the page that `show` is given, and puts the refresh token into the operator's file. Registers a
/// client where the configuration names none.
///
/// # Errors
/// For the user: what is missing in the configuration, or why there is no token.
pub async fn login(asked: &Login<'_>, env: &Env, show: &dyn Fn(&Url)) -> Result<LoggedIn> {
    let name = asked.name;
    let (grant, address, file) = configured(asked, env)?;
    let kept = kept(asked, &grant, &address, show).await.map_err(|why| {
        Failure::machine(format!("nobody is logged in at the MCP server `{name}`"))
            .caused_by(anyhow::anyhow!("{why}"))
            .hint(format!("see whether `mcp.{name}.auth` is right, and log in again"))
    })?;
    redact::learn(&format!("refresh token of the MCP server {name}"), &kept.token);
    stored::keep(&file, &kept).await.map_err(|why| {
        Failure::machine(format!("the login at the MCP server `{name}` could not be kept"))
            .caused_by(anyhow::anyhow!("{why}"))
            .hint(format!("make room for `mcp.{name}.auth.token-file`, and log in again"))
    })?;
    Ok(LoggedIn { file, registered: kept.registered.map(|it| it.id) })
}

/// What is to be kept of a login.
async fn kept(
    asked: &Login<'_>,
    grant: &Grant,
    address: &Url,
    show: &dyn Fn(&Url),
) -> std::result::Result<Kept, Why> {
    let endpoint = discovery::endpoint(asked.client, address, &grant.issuer, &|_| Ok(())).await?;
    let page = usable_page(&endpoint)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, asked.port)).await;
    let listener = listener.map_err(|err| format!("the port cannot be used: {err}"))?;
    let port = listener.local_addr().map_err(|err| err.to_string())?.port();
    let back = format!("http://127.0.0.1:{port}/callback");
    let (client, registered) = client(asked.client, grant, &endpoint, &back).await?;
    let (state, verifier) = (random(), random());
    show(&filled(page, &endpoint, &client.id, &grant.scopes, &back, (&state, &verifier)));
    let code = timeout(PATIENCE, code(&listener, &state, &grant.issuer)).await;
    let code = code.unwrap_or_else(|_| Err("nobody came back from the page".to_owned()))?;
    let exchanged = [
        ("grant_type", "authorization_code"),
        ("code", code.as_str()),
        ("redirect_uri", back.as_str()),
        ("code_verifier", verifier.as_str()),
    ];
    let answer = token::exchange(asked.client, &client, &endpoint, &exchanged).await?;
    if let Some(error) = answer.error.filter(|_| answer.access_token.is_none()) {
        let error = text::line(&error, 60);
        return Err(format!("the authorization server issues no token ({error})"));
    }
    let token = answer.refresh_token.ok_or(
        "the authorization server gave no refresh token, and without one a run cannot renew its tokens; many give one \
         for the scope `offline_access`",
    )?;
    Ok(Kept { token, registered })
}

/// The operator's client, or one that is registered now.
async fn client(
    http: &reqwest::Client,
    grant: &Grant,
    endpoint: &Endpoint,
    back: &str,
) -> std::result::Result<(Credentials, Option<Registered>), Why> {
    if let Some(own) = &grant.client {
        return Ok((own.clone(), None));
    }
    let id = registration::register(http, endpoint, back, &grant.scopes).await?;
    let registered = Registered { issuer: grant.issuer.to_string(), id: id.clone() };
    Ok((Credentials { id, secret: None }, Some(registered)))
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
fn random() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

/// Waits for the browser; what does not know `state` is not from the page.
async fn code(
    listener: &TcpListener,
    state: &str,
    issuer: &Url,
) -> std::result::Result<String, Why> {
    loop {
        let (mut stream, _) = listener.accept().await.map_err(|err| err.to_string())?;
        let Ok(Some(said)) = timeout(READ, request(&mut stream)).await else { continue };
        let pairs: BTreeMap<String, String> = said.query_pairs().into_owned().collect();
        if said.path() != "/callback" || pairs.get("state").is_none_or(|it| it != state) {
            answer(&mut stream, "404 Not Found", "There is nothing here.").await;
            continue;
        }
        let code = match (pairs.get("error"), pairs.get("code"), pairs.get("iss")) {
            (_, _, Some(other))
                if !Url::parse(other).is_ok_and(|it| discovery::is_same(&it, issuer)) =>
            {
                Err("the answer is one of another authorization server".to_owned())
            }
            (Some(error), ..) => Err(format!("the page answers `{}`", text::line(error, 60))),
            (None, Some(code), _) => Ok(code.clone()),
            (None, None, _) => Err("the page answers without a code".to_owned()),
        };
        let words = match &code {
            Ok(_) => "Patchwright has the answer. You can close this page.",
            Err(_) => "That did not work. The terminal says why.",
        };
        answer(&mut stream, "200 OK", words).await;
        return code;
    }
}

/// The address that a browser asks for.
async fn request(stream: &mut TcpStream) -> Option<Url> {
    let mut read = Vec::new();
    while !read.windows(4).any(|it| it == b"\r\n\r\n") {
        let mut part = [0; 1_024];
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        read.extend_from_slice(&part[..count]);
        if read.len() > MAX_REQUEST {
            return None;
        }
    }
    let head = String::from_utf8(read).ok()?;
    let target = head.strip_prefix("GET ")?.split(' ').next()?;
    Url::parse("http://127.0.0.1").ok()?.join(target).ok()
}

/// A browser that is gone does not matter.
async fn answer(stream: &mut TcpStream, status: &str, words: &str) {
    let length = words.len();
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{words}"
    );
    let _ = timeout(READ, stream.write_all(text.as_bytes())).await;
    let _ = stream.shutdown().await;
}
