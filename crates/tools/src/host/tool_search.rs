//! `tool_search` and `call_tool`: where a run has more tools than are declared, the model finds them by
//! words. On a wire that takes calls of declared functions only, what it found is called with
//! `call_tool`.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Effect, HostCall, Tool};
use crate::search;
use patchwright_guest::tool::{ToolError, ToolOutput};
use patchwright_guest::tools::parse_args;
use patchwright_provider::{ToolDeclaration, ToolForm};

/// Tools of one answer.
const DEFAULT_LIMIT: usize = 8;
const MAX_LIMIT: usize = 30;
/// Names that are shown when nothing was found.
const MAX_NAMES: usize = 30;
/// Bytes of one answer: whole tools, never a part of one.
const MAX_ANSWER: usize = 32 << 10;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// What the tool should do, in a few words.
    query: String,
    /// Most tools to show; 8 when absent.
    limit: Option<usize>,
}

/// Finds tools that are not declared.
pub struct ToolSearch;

#[async_trait]
impl Tool for ToolSearch {
    fn name(&self) -> &'static str {
        "tool_search"
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn schema(&self) -> Value {
        schemars::schema_for!(Args).to_value()
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let args: Args = parse_args("tool_search", args)?;
        let tools = ctx.nested.deferred();
        let most = args.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let found = search::search(&tools, &args.query, most);
        if found.is_empty() {
            return Ok(ToolOutput::text(nothing(&tools)));
        }
        let found = found.into_iter().filter_map(|index| tools.get(index));
        Ok(ToolOutput::text(listed(found)))
    }
}

/// What to do after a search without a hit.
fn nothing(tools: &[ToolDeclaration]) -> String {
    if tools.is_empty() {
        return "There are no tools to be found: all that there are have been declared.".to_owned();
    }
    let names = tools.iter().take(MAX_NAMES).map(|tool| format!("`{}`", tool.name));
    let more = match tools.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "No tool has these words. Search with other ones, from the name of a tool or what it is about; \
         there are: {}{more}",
        names.collect::<Vec<_>>().join(", ")
    )
}

/// Tools as a JSON list of the declarations that OpenAI's Responses API answers a search with, which
/// say the same to every other model.
fn listed<'a>(tools: impl Iterator<Item = &'a ToolDeclaration>) -> String {
    let mut list = Vec::new();
    let mut size = 2;
    for tool in tools {
        let ToolForm::Function { schema, .. } = &tool.form else { continue };
        let one = json!({
            "type": "function", "name": tool.name, "description": tool.description,
            "strict": false, "parameters": schema,
        });
        size += one.to_string().len() + 1;
        if size > MAX_ANSWER && !list.is_empty() {
            break;
        }
        list.push(one);
    }
    Value::Array(list).to_string()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped {
    name: String,
    arguments: Option<serde_json::Map<String, Value>>,
}

/// Calls a tool that is not declared. The dispatcher unwraps it, so that the call inside passes the same
/// steps as any other.
pub struct CallTool;

/// The call inside a `call_tool`.
///
/// # Errors
/// For the model: it has no name.
pub fn unwrapped(args: Value) -> Result<(String, Value), ToolError> {
    let wrapped: Wrapped = parse_args("call_tool", args)?;
    Ok((wrapped.name, Value::Object(wrapped.arguments.unwrap_or_default())))
}

#[async_trait]
impl Tool for CallTool {
    fn name(&self) -> &'static str {
        "call_tool"
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn schema(&self) -> Value {
        let name = "Name of the tool, as `tool_search` shows it.";
        let arguments = "Its arguments, as its `parameters` say.";
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": name},
                // Of any kind: they are checked against the schema of the tool inside.
                "arguments": {
                    "type": "object", "description": arguments, "additionalProperties": {},
                },
            },
            "required": ["name"],
        })
    }

    fn takes_gate(&self) -> bool {
        false
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let (name, arguments) = unwrapped(args)?;
        ctx.nested.call(&name, arguments).await
    }
}
