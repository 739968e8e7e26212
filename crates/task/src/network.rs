//! What a run may reach, and what it has reached.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::run::Run;
use patchwright_base::error::Result;
use patchwright_config::{Config, Mode};
use patchwright_journal::Entry;
use patchwright_sandbox::egress::Egress;
use patchwright_sandbox::egress::ledger::HostUse;

/// The ways to hosts that a run has, each made when it is first asked for.
#[derive(Debug, Default)]
pub struct NetworkAccess {
    commands: OnceLock<Option<Arc<Egress>>>,
    setup: OnceLock<Option<Arc<Egress>>>,
}

/// The configuration of a run in which code of strangers may run, and why it is one: no hosts, and no MCP
/// server outside the sandbox. Setup keeps its hosts, because it never sees that code; so it is not done again.
pub(super) fn closed(mut config: Config, why: &str) -> Config {
    let servers = std::mem::take(&mut config.mcp);
    let (outside, inside): (BTreeMap<_, _>, BTreeMap<_, _>) =
        servers.into_iter().partition(|(_, server)| server.url.is_some());
    config.mcp = inside;
    for name in outside.keys() {
        config.notes.push(format!("the MCP server `{name}` is left out: {why}"));
    }
    // That a review has no network is no news.
    if !config.allow_hosts.is_empty() && config.mode != Mode::Review {
        config.notes.push(format!("no host may be reached: {why}"));
    }
    config.allow_hosts.clear();
    config.setup_again = false;
    config
}

impl Run<'_> {
    /// The way to the allowed hosts, the same for all of the run; made when it is first asked for, which
    /// must be after the repository's configuration has been laid over. A review has none: what it runs
    /// may come from strangers, as on the pull request of a fork (see [`closed`]).
    ///
    /// # Errors
    /// For the user: a host that cannot be allowed.
    pub fn egress(&self) -> Result<Option<Arc<Egress>>> {
        if let Some(egress) = self.network.commands.get() {
            return Ok(egress.clone());
        }
        let hosts = match self.config.mode {
            Mode::Review => &[],
            Mode::Execute | Mode::Plan => self.config.allow_hosts.as_slice(),
        };
        let egress = Egress::new(hosts)?;
        Ok(self.network.commands.get_or_init(|| egress).clone())
    }

    /// The way to the hosts of setup, when they are a list.
    pub(super) fn setup_egress(&self) -> Result<Option<Arc<Egress>>> {
        if let Some(egress) = self.network.setup.get() {
            return Ok(egress.clone());
        }
        let egress = match self.config.setup_hosts().as_slice() {
            [all] if all == "*" => None,
            hosts => Egress::new(hosts)?,
        };
        Ok(self.network.setup.get_or_init(|| egress).clone())
    }

    /// What was reached so far, by setup and by commands together.
    pub(super) fn reached(&self) -> Vec<HostUse> {
        let ways = [&self.network.setup, &self.network.commands];
        let ways = ways.into_iter().filter_map(|way| way.get()?.as_ref());
        let mut hosts: BTreeMap<String, HostUse> = BTreeMap::new();
        for host in ways.flat_map(|egress| egress.used()) {
            hosts.entry(host.host.clone()).or_default().add(host);
        }
        hosts.into_values().collect()
    }

    /// Writes down what was reached, when something was.
    pub(super) fn journal_reached(&self) -> Result<()> {
        let hosts = self.reached();
        if hosts.is_empty() { Ok(()) } else { self.journal(&Entry::Reached { hosts }) }
    }
}
