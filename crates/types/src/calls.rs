//! Small facts about calls and conversations, as journals and reports have them.

use serde::{Deserialize, Serialize};

use patchwright_guest::tool::ToolOutput;

/// One tool in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ToolUse {
    /// As the model calls it.
    pub name: String,
    /// All calls, those that did not run too.
    pub calls: u64,
    /// Calls that ran and failed.
    pub failures: u64,
    /// Calls that did not run: they did not fit, or a hook denied them.
    pub refusals: u64,
    /// Milliseconds, of those that ran.
    pub total_ms: u64,
    pub median_ms: u64,
    pub max_ms: u64,
    /// Bytes that the model (or the call around it) was given.
    pub bytes: u64,
}

/// Several of one kind in a row end the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A name that is no name, or too large.
    Malformed,
    UnknownTool,
    NotJson,
    /// JSON, but not what the tool takes.
    Arguments,
    /// More calls in one reply than are run.
    TooMany,
    /// A path that is not in the workspace.
    Outside,
    /// An edit that is not written in the tool's format.
    Dialect,
}

/// What a nested call answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NestedAnswer {
    Output(Box<ToolOutput>),
    /// It could not be done; why.
    Error(String),
}

impl NestedAnswer {
    pub fn from_output(output: &Result<ToolOutput, String>) -> NestedAnswer {
        match output {
            Ok(output) => NestedAnswer::Output(Box::new(output.clone())),
            Err(message) => NestedAnswer::Error(message.clone()),
        }
    }

    /// As the one who called gets it.
    ///
    /// # Errors
    /// For that one: why it could not be done.
    pub fn result(&self) -> Result<ToolOutput, String> {
        match self {
            NestedAnswer::Output(output) => Ok(output.as_ref().clone()),
            NestedAnswer::Error(message) => Err(message.clone()),
        }
    }
}

/// Why a conversation is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionTrigger {
    /// It came near the model's limit.
    Threshold,
    /// The provider refused it as too long.
    Overflow,
}
