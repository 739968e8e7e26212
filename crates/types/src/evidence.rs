//! What the repository's checks said, before and after: exit codes that the harness recorded.

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

    /// It could not be run at all, so it says nothing about the code.
    pub fn not_run(command: impl Into<String>, note: impl Into<String>) -> CheckRun {
        CheckRun {
            command: command.into(),
            exit_code: None,
            timed_out: false,
            duration_ms: 0,
            tail: String::new(),
            note: Some(note.into()),
        }
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

    /// What the checks say about the change, in one word.
    pub fn verdict(&self) -> Verdict {
        let failed = self.failed().len();
        match self.rows.iter().filter(|row| row.head.is_some()).count() {
            0 => Verdict::None,
            _ if failed > 0 => Verdict::Failed(failed),
            count => Verdict::Passed(count),
        }
    }

    /// The checks that ran on head and did not pass.
    pub fn failed(&self) -> Vec<&EvidenceRow> {
        let failed = |row: &&EvidenceRow| row.head.as_ref().is_some_and(|run| !run.passed());
        self.rows.iter().filter(failed).collect()
    }

    /// A check that ran on head failed.
    pub fn any_failed(&self) -> bool {
        self.rows.iter().any(|row| row.head.as_ref().is_some_and(|run| !run.passed()))
    }
}

/// What the checks say about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of so many passed.
    Passed(usize),
    /// So many did not.
    Failed(usize),
    /// None ran on the change.
    None,
}

impl Verdict {
    /// The word for outputs.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Passed(_) => "passed",
            Verdict::Failed(_) => "failed",
            Verdict::None => "none",
        }
    }
}

/// The checks that fail on head and did not fail before: what the change broke, as far as we know.
pub fn newly_failing(evidence: &Evidence) -> Vec<&EvidenceRow> {
    let failed = |run: &CheckRun| run.exit_code.is_some() && !run.passed();
    let broke = |row: &&EvidenceRow| {
        row.head.as_ref().is_some_and(failed) && !row.base.as_ref().is_some_and(failed)
    };
    evidence.rows.iter().filter(broke).collect()
}
