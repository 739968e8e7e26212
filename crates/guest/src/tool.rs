//! What tools are and what they answer, for those who run them and those who ask.

use serde::{Deserialize, Serialize};

/// Whether a call may change the workspace. Reads of one turn run together, writes run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    Reads,
    Writes,
}

/// What a tool can do to the world. A profile that has a power understands every name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// Run commands.
    Run,
    /// Change files.
    Edit,
    /// Read, list and search files.
    Read,
    /// Look at pictures.
    See,
    /// Keep the plan.
    Plan,
}

/// What a tool answers, before truncation for the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// Text for the model.
    pub text: String,
    /// False when the tool did its work and the work failed (a command's exit code is not zero).
    pub success: bool,
    /// The file in the sandbox that has `text` from its beginning, and how many bytes of it, where a model is shown less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<(String, u64)>,
    /// Set for tools that run a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandOutput>,
    /// Set for tools that run several commands in one call, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandOutput>,
    /// Set for tools that return a picture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Set for tools that show several things in one output, in order, behind `text`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Paths that the tool changed, relative to the workspace, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// What the call is about is still at work; of commands, their session says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unfinished: bool,
}

impl ToolOutput {
    pub fn text(text: impl Into<String>) -> ToolOutput {
        ToolOutput { text: text.into(), success: true, ..ToolOutput::default() }
    }

    /// What the call is about is still at work.
    pub fn goes_on(&self) -> bool {
        self.is_unfinished || self.command.as_ref().is_some_and(|it| it.session.is_some())
    }

    /// It says how one or several commands went.
    pub fn is_of_command(&self) -> bool {
        self.command.is_some() || !self.commands.is_empty()
    }
}

/// One of several things that a tool shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Text(String),
    Image(Image),
}

/// A picture returned by a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Image {
    pub media_type: String,
    /// Base64 without line breaks.
    pub data: String,
}

/// How a command ended. Every profile formats this in its family's own way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandOutput {
    /// The exit code; 128 + signal when a signal ended it; 124 on a timeout.
    pub exit_code: i32,
    pub timed_out: bool,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
    /// Standard output and error as they came, interleaved; lossy UTF-8; the middle is left out when
    /// it exceeds the cap that the caller gave.
    pub output: String,
    /// Bytes that the command wrote in all.
    pub total_bytes: u64,
    /// Lines that the command wrote in all.
    pub total_lines: u64,
    /// Bytes left out of `output`.
    pub omitted_bytes: u64,
    /// The session in which the command still runs; `exit_code` says nothing then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u32>,
    /// The file in the sandbox that has the output from its beginning, and how many bytes of it, where
    /// `output` is not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<(String, u64)>,
    /// Standard error, where it was kept apart; `output` and its counts are standard output alone then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Errors>,
    /// Processes were ended while it ran, because memory ran out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<OutOfMemory>,
}

impl CommandOutput {
    /// That processes were ended because memory ran out, in words that go on after a colon.
    pub fn memory_words(&self) -> Option<String> {
        self.out_of_memory.map(|ran_out| ran_out.words(self.exit_code))
    }
}

/// Memory ran out, so that the kernel ended processes of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OutOfMemory {
    /// How many.
    pub killed: u64,
    /// What all processes may have together; absent where only the machine bounds it.
    pub limit_mib: Option<u64>,
}

impl OutOfMemory {
    /// How it went for a command that ended with this exit code.
    pub fn words(self, exit_code: i32) -> String {
        let who = match self.killed {
            _ if exit_code == KILLED => "killed".to_owned(),
            1 => "1 process was killed".to_owned(),
            many => format!("{many} processes were killed"),
        };
        let limit = self.limit_mib.map(|mib| format!(" ({mib} MiB)"));
        let limit = limit.unwrap_or_default();
        format!("{who}, because the memory of the sandbox{limit} ran out")
    }
}

/// The exit code of a command that signal 9 ended.
pub const KILLED: i32 = 128 + 9;

/// What a command wrote to standard error, like the fields of [`CommandOutput`] about its output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    pub output: String,
    pub total_bytes: u64,
    pub total_lines: u64,
    pub omitted_bytes: u64,
}

/// Why a tool gives no output. `Tell` is an answer for the model, `Broken` ends the run.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", content = "message", rename_all = "snake_case")]
pub enum ToolError {
    /// Says what to change so that the next call works.
    #[error("{0}")]
    Tell(String),
    /// The sandbox or the tool system itself is broken.
    #[error("{0}")]
    Broken(String),
}

impl ToolError {
    pub fn tell(message: impl Into<String>) -> ToolError {
        ToolError::Tell(message.into())
    }
}
