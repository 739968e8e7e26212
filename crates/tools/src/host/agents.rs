//! `spawn_agent`, `send_input`, `resume_agent`, `wait`, `close_agent`: other agents, which work beside the one that
//! calls. What they do is the run's business ([`super::Agents`]); here is how the calls look. They never hold
//! the gate, for the agents' own calls pass it.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde_json::Value;

use super::{HostCall, Tool};
use crate::schema;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};

/// One of the calls.
pub struct AgentTool {
    name: &'static str,
    schema: fn() -> Value,
}

pub static SPAWN_AGENT: AgentTool =
    AgentTool { name: "spawn_agent", schema: schema::of::<SpawnArgs> };
pub static SEND_INPUT: AgentTool = AgentTool { name: "send_input", schema: schema::of::<SendArgs> };
pub static RESUME_AGENT: AgentTool =
    AgentTool { name: "resume_agent", schema: schema::of::<WhichArgs> };
pub static WAIT: AgentTool = AgentTool { name: "wait", schema: schema::of::<WaitArgs> };
pub static CLOSE_AGENT: AgentTool =
    AgentTool { name: "close_agent", schema: schema::of::<WhichArgs> };
/// Starts an agent and waits for it, in one call: what some models know instead of the others.
pub static TASK: AgentTool = AgentTool { name: "task", schema: schema::of::<SpawnArgs> };

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct SpawnArgs {
    /// What the agent is to do, complete in itself: it does not know this conversation.
    message: String,
    /// One of the types above; the first one when absent.
    agent_type: Option<String>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct SendArgs {
    /// Id of the agent.
    id: String,
    /// What it is told.
    message: String,
    /// It gives up what it is doing now. Otherwise it reads the message after its current step.
    interrupt: Option<bool>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct WhichArgs {
    /// Id of the agent.
    id: String,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct WaitArgs {
    /// Ids of the agents; all that are working when absent.
    ids: Option<Vec<String>>,
    /// At most so long: 30000 when absent, at least 10000, at most 3600000.
    timeout_ms: Option<f64>,
}

#[async_trait]
impl Tool for AgentTool {
    fn name(&self) -> &'static str {
        self.name
    }

    /// The agents' own calls write; this one does not.
    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn schema(&self) -> Value {
        (self.schema)()
    }

    fn takes_gate(&self) -> bool {
        false
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let agents = ctx.agents.ok_or_else(|| {
            ToolError::tell(
                "an agent that was started by another one starts none: do the work yourself",
            )
        })?;
        agents.call(self.name, ctx, args).await
    }
}
