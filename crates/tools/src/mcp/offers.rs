//! What the servers of a run offer, as they said it last, and asked again where one says that it has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use globset::GlobSet;
use rmcp::model::Tool;

use super::server::Server;
use super::tool_list::{Listed, MAX_LISTED, Unreadable};
use super::tools::ServerTool;
use super::{Servers, names, resources, text};
use crate::dynamic::DynamicTool;
use patchwright_base::error::Result;

/// Tools of one server that are named because they cannot be read.
const MAX_UNREADABLE: usize = 10;
/// How often the tools of one server are declared anew in a run.
const MAX_CHANGES: u32 = 5;
/// How often one server is asked for its tools again.
const MAX_LOOKS: u32 = 25;
/// How often it may leave that unanswered.
const MAX_FAILED: u32 = 2;
/// Longest explanation in a note, in bytes.
const MAX_WHY: usize = 300;

/// What all servers of a run offer.
pub struct Offers {
    servers: Arc<Servers>,
    all: Vec<Started>,
}

/// A server that has started, with what it says that it offers.
pub(super) struct Started {
    pub(super) server: Arc<Server>,
    /// Which of its tools are offered; all when nothing is said.
    globs: Option<GlobSet>,
    tools: Listed<Tool>,
    has_resources: bool,
    looks: u32,
    changes: u32,
    failed: u32,
    /// Its tools stay as they are, whatever it says.
    is_settled: bool,
}

/// What came of asking a server again.
enum Again {
    Same,
    Other,
}

impl Offers {
    pub(super) fn new(servers: &Arc<Servers>, all: Vec<Started>) -> Offers {
        Offers { servers: Arc::clone(servers), all }
    }

    /// All of it as tools of the run, in the order of their names.
    ///
    /// # Errors
    /// When a tool of ours cannot be declared, which is a defect.
    pub(super) fn extras(&mut self, notes: &mut Vec<String>) -> Result<Vec<Arc<dyn DynamicTool>>> {
        for started in &mut self.all {
            started.narrow(notes);
        }
        let mut extras = tools(&self.all);
        if self.all.iter().any(|started| started.has_resources) {
            extras.extend(resources::tools(&self.servers)?);
        }
        extras.sort_by(|one, other| one.name().cmp(other.name()));
        Ok(extras)
    }

    /// A server that is listened to says that its tools are not what they were.
    pub(super) fn are_old(&self) -> bool {
        self.all.iter().any(|it| !it.is_settled && it.server.has_other_tools())
    }

    /// Asks the servers again that say so, all at once. What one does not answer stays as it was. `None` where
    /// all is as it was.
    ///
    /// # Errors
    /// As [`Offers::extras`].
    pub(super) async fn list_again(
        &mut self,
        notes: &mut Vec<String>,
    ) -> Result<Option<Vec<Arc<dyn DynamicTool>>>> {
        let asked = self.all.iter_mut().map(async |started| {
            let mut notes = Vec::new();
            (started.list_again(&mut notes).await, notes)
        });
        let mut is_other = false;
        for (again, said) in join_all(asked).await {
            is_other |= matches!(again, Again::Other);
            notes.extend(said);
        }
        if is_other { self.extras(notes).map(Some) } else { Ok(None) }
    }
}

impl Started {
    pub(super) fn new(
        server: Server,
        globs: Option<GlobSet>,
        tools: Listed<Tool>,
        has_resources: bool,
    ) -> Started {
        let server = Arc::new(server);
        let (looks, changes, failed) = (0, 0, 0);
        Started { server, globs, tools, has_resources, looks, changes, failed, is_settled: false }
    }

    /// Keeps of its tools those that are offered.
    fn narrow(&mut self, notes: &mut Vec<String>) {
        let (name, globs) = (self.server.name(), self.globs.as_ref());
        keep_offered(&mut self.tools.items, globs);
        if self.tools.is_cut {
            notes.push(format!(
                "the MCP server `{name}` has more than {MAX_LISTED} tools; the rest is not offered"
            ));
        }
        unreadable(name, &self.tools.unreadable, globs, notes);
        if self.tools.items.is_empty() && globs.is_some() {
            notes.push(format!("`mcp.{name}.tools` matches none of the server's tools"));
        }
    }

