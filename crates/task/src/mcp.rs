//! The MCP servers of a run: started when its sandbox is up, ended before it is taken down.

use std::collections::BTreeMap;
use std::sync::Arc;

use url::Url;

use super::brief::message;
use super::run::Run;
use patchwright_base::error::{Failure, Result};
use patchwright_config::tools::McpServer;
use patchwright_journal::Entry;
use patchwright_prompt as prompt;
use patchwright_provider::item::{Item, Role};
use patchwright_sandbox::client::Client;
use patchwright_sandbox::egress::Egress;
use patchwright_tools::mcp::open::Reachable;
use patchwright_tools::mcp::prompts::{self, ChosenPrompt};
use patchwright_tools::mcp::{self, Opened, Outside, Servers};

/// Looks at the addresses of the configured servers, before setup and checks are waited for. Servers in the sandbox are
/// asked for later: their programs may come with setup.
///
/// # Errors
/// For the user: a host that may not be reached.
pub(super) fn check_addresses(run: &Run<'_>) -> Result<()> {
    let addresses = run.config.mcp.values().filter_map(|server| server.url.as_deref());
    for url in addresses.filter_map(|url| Url::parse(url).ok()) {
        reachable(&url, run.egress()?.as_ref())?;
    }
    Ok(())
}

/// Starts the configured servers, all at once.
///
/// # Errors
/// For the user: see [`mcp::open()`].
pub(super) async fn start(
    run: &Run<'_>,
    client: &Client,
    egress: Option<&Arc<Egress>>,
) -> Result<Option<Opened>> {
    let configured = &run.config.mcp;
    if configured.is_empty() {
        return Ok(None);
    }
    let names: Vec<String> = configured.keys().map(|name| format!("`{name}`")).collect();
    run.environment.ui.say(&format!("starting MCP servers: {}", names.join(", ")));
    let egress = egress.cloned();
    let http: Reachable = Arc::new(move |url: &Url| reachable(url, egress.as_ref()));
    let outside = Outside { client, http, headers: &run.world.mcp_headers };
    let opened = run.unless_interrupted(mcp::open(configured, &outside)).await?;
    for note in &opened.notes {
        run.environment.ui.say(&format!("note: {note}"));
        run.journal(&Entry::Note { text: note.clone() })?;
    }
    Ok(Some(opened))
}

/// What the agent is told first, with what the servers say of themselves and the prompts that the operator has chosen.
/// They are asked for when a run begins: one that is resumed has been told.
///
/// # Errors
/// For the user: see [`prompts::chosen`].
pub(super) async fn guided(
    run: &Run<'_>,
    servers: Option<&Arc<Servers>>,
    mut items: Vec<Item>,
) -> Result<Vec<Item>> {
    let Some(servers) = servers else { return Ok(items) };
    let asked = prompts::chosen(servers, &run.config.mcp);
    let chosen = run.unless_interrupted(asked).await;
    let chosen = match chosen {
        Ok(chosen) => chosen,
        Err(failure) => {
            servers.close().await;
            return Err(failure);
        }
    };
    let mut guidance = Vec::new();
    for server in servers.all() {
        if let Some(said) = server.instructions().await {
            let said = prompt::mcp_instructions(server.name(), &said)?;
            guidance.push(message(Role::User, said));
        }
    }
    for ChosenPrompt { server, name, text } in chosen {
        let note = format!("the prompt `{name}` of the MCP server `{server}` is part of the task");
        run.environment.ui.say(&note);
        run.journal(&Entry::Note { text: note })?;
        guidance.push(message(Role::User, prompt::mcp_prompt(&server, &name, &text)?));
    }
    // Before the task, which is what is asked for last.
    let at = items.len().saturating_sub(1);
    items.splice(at..at, guidance);
    Ok(items)
}

/// Ends the servers; for the report, which of them were used.
pub(super) async fn finish(servers: Option<&Arc<Servers>>) -> Vec<String> {
    let Some(servers) = servers else { return Vec::new() };
    let troubles = servers.troubles();
    servers.close().await;
    servers.used().into_iter().chain(troubles).collect()
}

/// The servers of a recorded run that can be started again without reaching out: the others' answers stand as they were
/// recorded.
pub(super) fn inside(configured: &BTreeMap<String, McpServer>) -> BTreeMap<String, McpServer> {
    let inside = configured.iter().filter(|(_, server)| server.url.is_none());
    inside.map(|(name, server)| (name.clone(), server.clone())).collect()
}

/// For a replay, which asks nobody.
pub(super) fn nobody() -> Reachable {
    Arc::new(|url: &Url| Err(Failure::internal(format!("a replay asks nobody at `{url}`"))))
}

/// For whoever asks servers without a run: what a run with these hosts may reach.
///
/// # Errors
/// For the user: a host is not written as one.
pub fn reachable_through(hosts: &[String]) -> Result<Reachable> {
    let egress = Egress::new(hosts)?;
    Ok(Arc::new(move |url: &Url| reachable(url, egress.as_ref())))
}

/// A client for an address, when it is allowed.
fn reachable(url: &Url, egress: Option<&Arc<Egress>>) -> Result<reqwest::Client> {
    let host = url.host_str().unwrap_or_default();
    let host = url.port().map_or(host.to_owned(), |port| format!("{host}:{port}"));
    let failure = || Failure::usage(format!("the MCP server at `{host}` may not be reached"));
    let hint = format!("add `{host}` to `network.allow`, or give it with `--allow-host`");
    let Some(egress) = egress else { return Err(failure().hint(hint)) };
    egress.allows(url).map_err(|refused| failure().caused_by(refused).hint(hint))?;
    Ok(egress.client())
}
