//! The servers of a run: all started at once, and what they offer as tools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use globset::{Glob, GlobSet, GlobSetBuilder};
use url::Url;

use super::connection::{ConnectError, Transport};
use super::headers::Headers;
use super::oauth::client::ServerClient;
use super::oauth::grant::{Grant, is_usable};
use super::oauth::{AddressCheck, TokenSource};
use super::offers::{Offers, Started};
use super::server::Server;
use super::{Servers, text};
use crate::dynamic::DynamicTool;
use patchwright_base::error::{Failure, Result};
use patchwright_config::tools::McpServer;
use patchwright_guest::protocol::Exec;
use patchwright_sandbox::client::Client;

/// Seconds that a server may take to start, and to answer a call, when nothing else is said.
const START_SECONDS: u64 = 30;
const CALL_SECONDS: u64 = 120;
/// Bytes of a server's standard error that are kept.
const MAX_STDERR: usize = 16 << 10;

/// Makes clients for addresses.
pub type Reachable = Arc<dyn Fn(&Url) -> Result<reqwest::Client> + Send + Sync>;

/// What servers are reached with.
pub struct Outside<'a> {
    /// The sandbox, for those that are started there.
    pub client: &'a Client,
    /// A client for an address over HTTP, or why it may not be reached.
    pub http: Reachable,
    pub headers: &'a Headers,
}

/// Servers that are connected.
pub struct Opened {
    pub servers: Arc<Servers>,
    /// Their tools, by name.
    pub extras: Vec<Arc<dyn DynamicTool>>,
    /// For the report: what of them is not offered.
    pub notes: Vec<String>,
    /// What they offer, to be asked again.
    pub offers: Offers,
}

/// Starts servers and lists what they offer. Either all of them are there afterwards, or none.
///
/// # Errors
/// For the user: a server is configured in a way that cannot work, or does not start.
pub async fn open(
    configured: &BTreeMap<String, McpServer>,
    outside: &Outside<'_>,
) -> Result<Opened> {
    let mut ways = Vec::new();
    for (name, server) in configured {
        ways.push((name, server, offered(name, server)?, way(name, server, outside).await?));
    }
    let started = ways
        .into_iter()
        .map(|(name, server, globs, way)| async move { start(name, server, way, globs).await });
    let mut all = Vec::new();
    let mut first = None;
    for started in join_all(started).await {
        match started {
            Ok(started) => all.push(started),
            Err(failure) => first = first.or(Some(failure)),
        }
    }
    let list = all.iter().map(|started| Arc::clone(&started.server)).collect();
    let servers = Arc::new(Servers { list });
    if let Some(failure) = first {
        servers.close().await;
        return Err(failure);
    }
    let mut notes = Vec::new();
    let mut offers = Offers::new(&servers, all);
    let extras = offers.extras(&mut notes)?;
    Ok(Opened { servers, extras, notes, offers })
}

async fn start(
    name: &str,
    configured: &McpServer,
    way: Transport,
    globs: Option<GlobSet>,
) -> Result<Started> {
    let limit = |seconds: Option<u64>, usual| Duration::from_secs(seconds.unwrap_or(usual).max(1));
    let start_limit = limit(configured.start_timeout_seconds, START_SECONDS);
    let call_limit = limit(configured.timeout_seconds, CALL_SECONDS);
    let server = Server::start(name, way, start_limit, call_limit).await;
    let server = server.map_err(|trouble| not_started(name, configured, &trouble))?;
    let tools = match server.tools().await {
        Ok(tools) => tools,
        Err(why) => {
            server.close().await;
            return Err(not_started(name, configured, &ConnectError::new(why)));
        }
    };
    let has_resources = server.has_resources().await;
    Ok(Started::new(server, globs, tools, has_resources))
}

fn not_started(name: &str, configured: &McpServer, trouble: &ConnectError) -> Failure {
    let failure = Failure::sandbox(format!("the MCP server `{name}` did not start"))
        .caused_by(anyhow::anyhow!("{trouble}"));
    match &configured.url {
        Some(url) => failure.hint(format!(
            "see whether `{url}` is the address of a streamable HTTP endpoint, and whether \
             `mcp.{name}.headers` or `mcp.{name}.auth` are right; nobody can log in during a run"
        )),
        None => failure.hint(format!(
            "run `{}` in the sandbox's image, or for the local sandbox on this machine, of which it has \
             neither home folders nor `/tmp`, to see what is wrong; \
             `mcp.{name}.start-timeout-seconds` gives it more time",
            configured.command.join(" ")
        )),
    }
}

