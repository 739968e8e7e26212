//! How a review ended, as plain data: what reports, outputs and check runs are made of.

use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::outcome::{Conclusion, Provenance, Spending};
use patchwright_forge::RepositoryId;
use patchwright_review::anchor::Anchored;

/// Everything that the reports of a review are made of. `C` is how it ended: as its work did, or, for programs, also with
/// what failed after that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Reviewed<C = Conclusion> {
    pub run: String,
    pub repository: RepositoryId,
    pub number: u64,
    /// The commit that was read.
    pub head: String,
    /// The commit that it was compared with: the merge base.
    pub base: String,
    /// The earlier reviewed commit, when only what came after it was read.
    pub since: Option<String>,
    pub conclusion: C,
    /// Why, in a sentence, when the conclusion is not `Done`.
    pub reason: Option<String>,
    /// What the model says about the change as a whole. Reported as the model's words.
    pub summary: String,
    /// All findings at or above the thresholds, the most important first.
    pub findings: Vec<Anchored>,
    /// Findings below the thresholds.
    pub below: usize,
    /// Findings, the least important, beyond those that one review may have.
    #[serde(default)]
    pub dropped: usize,
    /// Findings that the model took back.
    #[serde(default)]
    pub withdrawn: usize,
    pub coverage: Coverage,
    /// The next review can go on from this one: what `coverage` says was read need not be read again.
    #[serde(default)]
    pub is_partly_done: bool,
    pub evidence: Evidence,
    pub spending: Spending,
    pub provenance: Provenance,
    /// For the report: what was left out of or removed from the input.
    pub notes: Vec<String>,
}

impl Reviewed {
    /// The same with another end.
    #[must_use]
    pub fn ended<C>(self, conclusion: C, reason: Option<String>) -> Reviewed<C> {
        Reviewed {
            conclusion,
            reason,
            run: self.run,
            repository: self.repository,
            number: self.number,
            head: self.head,
            base: self.base,
            since: self.since,
            summary: self.summary,
            findings: self.findings,
            below: self.below,
            dropped: self.dropped,
            withdrawn: self.withdrawn,
            coverage: self.coverage,
            is_partly_done: self.is_partly_done,
            evidence: self.evidence,
            spending: self.spending,
            provenance: self.provenance,
            notes: self.notes,
        }
    }
}

/// What was read of what had changed. A file was read when its difference was shown to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Coverage {
    pub files: usize,
    /// Added and deleted lines.
    pub lines: u64,
    pub read_files: usize,
    pub read_lines: u64,
    pub skipped: Vec<Skipped>,
}

/// A changed file that was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Skipped {
    pub path: String,
    pub lines: u64,
    pub why: SkippedBecause,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SkippedBecause {
    /// `review.paths` or `review.ignore-paths`; asked for, so the review is complete without it.
    Filtered,
    /// Binary: there is no text to read.
    NotText,
    /// A submodule: what it stands for now is code of another repository, which this review does not read.
    Submodule,
    /// Reviewed at an earlier commit and unchanged since.
    Earlier,
    /// A lock file that the model was told by its packages, and whose lines it did not read.
    ByPackage,
    /// A lock file whose packages cannot be told apart: the model was told that it changes, and did not read its lines.
    LockFile,
    /// Text, or what may be text, of which there is too much to be shown.
    TooLarge,
    /// The model did not look at it, or the budget did not allow it.
    NotRead,
}

impl SkippedBecause {
    /// It should have been read, so the review is not complete.
    pub fn is_shortfall(self) -> bool {
        match self {
            SkippedBecause::TooLarge | SkippedBecause::NotRead => true,
            SkippedBecause::Filtered
            | SkippedBecause::NotText
            | SkippedBecause::Submodule
            | SkippedBecause::Earlier
            | SkippedBecause::ByPackage
            | SkippedBecause::LockFile => false,
        }
    }
}

impl Coverage {
    /// Everything that was to be read has been read.
    pub fn is_complete(&self) -> bool {
        !self.skipped.iter().any(|file| file.why.is_shortfall())
    }
}
