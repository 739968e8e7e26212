//! The model catalogue, `models.toml`: quirks of models are data there and nowhere else.

use serde::{Deserialize, Serialize};

use super::item::Wire;

/// A resolved catalogue entry: everything that the rest of the program may ask about a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// What is sent as `model`.
    pub slug: String,
    /// `openai`, `anthropic`, `google`, `chat` or `scripted`.
    pub provider: String,
    pub wire: Wire,
    /// Tool profile: `codex`, `claude`, `gemini`, `generic`, `text`, …
    pub profile: String,
    /// System prompt family (a file in `prompts/`).
    pub prompt: String,
    /// Tokens.
    pub context_window: u64,
    /// Tokens.
    pub max_output: u64,
    /// Dollars per million tokens; `None` when unknown.
    pub price: Option<Price>,
    /// Levels that may be asked for; empty for models without reasoning effort.
    pub efforts: Vec<String>,
    pub default_effort: Option<String>,
    /// `low`, `medium`, `high`; sent only when set.
    pub verbosity: Option<String>,
    pub parallel_calls: bool,
    /// Tokens of one tool output before truncation.
    pub output_tokens: u64,
    /// `reasoning.summary` on the Responses wire; sent only when set.
    pub reasoning_summary: Option<String>,
    /// The entry is a family default because the slug is unknown.
    pub assumed: bool,
}

/// Dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: Option<f64>,
}