/// Where the tokens of a server come from. The first one is had here, before anything is started.
async fn tokens(
    name: &str,
    server: &Url,
    grant: Grant,
    outside: &Outside<'_>,
) -> Result<TokenSource> {
    if !is_usable(server) {
        let what = format!("`mcp.{name}.url` would carry tokens where others can read them");
        return Err(Failure::usage(what).hint("write an address with `https`"));
    }
    let client = (outside.http)(grant.issuer())?;
    let http = Arc::clone(&outside.http);
    let reach: AddressCheck = Arc::new(move |url| {
        let refused = |failure: Failure| {
            let hints = failure.hints.iter().map(|hint| format!(" ({})", hint.text));
            format!("{}{}", failure.message, hints.collect::<String>())
        };
        http(url).map(drop).map_err(refused)
    });
    let tokens = TokenSource::new(name, server, grant, client, reach);
    match tokens.token(None).await {
        Ok(_) => Ok(tokens),
        Err(why) => Err(Failure::sandbox(format!(
            "there is no access token for the MCP server `{name}`"
        ))
        .caused_by(why)
        .hint(format!(
            "nobody can log in during a run: `patchwright mcp login {name}` gets a refresh token where \
             `mcp.{name}.auth` names a `token-file`; `docs/mcp.md` says what else there is"
        ))),
    }
}

/// Which of its tools are offered; all when nothing is said.
fn offered(name: &str, server: &McpServer) -> Result<Option<GlobSet>> {
    if server.tools.is_empty() {
        return Ok(None);
    }
    let mut globs = GlobSetBuilder::new();
    for glob in &server.tools {
        globs.add(Glob::new(glob).map_err(|err| {
            Failure::usage(format!("`mcp.{name}.tools` has a pattern that is none: `{glob}`"))
                .caused_by(err)
                .hint("patterns of tool names have `*` and `?`")
        })?);
    }
    let globs = globs.build();
    let wrong = || Failure::usage(format!("`mcp.{name}.tools` cannot be used"));
    globs.map(Some).map_err(|err| wrong().caused_by(err))
}

/// How a server is reached.
async fn way(name: &str, server: &McpServer, outside: &Outside<'_>) -> Result<Transport> {
    match (server.command.split_first(), &server.url) {
        (Some((program, _)), None) => in_sandbox(name, program, server, outside.client).await,
        (None, Some(url)) => over_http(name, url, outside).await,
        (Some(_), Some(_)) | (None, None) => {
            Err(Failure::usage(format!("`mcp.{name}` needs either `command` or `url`"))
                .hint("`command` starts a server in the sandbox, `url` reaches one over HTTP"))
        }
    }
}

async fn in_sandbox(
    name: &str,
    program: &str,
    server: &McpServer,
    client: &Client,
) -> Result<Transport> {
    if let Some((variable, _)) = server.env.iter().find(|(_, value)| value.contains("${")) {
        return Err(Failure::usage(format!(
            "`mcp.{name}.env.{variable}` refers to the environment, and no secret goes into the sandbox"
        ))
        .hint("write the value itself when it is no secret; use a server with `url` when it is one"));
    }
    let found = client.find(&[program]).await.map_err(|err| {
        Failure::sandbox(format!("the MCP server `{name}` cannot be started")).caused_by(err)
    })?;
    if found.is_empty() {
        return Err(Failure::usage(format!(
            "`mcp.{name}.command`: there is no program `{}` in the sandbox",
            text::line(program, 200)
        ))
        .hint("install it with `setup`, or choose an `image` that has it"));
    }
    let exec = Exec {
        argv: server.command.clone(),
        cwd: None,
        env: server.env.clone(),
        timeout_ms: 0,
        output_cap: MAX_STDERR,
    };
    Ok(Transport::Sandbox { client: client.clone(), exec })
}

async fn over_http(name: &str, url: &str, outside: &Outside<'_>) -> Result<Transport> {
    let parsed = Url::parse(url).ok();
    let is_usable = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
    };
    let Some(parsed) = parsed.filter(is_usable) else {
        return Err(Failure::usage(format!(
            "`mcp.{name}.url` is not a web address without a password"
        ))
        .hint("write `https://HOST/PATH`, and secrets into `headers`"));
    };
    let http = (outside.http)(&parsed)?;
    let headers = outside.headers.of(name)?;
    let tokens = match outside.headers.grant(name)? {
        Some(grant) => Some(Arc::new(tokens(name, &parsed, grant, outside).await?)),
        None => None,
    };
    Ok(Transport::Http {
        client: ServerClient { http, tokens },
        url: Arc::from(parsed.as_str()),
        headers,
    })
}
