//! How the dependencies of a run were installed: what ran, what failed, and what would help.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use patchwright_sandbox::services::ServiceState;
use patchwright_sandbox::setup::SetupRun;

/// What setup did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SetupReport {
    pub steps: Vec<SetupStep>,
    /// How the commands were found: the configuration, or the repository's files.
    pub source: String,
    /// It was done by an earlier run; times and outputs are from then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cached: bool,
    /// Versions that the repository asks for, by tool, with the file that says so.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// What was noticed while the commands were looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The servers beside the last sandbox of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceState>,
}

/// One command of setup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SetupStep {
    /// What it is called: the command itself, or `npm ci (package-lock.json)`.
    pub name: String,
    pub command: String,
    /// How it went.
    #[serde(flatten)]
    pub run: SetupRun,
    /// What would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl SetupReport {
    /// There was nothing to do, and there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
            && self.notes.is_empty()
            && self.versions.is_empty()
            && self.services.is_empty()
    }

    /// The commands that failed or did not run.
    pub fn failed(&self) -> impl Iterator<Item = &SetupStep> {
        self.steps.iter().filter(|step| step.run.has_failed())
    }
}
