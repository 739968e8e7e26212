//! The tools of a run, made ready when its sandbox is up: what is missing there withdraws, servers are
//! started, hosts are opened.
//!
//! Each part is one call here and a file of its own elsewhere.

use std::sync::Arc;

use super::brief;
use super::mcp;
use super::run::Run;
use crate::agent::journal::Entry;
use crate::error::{Failure, Result};
use crate::mcp::Opened;
use crate::sandbox::Running;
use crate::tools::custom;
use crate::tools::extra::Extra;
use crate::tools::need::Present;
use crate::tools::offer::{Search, SearchForm};
use crate::tools::registry::ToolSet;
use crate::tools::services::Services;

/// Tools of servers and configuration that are declared; with more they are searched for.
pub(super) const SEARCH_ABOVE: usize = 30;

/// What the model can call in this sandbox, and what the calls share.
///
/// # Errors
/// For the user: a server that was asked for does not start, or the tools cannot be declared.
pub(super) async fn equip(run: &Run<'_>, sandbox: &Running) -> Result<(ToolSet, Services)> {
    let config = &run.config.tools;
    let mut services = Services { config: config.clone(), ..Services::default() };
    let opened = mcp::start(run, &sandbox.client, services.egress.as_ref()).await?;
    services.servers = opened.as_ref().map(|opened| Arc::clone(&opened.servers));
    let tools = brief::tools(run)?;
    let present = present(run, sandbox, &tools).await?;
    let model = &run.world.model;
    let above = config.search_above.unwrap_or(SEARCH_ABOVE);
    let search = Search { above, form: SearchForm::of(model) };
    let extras = extras(&services, opened);
    let tools = tools.equipped(model, &present)?.with_extras(extras, search)?;
    let tools = tools.without(&config.disabled);
    environment(run, sandbox).await?;
    for text in tools.notes() {
        run.around.ui.say(text);
        run.journal(&Entry::Note { text: text.clone() })?;
    }
    Ok((tools, services))
}

/// What there is for tools that need something.
async fn present(run: &Run<'_>, sandbox: &Running, tools: &ToolSet) -> Result<Present> {
    let asked = tools.programs();
    let programs = match asked.as_slice() {
        [] => Vec::new(),
        asked => sandbox.client.find(asked).await.map_err(unanswered)?,
    };
    Ok(Present {
        programs,
        hosts: !run.config.allow_hosts.is_empty(),
        resources: false,
        agents: run.config.tools.agents.is_some_and(|most| most > 0),
        js_repl: run.config.tools.js_repl == Some(true),
    })
}

/// The tools that only this run has.
fn extras(services: &Services, servers: Option<Opened>) -> Vec<Arc<dyn Extra>> {
    let offered = servers.map(|opened| opened.extras).unwrap_or_default();
    custom::tools(&services.config).into_iter().chain(offered).collect()
}

/// The operator's variables, for every command.
async fn environment(run: &Run<'_>, sandbox: &Running) -> Result<()> {
    let env = &run.config.tools.shell_env;
    if env.is_empty() {
        return Ok(());
    }
    sandbox.client.add_env(env.clone()).await.map_err(unanswered)
}

fn unanswered(err: crate::guest::client::GuestError) -> Failure {
    Failure::sandbox(format!("the sandbox could not be made ready for tools: {err}"))
}
