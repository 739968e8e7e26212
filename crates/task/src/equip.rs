//! The tools of a run, made ready when its sandbox is up: what is missing there withdraws, servers are
//! started, hosts are opened.
//!
//! Each part is one call here and a file of its own elsewhere.

use std::sync::Arc;

use super::brief;
use super::mcp;
use super::run::Run;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_journal::Entry;
use patchwright_sandbox::Running;
use patchwright_sandbox::client::{Client, GuestError};
use patchwright_tools::custom;
use patchwright_tools::dynamic::DynamicTool;
use patchwright_tools::host::install_dependencies::InstallDependencies;
use patchwright_tools::host::web_fetch::WebFetch;
use patchwright_tools::host::web_search::WebSearch;
use patchwright_tools::mcp::Opened;
use patchwright_tools::mcp::updates::ToolUpdates;
use patchwright_tools::registry::ToolSet;
use patchwright_tools::requirement::Available;
use patchwright_tools::services::Services;

/// What the model can call in this sandbox, and what the calls share.
///
/// # Errors
/// For the user: a server that was asked for does not start, or the tools cannot be declared.
pub(super) async fn equip(
    run: &Run<'_>,
    sandbox: &Running,
    installing: Option<Arc<InstallDependencies>>,
) -> Result<(ToolSet, Services)> {
    let (config, client) = (&run.config, &sandbox.client);
    let mut services =
        Services { config: config.tools.clone(), egress: run.egress()?, ..Services::default() };
    let opened = mcp::start(run, client, services.egress.as_ref()).await?;
    services.servers = opened.as_ref().map(|opened| Arc::clone(&opened.servers));
    let tools = brief::tools(run)?;
    let present = present(config, client, &tools).await?;
    let mut extras = extras(&services);
    let search = run.world.search.as_ref();
    let search = search.and_then(|it| WebSearch::new(it, config, &run.world.model));
    extras.extend(search.map(|tool| Arc::new(tool) as Arc<dyn DynamicTool>));
    extras.extend(installing.map(|tool| tool as Arc<dyn DynamicTool>));
    if let Some(Opened { extras: offered, offers, .. }) = opened {
        services.updates = Some(Arc::new(ToolUpdates::new(extras.clone(), offers)));
        extras.extend(offered);
    }
    let tools = tools.offered(&run.world.model, &config.tools, &present, extras)?;
    environment(config, client).await?;
    for text in tools.notes() {
        run.environment.ui.say(text);
        run.journal(&Entry::Note { text: text.clone() })?;
    }
    Ok((tools, services))
}

/// The requirements of tools that this run can meet.
pub(super) async fn present(
    config: &Config,
    client: &Client,
    tools: &ToolSet,
) -> Result<Available> {
    let asked = tools.programs();
    let programs = match asked.as_slice() {
        [] => Vec::new(),
        asked => client.find(asked).await.map_err(|err| unanswered(&err))?,
    };
    Ok(Available { programs, ..Available::of(config) })
}

/// The tools that only this run has, beside those of servers.
fn extras(services: &Services) -> Vec<Arc<dyn DynamicTool>> {
    let fetch = services.egress.as_ref().map(|egress| WebFetch::new(egress.hosts()));
    let fetch = fetch.map(|fetch| Arc::new(fetch) as Arc<dyn DynamicTool>);
    fetch.into_iter().chain(custom::tools(&services.config)).collect()
}

/// The operator's variables, for every command.
pub(super) async fn environment(config: &Config, client: &Client) -> Result<()> {
    match &config.tools.shell_env {
        env if env.is_empty() => Ok(()),
        env => client.add_env(env.clone()).await.map_err(|err| unanswered(&err)),
    }
}

fn unanswered(err: &GuestError) -> Failure {
    Failure::sandbox(format!("the sandbox could not be made ready for tools: {err}"))
}
