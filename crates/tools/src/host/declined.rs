//! What is asked for and never there: an approval and an answer, because nobody is asked, and a screen,
//! because there is none. The answer is recorded like any other.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::{HostCall, Tool};
use crate::schema;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};

/// Answers the approval request of a remote MCP server: always no.
pub struct McpApprovalRequest;

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct ApprovalArgs {
    /// The server that wants to run it.
    server_label: Option<String>,
    /// The tool of that server.
    name: Option<String>,
    /// Its arguments as JSON text.
    arguments: Option<String>,
}

#[async_trait]
impl Tool for McpApprovalRequest {
    fn name(&self) -> &'static str {
        "mcp_approval_request"
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn schema(&self) -> Value {
        schema::of::<ApprovalArgs>()
    }

    async fn call(&self, _: &HostCall<'_>, _: Value) -> Result<ToolOutput, ToolError> {
        Err(ToolError::tell(
            "denied: nobody is there to approve calls in this run. Go on without this tool, or use \
             one that needs no approval",
        ))
    }
}

/// Answers a question to the user, as models of several families ask it.
pub struct AskUser;

#[async_trait]
impl Tool for AskUser {
    fn name(&self) -> &'static str {
        "ask_user"
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    /// Every family words its questions in another way.
    fn schema(&self) -> Value {
        json!({"type": "object", "properties": {}, "additionalProperties": {}})
    }

    async fn call(&self, _: &HostCall<'_>, _: Value) -> Result<ToolOutput, ToolError> {
        Err(ToolError::tell(
            "not asked: nobody is there to answer in this run. Decide by yourself what fits the task and \
             the project best, go on, and name the question and what you assumed in the final message",
        ))
    }
}

/// Answers an action of the computer tool.
pub struct Computer;

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct ComputerArgs {
    /// One action.
    action: Option<Value>,
    /// Several actions.
    actions: Option<Value>,
}

#[async_trait]
impl Tool for Computer {
    fn name(&self) -> &'static str {
        "computer"
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn schema(&self) -> Value {
        schema::of::<ComputerArgs>()
    }

    async fn call(&self, _: &HostCall<'_>, _: Value) -> Result<ToolOutput, ToolError> {
        Err(ToolError::tell(
            "not done: this run has no screen, and the picture is blank. Use the other tools",
        ))
    }
}