    async fn list_again(&mut self, notes: &mut Vec<String>) -> Again {
        if self.is_settled || !self.server.takes_other_tools() {
            return Again::Same;
        }
        let name = self.server.name();
        if self.changes >= MAX_CHANGES || self.looks >= MAX_LOOKS {
            self.is_settled = true;
            notes.push(format!(
                "the MCP server `{name}` changes its tools over and over: after {} changes in {} lists they stay as \
                 they are",
                self.changes, self.looks
            ));
            return Again::Same;
        }
        self.looks += 1;
        let mut tools = match self.server.tools().await {
            Ok(tools) => tools,
            Err(why) => {
                self.failed += 1;
                self.is_settled = self.failed >= MAX_FAILED;
                notes.push(format!(
                    "the MCP server `{name}` says that its tools have changed, and they stay as they were: {}",
                    text::line(&why, MAX_WHY)
                ));
                return Again::Same;
            }
        };
        keep_offered(&mut tools.items, self.globs.as_ref());
        let difference = difference(&self.tools.items, &tools.items);
        self.tools = tools;
        let Some(difference) = difference else { return Again::Same };
        self.changes += 1;
        notes.push(format!(
            "the MCP server `{name}` changed its tools during the run: {difference}"
        ));
        Again::Other
    }
}

/// Keeps one of two tools with one name: a server can only mean one.
fn keep_offered(tools: &mut Vec<Tool>, globs: Option<&GlobSet>) {
    let mut seen = BTreeSet::new();
    tools.retain(|tool| seen.insert(tool.name.clone()));
    tools.retain(|tool| globs.is_none_or(|globs| globs.is_match(tool.name.as_ref())));
}

/// What is different in what a model sees or what decides about a call, in words.
fn difference(before: &[Tool], after: &[Tool]) -> Option<String> {
    let by_name = |tools: &[Tool]| -> BTreeMap<String, Tool> {
        tools.iter().map(|tool| (tool.name.to_string(), tool.clone())).collect()
    };
    let (before, after) = (by_name(before), by_name(after));
    let new = after.keys().filter(|name| !before.contains_key(*name)).count();
    let gone = before.keys().filter(|name| !after.contains_key(*name)).count();
    let is_other = |tool: &Tool, was: &Tool| {
        (&tool.title, &tool.description, &tool.input_schema, &tool.annotations)
            != (&was.title, &was.description, &was.input_schema, &was.annotations)
    };
    let known = before.iter().filter_map(|(name, was)| Some((was, after.get(name)?)));
    let other = known.filter(|(was, tool)| is_other(tool, was)).count();
    (new + gone + other > 0).then(|| format!("{new} new, {gone} gone, {other} described anew"))
}

/// The tools of all servers, under their names.
fn tools(all: &[Started]) -> Vec<Arc<dyn DynamicTool>> {
    let pairs = all.iter().flat_map(|started| {
        let server = started.server.name();
        started.tools.items.iter().map(move |tool| (server, tool.name.as_ref()))
    });
    let names = names::assign(pairs);
    let tools = all.iter().flat_map(|started| {
        started.tools.items.iter().filter_map(|tool| {
            let name = names.get(&(started.server.name(), tool.name.as_ref()))?.clone();
            let server = Arc::clone(&started.server);
            Some(Arc::new(ServerTool::new(name, tool, server)) as Arc<dyn DynamicTool>)
        })
    });
    tools.collect()
}

/// Notes about tools that are not written as the protocol says. The others are offered.
fn unreadable(server: &str, all: &[Unreadable], globs: Option<&GlobSet>, notes: &mut Vec<String>) {
    let is_wanted = |it: &&Unreadable| globs.is_none_or(|globs| globs.is_match(&it.name));
    let wanted: Vec<&Unreadable> = all.iter().filter(is_wanted).collect();
    for tool in wanted.iter().take(MAX_UNREADABLE) {
        let name = text::line(&tool.name, 64).replace('`', "'");
        let note = format!(
            "the tool `{name}` of the MCP server `{server}` is not offered: {}",
            text::line(&tool.why, 200)
        );
        tracing::warn!("{note}");
        notes.push(note);
    }
    if let Some(more @ 1..) = wanted.len().checked_sub(MAX_UNREADABLE) {
        notes.push(format!("{more} more tools of the MCP server `{server}` are not offered"));
    }
}
