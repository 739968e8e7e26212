//! Tools of the configuration: commands of the operator that the model can call. They run in the
//! sandbox, with the arguments as JSON on standard input and single values as `TOOL_<NAME>` variables;
//! what they print is the result.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::dynamic::DynamicTool;
use super::host::HostCall;
use super::{piped, truncate};
use patchwright_config::tools::{CustomTool, Tools};
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};

/// Largest variable; longer values are in the JSON only.
const MAX_VARIABLE: usize = 32 << 10;
/// Tokens that are kept when nothing else bounds the output.
const KEPT: u64 = 64 << 10;

/// A command as a tool.
struct Custom {
    name: String,
    tool: CustomTool,
    schema: Value,
}

/// The tools of the configuration.
pub fn tools(config: &Tools) -> Vec<Arc<dyn DynamicTool>> {
    let made = config.custom.iter().map(|(name, tool)| {
        let nothing = || json!({"type": "object", "properties": {}, "additionalProperties": false});
        let schema = tool.parameters.clone().unwrap_or_else(nothing);
        let tool = Custom { name: name.clone(), tool: tool.clone(), schema };
        Arc::new(tool) as Arc<dyn DynamicTool>
    });
    made.collect()
}

#[async_trait]
impl DynamicTool for Custom {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.tool.description
    }

    fn schema(&self) -> &Value {
        &self.schema
    }

    fn effect(&self) -> Effect {
        if self.tool.reads { Effect::Reads } else { Effect::Writes }
    }

    fn origin(&self) -> &'static str {
        "configuration"
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let stdin = args.to_string();
        let limit = ctx.limits.command_timeout;
        // Both streams come back as one, and bounded in the sandbox: a result may be of any size.
        let command = format!("exec 1>&2\n{}", self.tool.command);
        let spec = piped::Spec {
            command: &command,
            stdin: stdin.as_bytes(),
            env: variables(&args),
            timeout: self.tool.timeout().map_or(limit, |own: Duration| own.min(limit)),
            stdout_cap: 0,
            stderr_cap: truncate::output_cap(KEPT),
        };
        let ran = piped::run(ctx.client, spec).await?;
        Ok(ToolOutput {
            success: ran.command.exit_code == 0,
            command: Some(ran.command),
            ..ToolOutput::default()
        })
    }
}

/// The single values among the arguments, as variables.
fn variables(args: &Value) -> BTreeMap<String, String> {
    let fields = args.as_object().into_iter().flatten();
    let single = fields.filter_map(|(name, value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        let is_fine = value.len() <= MAX_VARIABLE && !value.contains('\0');
        is_fine.then(|| (variable(name), value))
    });
    single.collect()
}

/// `TOOL_<NAME>`: capitals, with `_` for everything that no variable can have.
pub fn variable(argument: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    std::iter::once("TOOL_".to_owned())
        .chain(argument.chars().map(|c| letter(c).to_string()))
        .collect()
}
