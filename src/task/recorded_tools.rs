//! Tools of a recorded run that a replay does not have (MCP servers over HTTP): what they answered then
//! is what they answer again.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

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

/// The tools that were declared to the model and that `tools` does not have.
pub(super) fn missing(lines: &[Line], tools: &ToolSet) -> Vec<Arc<dyn Extra>> {
    let outputs = lines.iter().filter_map(|line| match &line.entry {
        Entry::CallEnded { output, .. } => Some((output.id.clone(), answer(output))),
        _ => None,
    });
    let outputs = Arc::new(outputs.collect::<HashMap<_, _>>());
    let mut extras: Vec<Arc<dyn Extra>> = Vec::new();
    for declared in lines.iter().flat_map(declared) {
        let ToolForm::Function { schema, .. } = declared.form else { continue };
        let is_known = tools.find(&declared.name).is_ok();
        if is_known || extras.iter().any(|extra| extra.name() == declared.name) {
            continue;
        }
        let outputs = Arc::clone(&outputs);
        extras.push(Arc::new(Recorded { name: declared.name, schema, outputs }));
    }
    extras
}

fn declared(line: &Line) -> Vec<ToolDeclaration> {
    match &line.entry {
        Entry::Prompted { tools, .. } => serde_json::from_value(tools.clone()).unwrap_or_default(),
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
