//! The configured MCP servers: each is started or reached as a run would do it, asked for its tools, and ended again. What
//! is started in a container is not tried: its program may come with the image of a repository.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use super::Finding;
use super::machine::{fix, words};
use patchwright_base::env::Env;
use patchwright_base::error::Result;
use patchwright_config::tools::McpServer;
use patchwright_config::{Config, SandboxChoice};
use patchwright_sandbox::client::Client;
use patchwright_task::mcp::reachable_through;
use patchwright_tools::mcp::headers::Headers;
use patchwright_tools::mcp::open::Reachable;
use patchwright_tools::mcp::{self, Outside};

/// Tools that are named.
const MOST_NAMED: usize = 10;

/// What becomes of each server; `client` is that of a local sandbox.
pub(super) async fn check(config: &Config, env: &Env, client: &Client) -> Vec<Finding> {
    if config.mcp.is_empty() {
        return Vec::new();
    }
    let headers = Headers::look_up(&config.mcp, env);
    let http = match headers.check().and_then(|()| reachable_through(&config.allow_hosts)) {
        Ok(http) => http,
        Err(failure) => {
            return vec![Finding::broken("MCP servers", words(&failure), fix(&failure.hints))];
        }
    };
    let all = config.mcp.iter().map(async |(name, server)| {
        let what = format!("MCP server {name}");
        if server.url.is_none() && config.sandbox != SandboxChoice::Local {
            let why = "not tried: a run starts it in its container, which is made of the repository's image";
            return Finding::note(&what, why, None);
        }
        match tools(name, server, client, (&http, &headers)).await {
            Ok(said) => Finding::fine(&what, said),
            Err(failure) => Finding::broken(&what, words(&failure), fix(&failure.hints)),
        }
    });
    join_all(all).await
}

/// The tools that a server offers, in words.
async fn tools(
    name: &str,
    server: &McpServer,
    client: &Client,
    (http, headers): (&Reachable, &Headers),
) -> Result<String> {
    let one = BTreeMap::from([(name.to_owned(), server.clone())]);
    let outside = Outside { client, http: http.clone(), headers };
    let opened = mcp::open(&one, &outside).await?;
    let names: Vec<String> =
        opened.extras.iter().map(|tool| format!("`{}`", tool.name())).collect();
    opened.servers.close().await;
    let more = names.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = names[..names.len().min(MOST_NAMED)].join(", ");
    Ok(match names.len() {
        0 => "answers, and offers no tools".to_owned(),
        1 => format!("answers, and offers one tool: {shown}"),
        count => format!("answers, and offers {count} tools: {shown}{more}"),
    })
}
