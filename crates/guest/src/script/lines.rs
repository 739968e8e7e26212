//! What host and script say to each other: one JSON object a line.
//!
//! The host trusts none of it: it bounds lines, calls and texts once more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Longest line that either side takes, in bytes.
pub const MAX_LINE: usize = 16 << 20;

/// Largest arguments of one call, and largest stored value, in bytes of JSON.
pub const MAX_VALUE: usize = 1 << 20;

/// Host → script.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToScript {
    /// First, once.
    Start(Start),
    /// A call has ended.
    Result { id: u64, value: Box<RawValue> },
    /// A call could not be made, or its tool failed.
    Failed { id: u64, message: String },
}

/// A script and what it gets.
#[derive(Debug, Serialize, Deserialize)]
pub struct Start {
    pub source: String,
    pub tools: Vec<Callable>,
    /// What earlier scripts stored, as JSON texts.
    pub stored: BTreeMap<String, String>,
    pub limits: Limits,
}

/// A tool as a script sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Callable {
    pub name: String,
    pub description: String,
}

/// Bounds of one script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of all its values.
    pub memory: usize,
    /// Milliseconds of computing, waiting not counted.
    pub busy_ms: u64,
    /// Calls of tools.
    pub calls: usize,
    /// Bytes of text that it shows.
    pub text: usize,
    /// Pictures that it shows.
    pub images: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { memory: 128 << 20, busy_ms: 30_000, calls: 1000, text: 2 << 20, images: 16 }
    }
}

/// Script → host.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromScript {
    /// Asks for a tool.
    Call { id: u64, name: String, args: serde_json::Value },
    /// Shows a text to the model.
    Text(String),
    /// Shows a picture, given as a data URL.
    Image(String),
    /// Keeps a JSON text for later scripts.
    Store { key: String, value: String },
    /// Wants the model to see what there is so far.
    Yield,
    /// Last: the error that ended it, if one did.
    Done { error: Option<String> },
}
