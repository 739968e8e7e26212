//! How the dependencies of a run were installed: what ran, what failed, and what would help.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use patchwright_base::text;
use patchwright_sandbox::services::ServiceState;
use patchwright_sandbox::setup::SetupRun;

/// Bytes of a reason within a sentence.
const MAX_WHY: usize = 200;

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

    /// There were commands, and none of them succeeded.
    pub fn is_in_vain(&self) -> bool {
        !self.steps.is_empty() && self.failed().count() == self.steps.len()
    }

    /// Which command failed, and why, in a few words: one that got no answer first.
    pub fn why_failed(&self) -> Option<String> {
        let unanswered = |step: &&SetupStep| !step.run.unreached.is_empty();
        let step = self.failed().find(unanswered).or_else(|| self.failed().next())?;
        let why = match (step.run.unreached.first(), step.run.refused.first()) {
            (Some(why), _) => why.clone(),
            // Reports that everybody reads have it, so without the address behind `=`, which is of the operator's network.
            (None, Some(host)) => {
                let name = host.split('=').next().unwrap_or_default();
                format!("it may not reach {}", text::code(name))
            }
            (None, None) => step.run.verdict(),
        };
        let name = text::code(&text::one_line(&step.name));
        Some(format!("{name}: {}", text::cut(&text::line(&why), MAX_WHY)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_named_with_what_it_could_not_reach() {
        let step = |name: &str, exit_code| SetupStep {
            name: name.to_owned(),
            run: SetupRun { exit_code: Some(exit_code), ..SetupRun::default() },
            ..SetupStep::default()
        };
        let mut unanswered = step("go mod download (go.mod)", 1);
        unanswered.run.unreached = vec!["`proxy.golang.org` cannot be found: no name".to_owned()];
        let report = |steps| SetupReport { steps, ..SetupReport::default() };
        let why = |steps| report(steps).why_failed();
        assert_eq!(why(vec![step("npm ci", 0)]), None);
        let failed = "`npm ci`: failed with exit code 1";
        assert_eq!(why(vec![step("npm ci", 1)]).as_deref(), Some(failed));
        let expected = "`go mod download (go.mod)`: `proxy.golang.org` cannot be found: no name";
        let mut refused = step("npm ci", 1);
        refused.run.refused = vec!["registry.npmjs.org=10.0.0.7".to_owned()];
        let expected_of_refused = "`npm ci`: it may not reach `registry.npmjs.org`";
        assert_eq!(why(vec![refused]).as_deref(), Some(expected_of_refused));
        let both = report(vec![step("npm ci", 1), unanswered]);
        assert_eq!(both.why_failed().as_deref(), Some(expected));
        assert!(both.is_in_vain());
        assert!(!report(vec![step("npm ci", 0), step("make", 1)]).is_in_vain());
        assert!(!report(Vec::new()).is_in_vain());
    }
}
