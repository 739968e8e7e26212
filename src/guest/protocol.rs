//! Frames between host and guest, version [`VERSION`].
//!
//! A frame is a 4-byte big-endian length of what follows, one byte of [`FrameKind`], a 4-byte
//! big-endian call id, and the body. `Request`, `Response` and `Hello` bodies are JSON; `Data` bodies
//! are raw bytes of the stream that belongs to the call (a tar going in or coming out); an empty
//! `Data` frame ends the stream. `Cancel` has no body.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tools::{CommandOutput, ToolError, ToolOutput};

/// Raised whenever a frame changes meaning. Host and guest are built from one source, so a mismatch
/// means a stale guest, which is refused.
pub const VERSION: u32 = 1;

/// Largest frame either side accepts, in bytes.
pub const MAX_FRAME: usize = 16 << 20;

/// Bytes of a `Data` frame that a sender puts in at most.
pub const DATA_CHUNK: usize = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Guest → host, once, first: [`Hello`].
    Hello = 1,
    /// Host → guest: [`Request`].
    Request = 2,
    /// Guest → host: `Result<Response, ToolError>`.
    Response = 3,
    /// Either direction: bytes of a stream.
    Data = 4,
    /// Host → guest: stop this call and kill what it started.
    Cancel = 5,
}

/// The guest's first words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
    pub pid: u32,
    /// The default shell for `shell_command`: bash when the image has it, else sh.
    pub shell: String,
    /// What confinement is in force (`landlock: abi 5`, `seccomp`, `network: none`); for `doctor` and the report.
    pub confinement: Vec<String>,
}

/// What the host asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Answers at once.
    Ping,
    /// Runs a guest tool.
    Tool { name: String, args: Value, output_cap: usize },
    /// Runs a command of ours (setup, verification), not through a tool.
    Exec(Exec),
    /// Receives a tar of the tree as `Data` frames and unpacks it into the workspace. What is
    /// unpacked becomes the base that `Collect` compares with.
    Upload,
    /// Sends what changed since the base as a tar in `Data` frames; answers with [`Collected`].
    Collect,
    /// Removes the uploaded tree's files that have not changed since, so that only what setup
    /// made is left, and gives the workspace to this user and group.
    RemoveBase { chown: Option<(u32, u32)> },
}

/// A command of the harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exec {
    pub argv: Vec<String>,
    /// Relative to the workspace; the workspace itself when absent.
    pub cwd: Option<PathBuf>,
    pub env: BTreeMap<String, String>,
    pub timeout_ms: u64,
    /// Bytes of output to keep, head and tail together.
    pub output_cap: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Response {
    Pong,
    Tool(ToolOutput),
    Exec(CommandOutput),
    Uploaded { files: u64, bytes: u64 },
    Collected(Collected),
    Removed,
}

/// What `Collect` says besides the tar. Paths are as in git: relative, `/` between segments; bytes
/// that are not UTF-8 are escaped as `\xNN` (such files are refused, never sent).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Collected {
    /// Base files that are gone.
    pub deleted: Vec<String>,
    /// Files that cannot be part of a change: path and reason.
    pub refused: Vec<(String, String)>,
}

/// The body of a `Response` frame.
pub type Answer = Result<Response, ToolError>;
