//! The messages of the Agent Client Protocol that we take and send, by the schema of its version 1.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use patchwright_config::Mode;

/// The version of the protocol.
pub(super) const VERSION: u16 = 1;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialize {
    /// The newest one that the client knows; we answer with ours, whatever it is.
    #[serde(rename = "protocolVersion")]
    pub _protocol_version: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialized {
    pub protocol_version: u16,
    pub agent_capabilities: AgentCapabilities,
    pub agent_info: AgentInfo,
    /// None: keys are the operator's, in our environment.
    pub auth_methods: [(); 0],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentCapabilities {
    pub load_session: bool,
    pub prompt_capabilities: PromptCapabilities,
    pub session_capabilities: SessionCapabilities,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptCapabilities {
    pub embedded_context: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct SessionCapabilities {
    pub close: Empty,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Empty {}

#[derive(Debug, Serialize)]
pub(super) struct AgentInfo {
    pub name: &'static str,
    pub title: &'static str,
    pub version: &'static str,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSession {
    pub cwd: PathBuf,
    #[serde(default)]
    pub mcp_servers: Vec<Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionCreated {
    pub session_id: String,
    pub modes: Modes,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Modes {
    pub current_mode_id: ModeId,
    pub available_modes: Vec<SessionMode>,
}

#[derive(Debug, Serialize)]
pub(super) struct SessionMode {
    pub id: ModeId,
    pub name: &'static str,
    pub description: &'static str,
}

/// What a client may choose of the modes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ModeId {
    Execute,
    Plan,
}

impl From<ModeId> for Mode {
    fn from(id: ModeId) -> Mode {
        match id {
            ModeId::Execute => Mode::Execute,
            ModeId::Plan => Mode::Plan,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetMode {
    pub session_id: String,
    pub mode_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prompt {
    pub session_id: String,
    pub prompt: Vec<Value>,
}

/// The parameters of `session/cancel` and `session/close`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionParams {
    pub session_id: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptEnded {
    pub stop_reason: StopReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StopReason {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionUpdate<'a> {
    pub session_id: &'a str,
    pub update: Update,
}

/// What a client is told while a prompt is worked on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum Update {
    AgentMessageChunk {
        message_id: String,
        content: Text,
    },
    AgentThoughtChunk {
        message_id: String,
        content: Text,
    },
    ToolCall(ToolCall),
    #[serde(rename = "tool_call_update")]
    ToolCallChanged {
        tool_call_id: String,
        status: Status,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Shown>,
    },
    Plan {
        entries: Vec<PlanEntry>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall {
    #[serde(rename = "toolCallId")]
    pub id: String,
    pub title: String,
    pub kind: Kind,
    pub status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Shown>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Read,
    Edit,
    Search,
    Execute,
    Think,
    Fetch,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    InProgress,
    Completed,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Location {
    pub path: PathBuf,
}

/// A content block of the only kind that we send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "text")]
pub(super) struct Text {
    pub text: String,
}

/// What a call has come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum Shown {
    Content {
        content: Text,
    },
    Diff {
        path: PathBuf,
        #[serde(skip_serializing_if = "Option::is_none")]
        old_text: Option<String>,
        new_text: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct PlanEntry {
    pub content: String,
    pub priority: Priority,
    pub status: patchwright_types::plan::StepStatus,
}

/// Plans of ours have none, and the protocol wants one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Priority {
    Medium,
}
