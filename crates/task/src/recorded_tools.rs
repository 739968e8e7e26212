//! Tools of a recorded run that a replay does not have (MCP servers over HTTP): what they answered then
//! is what they answer again.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use patchwright_guest::tool::{Effect, ToolError, ToolOutput};
use patchwright_journal::{Entry, Line};
use patchwright_provider::item::{CallOutput, Content};
use patchwright_provider::{ToolDeclaration, ToolForm};
use patchwright_tools::dynamic::DynamicTool;
use patchwright_tools::host::HostCall;
use patchwright_tools::nested;
use patchwright_tools::registry::ToolSet;
use patchwright_types::calls::NestedAnswer;

/// A tool that only knows what it has said before.
struct RecordedTool {
    name: String,
    schema: Value,
    outputs: Arc<HashMap<String, NestedAnswer>>,
}

/// The tools of servers that were declared to the model, or run, and that are in neither of these.
///
/// # Errors
/// When the recorded declarations are not readable: without them the replay would be of another run.
pub(super) fn missing(
    lines: &[Line],
    tools: &ToolSet,
    extras: &[Arc<dyn DynamicTool>],
) -> serde_json::Result<Vec<Arc<dyn DynamicTool>>> {
    let outputs = Arc::new(outputs(lines));
    let mut missing: Vec<Arc<dyn DynamicTool>> = Vec::new();
    let recorded = lines.iter().map(named).collect::<serde_json::Result<Vec<_>>>()?;
    for (name, schema) in recorded.into_iter().flatten() {
        let has = |list: &[Arc<dyn DynamicTool>]| list.iter().any(|extra| extra.name() == name);
        if !is_of_server(&name) || tools.find(&name).is_ok() || has(extras) || has(&missing) {
            continue;
        }
        missing.push(Arc::new(RecordedTool { name, schema, outputs: Arc::clone(&outputs) }));
    }
    Ok(missing)
}

/// What calls were answered, by their ids; those of the run's own model where sub-agents have the same.
fn outputs(lines: &[Line]) -> HashMap<String, NestedAnswer> {
    let answered = |entry: &Entry| match entry {
        Entry::CallEnded { output, .. } | Entry::CallDropped { output, .. } => {
            Some((output.id.clone(), NestedAnswer::Output(Box::new(answer(output)))))
        }
        Entry::NestedEnded { outer, number, answer: Some(answer), .. } => {
            Some((nested::id_of(outer, *number), answer.clone()))
        }
        _ => None,
    };
    let (own, theirs): (Vec<_>, Vec<_>) = lines
        .iter()
        .map(|line| line.entry.of_agent())
        .filter_map(|(agent, entry)| Some((agent, answered(entry)?)))
        .partition(|(agent, _)| agent.is_none());
    theirs.into_iter().chain(own).map(|(_, answered)| answered).collect()
}

/// The name is one that only a tool of an MCP server has.
fn is_of_server(name: &str) -> bool {
    name.starts_with("mcp__") || name.ends_with("_mcp_resource") || name.starts_with("list_mcp_")
}

/// Names of tools with their schemas.
fn named(line: &Line) -> serde_json::Result<Vec<(String, Value)>> {
    Ok(match line.entry.of_agent().1 {
        Entry::Prompted { tools, .. } => {
            let declared: Vec<ToolDeclaration> = serde_json::from_value(tools.clone())?;
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
        // Nor was one that only scripts have called.
        Entry::NestedStarted { name, .. } => vec![(name.clone(), json!({"type": "object"}))],
        _ => Vec::new(),
    })
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
impl DynamicTool for RecordedTool {
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
        let Some(answer) = self.outputs.get(ctx.id) else {
            return Err(ToolError::tell("the recording has no answer to this call"));
        };
        answer.result().map_err(ToolError::Tell)
    }
}

#[cfg(test)]
mod tests {
    use crate::recorded_tools::*;
    use patchwright_provider::item::Wire;
    use patchwright_tools::profile::Profile;

    #[test]
    fn tools_that_only_scripts_have_called_answer_as_they_did() {
        let name = "mcp__far__go".to_owned();
        let started = Entry::NestedStarted {
            outer: "call_1".to_owned(),
            number: 2,
            name: name.clone(),
            arguments: json!({}),
            writes: true,
            by: None,
        };
        let ended = Entry::NestedEnded {
            outer: "call_1".to_owned(),
            number: 2,
            success: true,
            duration_ms: 0,
            bytes: 4,
            answer: Some(NestedAnswer::Output(Box::new(ToolOutput::text("gone")))),
        };
        let of_agent =
            |entry: Entry| Entry::Lane { agent: "agent-1".to_owned(), entry: Box::new(entry) };
        let line = |entry| Line { seq: 1, at: chrono::DateTime::UNIX_EPOCH, entry };
        for lines in [
            vec![line(started.clone()), line(ended.clone())],
            vec![line(of_agent(started)), line(of_agent(ended))],
        ] {
            let tools = ToolSet::new(Profile::Codex, Wire::Responses).unwrap();
            let missing = missing(&lines, &tools, &[]).unwrap();
            let names: Vec<&str> = missing.iter().map(|tool| tool.name()).collect();
            assert_eq!(names, [name.as_str()]);
            let answers = outputs(&lines);
            assert_eq!(answers["call_1#2"].result().unwrap().text, "gone");
        }
    }
}
