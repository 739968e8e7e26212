//! A tool of a server as a tool of the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use rmcp::model::Tool;
use serde_json::{Map, Value};

use super::server::Server;
use super::{result, schema, text};
use crate::dynamic::DynamicTool;
use crate::host::HostCall;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};

/// Longest description, in bytes.
const MAX_DESCRIPTION: usize = 2_000;

/// A tool that a server offers.
pub(super) struct ServerTool {
    /// As the model calls it.
    name: String,
    /// As the server does.
    tool: String,
    description: String,
    schema: Value,
    /// Arguments that the server calls by another name.
    renamed: BTreeMap<String, String>,
    effect: Effect,
    server: Arc<Server>,
}

impl ServerTool {
    /// What a server says of itself is believed only where a lie does no harm: a tool that says that it
    /// only reads may run beside others when it runs in the sandbox, and nowhere else.
    pub(super) fn new(name: String, tool: &Tool, server: Arc<Server>) -> ServerTool {
        let says_it_reads =
            tool.annotations.as_ref().is_some_and(|it| it.read_only_hint == Some(true));
        let reads = says_it_reads && server.is_inside();
        let words = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        let declared = schema::declared(&tool.input_schema);
        ServerTool {
            name,
            tool: tool.name.to_string(),
            description: text::bounded(words, MAX_DESCRIPTION),
            schema: declared.schema,
            renamed: declared.renamed,
            effect: if reads { Effect::Reads } else { Effect::Writes },
            server,
        }
    }

    /// The arguments under the server's names.
    fn own(&self, args: Value) -> Map<String, Value> {
        let Value::Object(args) = args else { return Map::new() };
        let own = args.into_iter().map(|(name, value)| match self.renamed.get(&name) {
            Some(own) => (own.clone(), value),
            None => (name, value),
        });
        own.collect()
    }
}

#[async_trait]
impl DynamicTool for ServerTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn schema(&self) -> &Value {
        &self.schema
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn origin(&self) -> &str {
        self.server.name()
    }

    fn is_outside(&self) -> bool {
        !self.server.is_inside()
    }

    async fn call(&self, _ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let answer = self.server.call(&self.tool, self.own(args)).await?;
        Ok(result::of_call(self.server.name(), answer))
    }
}
