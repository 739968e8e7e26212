//! Tools that only this run has: those of MCP servers and of the configuration. Their names, schemas and
//! descriptions are not ours, so they are bounded before they come here.

use async_trait::async_trait;
use serde_json::Value;

use super::host::HostCall;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};

/// A tool with a name of its own in this run.
#[async_trait]
pub trait DynamicTool: Send + Sync {
    /// What the model calls it: at most 64 of `[A-Za-z0-9_-]`.
    fn name(&self) -> &str;

    /// For the model.
    fn description(&self) -> &str;

    /// JSON Schema of the arguments, an object.
    fn schema(&self) -> &Value;

    fn effect(&self) -> Effect;

    /// Where it comes from, for the search and the report: the name of the server, or `configuration`.
    fn origin(&self) -> &str;

    /// As [`takes_gate`](super::host::Tool::takes_gate) of our own tools.
    fn takes_gate(&self) -> bool {
        true
    }

    /// As [`is_repeatable`](super::host::Tool::is_repeatable) of our own tools. What others have made may
    /// do more than it says.
    fn is_repeatable(&self) -> bool {
        false
    }

    /// What it answers comes from outside of the sandbox: a replay cannot ask again.
    fn is_outside(&self) -> bool {
        false
    }

    /// Other names that it is understood under, where no other tool has them.
    fn also(&self) -> &'static [&'static str] {
        &[]
    }

    /// Arguments as other families spell them, in its own names; they are checked afterwards.
    ///
    /// # Errors
    /// For the model: what it asks for, and how to ask for it here.
    fn spelled(&self, args: Value) -> Result<Value, ToolError> {
        Ok(args)
    }

    /// Does the work. The arguments have been checked against the schema.
    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError>;
}
