//! Several attempts at the same work: what each came to, and which one was kept and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Conclusion;

/// The attempts of a run, side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempts {
    /// In the order of their numbers.
    pub all: Vec<AttemptReport>,
    /// The number of the one that was kept; 0 before one is chosen.
    pub chosen: u32,
    /// Why, in a sentence.
    pub why: String,
    /// What a model said that was asked to compare them, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeReport>,
}

impl Attempts {
    /// The run had one attempt, as runs usually have.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// One attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptReport {
    /// From 1.
    pub attempt: u32,
    /// As the operator named it.
    pub model: String,
    pub end: AttemptEnd,
    /// How it would have ended as a run of its own; absent where it did not come to an outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<Conclusion>,
    /// Why it is not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `passed`, `failed` or `none`.
    #[serde(default)]
    pub checks: String,
    /// Tests, or checks without tests, that failed before and fail no longer, that fail now and did not, and that
    /// fail in all.
    #[serde(default)]
    pub fixed: usize,
    #[serde(default)]
    pub broke: usize,
    #[serde(default)]
    pub failing: usize,
    pub files: usize,
    pub added: u64,
    pub removed: u64,
    pub turns: u32,
    pub tokens: u64,
    #[serde(serialize_with = "crate::dollars::rounded")]
    pub cost_usd: f64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub price_is_unknown: bool,
    pub wall_seconds: f64,
}

/// How far an attempt came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// It came to an outcome of its own.
    Ended,
    /// It was stopped, because another one was done.
    StoppedEarly,
    /// It never began: another one was done, or a limit of the run was reached.
    #[default]
    NotStarted,
    /// It could not be carried out.
    Failed,
}

impl AttemptEnd {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            AttemptEnd::Ended => "ended",
            AttemptEnd::StoppedEarly => "stopped early",
            AttemptEnd::NotStarted => "not started",
            AttemptEnd::Failed => "failed",
        }
    }
}

/// A model that was asked which of several equal attempts is the best.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeReport {
    pub model: String,
    /// What it was asked to compare.
    pub compared: Vec<u32>,
    /// In its own words, cleaned; or why its answer could not be used.
    pub said: String,
    /// Its answer decided.
    pub decided: bool,
    #[serde(serialize_with = "crate::dollars::rounded")]
    pub cost_usd: f64,
}
