//! What came of looking at a new issue, as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::{Conclusion, Spending};

/// A triage that came to an end.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Triaged {
    pub run: String,
    /// `owner/name`.
    pub repository: String,
    pub number: u64,
    pub conclusion: Conclusion,
    /// Why, in a sentence, when the conclusion is not `done`.
    pub reason: Option<String>,
    /// One sentence on what the issue is about, in the model's words.
    pub summary: String,
    /// Labels that fit, with what became of each.
    pub labels: Vec<ProposedLabel>,
    /// Issues that may be about the same, of those that the search had found.
    pub duplicates: Vec<Duplicate>,
    /// What is missing, as questions to the author, in the model's words.
    pub questions: Vec<String>,
    /// How many issues the search had found.
    pub candidates: usize,
    /// What the model named and may not name, in sentences.
    pub dropped: Vec<String>,
    pub spending: Spending,
}

/// A label that fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProposedLabel {
    /// As the repository spells it.
    pub name: String,
    /// In the model's words.
    pub reason: String,
    pub state: LabelState,
}

/// What became of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabelState {
    /// Proposed; nothing was written.
    Proposed,
    Added,
    /// It was there already.
    There,
    /// An earlier triage had added it, and somebody took it off since: it stays off.
    TakenOff,
}

/// An issue that may be about the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Duplicate {
    pub number: u64,
    /// As it is on the forge.
    pub title: String,
    pub open: bool,
    /// In the model's words.
    pub reason: String,
}
