//! The repository's own checks, before and after. The rows of the evidence table come from here:
//! exit codes that the harness recorded, never what a model says about them.

use serde::{Deserialize, Serialize};

/// One check run once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckRun {
    pub command: String,
    /// `None` when it could not be run; then `note` says why.
    pub exit_code: Option<i32>,
    pub timed_out: bool,
    pub duration_ms: u64,
    /// End of the output, for the model and the report.
    pub tail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl CheckRun {
    pub fn passed(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out
    }
}

/// One check on base and on head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvidenceRow {
    pub command: String,
    pub base: Option<CheckRun>,
    pub head: Option<CheckRun>,
}

/// All checks, before and after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub rows: Vec<EvidenceRow>,
    /// How the commands were found: `--verify`, the configuration, or the repository's kind.
    pub source: String,
}

impl Evidence {
    /// Every check that ran on head passed, and at least one ran.
    pub fn all_passed(&self) -> bool {
        !self.rows.is_empty()
            && self.rows.iter().all(|row| row.head.as_ref().is_some_and(CheckRun::passed))
    }

    /// A check that ran on head failed.
    pub fn any_failed(&self) -> bool {
        self.rows.iter().any(|row| row.head.as_ref().is_some_and(|run| !run.passed()))
    }
}
