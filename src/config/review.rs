//! How pull requests are reviewed, and how far conversations go: the `review` and `respond` sections of
//! a configuration file, and what becomes of them.

use serde::{Deserialize, Serialize};

use crate::forge::ReviewEvent;
use crate::review::finding::Priority;

/// The section `review`. Every key is optional.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ReviewFile {
    /// Globs of files to review; all when empty.
    pub paths: Option<Vec<String>>,
    /// Globs of files that are not reviewed.
    pub ignore_paths: Option<Vec<String>>,
    /// What to look at in certain files.
    pub instructions: Option<Vec<PathInstructions>>,
    /// The least important findings that are reported, 0 to 3.
    pub minimum_priority: Option<Priority>,
    /// The least sure findings that are reported, 0 to 1.
    pub minimum_confidence: Option<f64>,
    /// Inline comments of one review, at most 30.
    pub max_comments: Option<usize>,
    /// The language of findings and summary: `German`.
    pub language: Option<String>,
    /// Review drafts too.
    pub drafts: Option<bool>,
    /// Review only pull requests with one of these labels.
    pub labels: Option<Vec<String>>,
    /// Never review pull requests with one of these labels.
    pub skip_labels: Option<Vec<String>>,
    /// Never review pull requests of these accounts.
    pub skip_authors: Option<Vec<String>>,
    /// What the review says as a whole when there are findings that fail the check.
    pub event: Option<ReviewEvent>,
    /// Findings at least this important make the check fail; `never`.
    pub fail_on: Option<FailOn>,
    /// Offer replacements as suggestions.
    pub suggestions: Option<bool>,
    /// Resolve our own threads when what they were about is gone.
    pub resolve_threads: Option<bool>,
}

/// Instructions for some files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PathInstructions {
    pub paths: Vec<String>,
    pub text: String,
}

/// From which priority on a finding makes the check fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FailOn {
    At(Priority),
    Never(Never),
}

/// The word `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Never {
    Never,
}

/// How pull requests are reviewed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Review {
    pub paths: Vec<String>,
    pub ignore_paths: Vec<String>,
    pub instructions: Vec<PathInstructions>,
    pub minimum_priority: Priority,
    pub minimum_confidence: f64,
    pub max_comments: usize,
    pub language: Option<String>,
    pub drafts: bool,
    pub labels: Vec<String>,
    pub skip_labels: Vec<String>,
    pub skip_authors: Vec<String>,
    pub event: ReviewEvent,
    /// `None`: findings never make the check fail.
    pub fail_on: Option<Priority>,
    pub suggestions: bool,
    pub resolve_threads: bool,
}

impl Default for Review {
    fn default() -> Review {
        Review {
            paths: Vec::new(),
            ignore_paths: Vec::new(),
            instructions: Vec::new(),
            minimum_priority: Priority::P3,
            minimum_confidence: 0.0,
            max_comments: 30,
            language: None,
            drafts: false,
            labels: Vec::new(),
            skip_labels: Vec::new(),
            skip_authors: Vec::new(),
            event: ReviewEvent::Comment,
            fail_on: None,
            suggestions: true,
            resolve_threads: true,
        }
    }
}

/// The section `respond`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RespondFile {
    /// Operator only: the name after `@`.
    pub mention: Option<String>,
    /// Answers of ours in one thread.
    pub max_rounds: Option<u32>,
    /// Attempts to repair the checks of one pull request.
    pub max_ci_rounds: Option<u32>,
}

/// How far conversations go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Respond {
    /// The name after `@`.
    pub mention: String,
    /// Answers of ours in one thread.
    pub max_rounds: u32,
    /// Attempts to repair the checks of one pull request.
    pub max_ci_rounds: u32,
}

impl Default for Respond {
    fn default() -> Respond {
        Respond { mention: "patchwright".to_owned(), max_rounds: 10, max_ci_rounds: 3 }
    }
}
