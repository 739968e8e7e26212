//! Tools of a recorded run that a replay does not have (MCP servers over HTTP): what they answered then
//! is what they answer again.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::agent::journal::{Entry, Line};
use crate::provider::item::{CallOutput, Content};
use crate::provider::{ToolDeclaration, ToolForm};
use crate::tools::extra::Extra;
use crate::tools::host::HostCall;
use crate::tools::registry::ToolSet;
use crate::tools::{Effect, ToolError, ToolOutput};

/// A tool that only knows what it has said before.
struct Recorded {
    name: String,
    schema: Value,
    outputs: Arc<HashMap<String, ToolOutput>>,
}

/// The tools of servers that were declared to the model, or run, and that are in neither of these.
pub(super) fn missing(
    lines: &[Line],
    tools: &ToolSet,
    extras: &[Arc<dyn Extra>],
) -> Vec<Arc<dyn Extra>> {
    let outputs = lines.iter().filter_map(|line| match &line.entry {
        Entry::CallEnded { output, .. } | Entry::CallDropped { output, .. } => {
            Some((output.id.clone(), answer(output)))
        }
        _ => None,
    });
    let outputs = Arc::new(outputs.collect::<HashMap<_, _>>());
    let mut missing: Vec<Arc<dyn Extra>> = Vec::new();
    for (name, schema) in lines.iter().flat_map(named) {
        let has = |list: &[Arc<dyn Extra>]| list.iter().any(|extra| extra.name() == name);
        if !is_of_server(&name) || tools.find(&name).is_ok() || has(extras) || has(&missing) {
            continue;
        }
        missing.push(Arc::new(Recorded { name, schema, outputs: Arc::clone(&outputs) }));
    }
    missing
}

/// The name is one that only a tool of an MCP server has.
fn is_of_server(name: &str) -> bool {
    name.starts_with("mcp__") || name.ends_with("_mcp_resource") || name.starts_with("list_mcp_")
}

/// Names of tools with their schemas.
fn named(line: &Line) -> Vec<(String, Value)> {
    match &line.entry {
        Entry::Prompted { tools, .. } => {
            let declared: Vec<ToolDeclaration> =
                serde_json::from_value(tools.clone()).unwrap_or_default();
            let functions = declared.into_iter().filter_map(|tool| match tool.form {
                ToolForm::Function { schema, .. } => Some((tool.name, schema)),
                _ => None,
            });
            functions.collect()
        }
        // One that was found by searching was not declared.
        Entry::CallEnded { output, fault: None, .. } | Entry::CallDropped { output, .. } => {
            vec![(output.name.clone(), json!({"type": "object"}))]
        }
        _ => Vec::new(),
    }
}

fn answer(output: &CallOutput) -> ToolOutput {
    let texts = output.content.iter().filter_map(|content| match content {
        Content::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    ToolOutput { success: output.success, ..ToolOutput::text(text) }
}

#[async_trait]
impl Extra for Recorded {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &'static str {
        ""
    }

    fn schema(&self) -> &Value {
        &self.schema
    }

    /// Whatever it did then, it does nothing now.
    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn origin(&self) -> &'static str {
        "recording"
    }

    async fn call(&self, ctx: &HostCall<'_>, _args: Value) -> Result<ToolOutput, ToolError> {
        let output = self.outputs.get(ctx.id).cloned();
        output.ok_or_else(|| ToolError::tell("the recording has no answer to this call"))
    }
}
