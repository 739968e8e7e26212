//! What a campaign keeps of a run beside its result: how its checks went, whether setup did, and how long it took.

use serde::{Deserialize, Serialize};

use crate::campaign::Millis;
use crate::evidence::Verdict;

/// What is known of a target's last run. Nothing of one that has not ended, or that an earlier version has run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFacts {
    /// What the checks said about its change; nothing without a change.
    pub checks: Option<ChecksVerdict>,
    /// A command of setup failed or did not run.
    pub setup_failed: Option<bool>,
    /// How long it took, with what it had taken before it was interrupted and resumed.
    pub run_ms: Option<Millis>,
}

/// [`Verdict`] without the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChecksVerdict {
    Passed,
    Failed,
    /// None ran on the change.
    None,
}

impl ChecksVerdict {
    /// As it is stored and printed.
    pub fn word(self) -> &'static str {
        match self {
            ChecksVerdict::Passed => "passed",
            ChecksVerdict::Failed => "failed",
            ChecksVerdict::None => "none",
        }
    }

    /// The value of a word.
    pub fn parse(word: &str) -> Option<ChecksVerdict> {
        let all = [ChecksVerdict::Passed, ChecksVerdict::Failed, ChecksVerdict::None];
        all.into_iter().find(|verdict| verdict.word() == word)
    }
}

impl From<Verdict> for ChecksVerdict {
    fn from(verdict: Verdict) -> ChecksVerdict {
        match verdict {
            Verdict::Passed(_) => ChecksVerdict::Passed,
            Verdict::Failed(_) => ChecksVerdict::Failed,
            Verdict::None => ChecksVerdict::None,
        }
    }
}
