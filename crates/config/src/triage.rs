//! How new issues are triaged: what becomes of the section `triage` of a configuration file.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How new issues are triaged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Triage {
    /// An issue that is opened or edited sets it off. Whoever names an issue on the command line needs no leave.
    pub enabled: bool,
    /// The labels that may be put on; when empty, all of the repository but those that set something off.
    pub labels: Vec<String>,
    /// Labels that are never put on.
    pub skip_labels: Vec<String>,
    /// Say what was found in the one comment.
    pub comment: bool,
    /// Times that one issue is triaged, edits included.
    pub max_runs: u32,
    pub max_turns: u32,
    pub max_tokens: u64,
    pub max_cost_usd: f64,
    pub timeout: Duration,
}

impl Default for Triage {
    fn default() -> Triage {
        Triage {
            enabled: false,
            labels: Vec::new(),
            skip_labels: Vec::new(),
            comment: true,
            max_runs: 5,
            max_turns: 20,
            max_tokens: 400_000,
            max_cost_usd: 0.5,
            timeout: Duration::from_mins(10),
        }
    }
}
