//! What people should know of the pull request of a run, beside what is in it: what it took the place of, what is open for the
//! same work, and what was said meanwhile.

use serde::{Deserialize, Serialize};

/// Found out while a change is published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PublishNotes {
    /// What the pull request had before, where the run has put its change in the place of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<ReplacedHead>,
    /// Open pull requests for the same work that were left as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<PullBeside>,
    /// What was said after the work was asked for, and is therefore not in the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unheard: Vec<Unheard>,
}

impl PublishNotes {
    pub fn is_empty(&self) -> bool {
        *self == PublishNotes::default()
    }
}

/// A head that another one has taken the place of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReplacedHead {
    pub from: String,
    pub to: String,
    /// What the model was told of that which people said there.
    pub told: SaidThere,
    #[serde(default)]
    pub how: Replacement,
}

/// How a head came to take the place of another one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// The change was made anew, and the model was told what was there.
    #[default]
    Anew,
    /// The run that had made what was there was resumed.
    Resumed,
    /// Another run has made what was there, after this one had begun: the model was not told.
    Unaware,
}

/// How much was said on a pull request.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct SaidThere {
    /// Threads on its difference that are not resolved.
    pub threads: usize,
    /// Reviews that say something beside their threads, and still count.
    pub reviews: usize,
    /// Comments in its conversation.
    pub comments: usize,
}

impl SaidThere {
    pub fn is_empty(self) -> bool {
        self == SaidThere::default()
    }
}

/// An open pull request for the same work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PullBeside {
    pub number: u64,
    pub why: LeftAlone,
}

/// Why a pull request of ours is not brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeftAlone {
    /// It has commits that people made or asked for.
    CommitsOfPeople,
    /// A rule lets nobody rewrite its branch.
    Rule,
}

/// What the model of a run was not told, because it came too late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Unheard {
    /// The issue or pull request where it was said.
    pub number: u64,
    pub is_pull_request: bool,
    /// Its title or text is another one.
    pub edited: bool,
    /// Comments and reviews that are new, or have another text.
    pub comments: usize,
    /// The page of the newest of them.
    pub newest: Option<String>,
}
