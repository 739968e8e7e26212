//! What the repository's CI files say, as data: jobs and their steps, what a step is for, and why one
//! cannot be used here. Nothing of it is run by this crate, and nothing of it can ask for a secret.
//!
//! GitHub's workflows, `.gitlab-ci.yml` and `.travis.yml` are read, `copilot-setup-steps.yml` and
//! `devcontainer.json` as well, and the targets of task runners that are called `test` or `lint`.

mod actions;
mod behind;
mod builds;
mod classify;
mod container;
mod expressions;
mod facts;
mod functions;
mod gitlab;
mod gitlab_rules;
mod matrix;
mod needs;
mod other;
mod servers;
mod shell;
mod steps;
mod tasks;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::files::{Files, Tree, quote};
use crate::services::{MAX_SERVICES, Service};
use crate::setup::{Note, Source, Version};

pub(crate) use behind::{behind, is_about_tests, is_about_text, needs_more_by_script};
pub(crate) use builds::{Build, before, scripts};
pub(crate) use classify::{is_system_only, only_builds, purpose, system_packages};
pub(crate) use needs::{needs_more, what_more};
pub(crate) use other::TRAVIS;
pub use tasks::{Target, targets};

/// Most workflow files, jobs of one file and steps of one job that are read.
const MAX_FILES: usize = 40;
const MAX_JOBS: usize = 40;
const MAX_STEPS: usize = 60;

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepPurpose {
    Install,
    Build,
    Test,
    Lint,
    /// Nothing that is of use here: it reports, uploads, cleans up.
    Other,
}

/// One command of CI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CiStep {
    /// As it is written, with what `${{ matrix.… }}` and `${{ env.… }}` stand for.
    pub command: String,
    /// Where it runs; the root of the tree is empty.
    pub folder: String,
    /// Variables of workflow, job and step; none of them a secret.
    pub environment: BTreeMap<String, String>,
    /// What starts the shell that the forge gives it to, where that is not the same as `sh -c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    pub is_for: StepPurpose,
    /// What of it builds, joined with `&&` where it does more than that. Nothing that comes after a test in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builds: Option<String>,
    /// CI goes on when it fails (`continue-on-error`, `allow_failure`), so it decides about nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_fail: bool,
    /// Why it cannot be used here: `uses a secret`, `publishes`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    pub why: Source,
}

impl CiStep {
    /// The command with its variables set in front, for `sh -c`.
    pub fn with_environment(&self) -> String {
        match (&self.shell, self.command.trim_end()) {
            (Some(shell), command) => self.exports() + shell + " -c " + &quote(command),
            (None, command) => self.exports() + command,
        }
    }

    fn exports(&self) -> String {
        let one = |(name, value): (&String, &String)| format!("export {name}={}\n", quote(value));
        self.environment.iter().map(one).collect()
    }
}

/// One job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub file: String,
    pub name: String,
    pub steps: Vec<CiStep>,
    /// The services beside it, by name.
    pub services: BTreeMap<String, Service>,
    /// Why one of its services cannot be had here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks_service: Option<String>,
    /// The jobs of the same file whose files it takes over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes_from: Vec<String>,
    /// Names the matrix of which it is one entry, where the entries are parts of the tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
    /// From `copilot-setup-steps.yml`.
    pub is_for_agents: bool,
    /// From `devcontainer.json`.
    pub is_container: bool,
}

impl Job {
    /// Its test steps that can run here. None of a job that needs a service which cannot be had.
    pub fn tests(&self) -> impl Iterator<Item = &CiStep> {
        let has_all = self.lacks_service.is_none();
        self.steps.iter().filter(move |step| {
            let is_test = step.is_for == StepPurpose::Test && !step.may_fail;
            is_test && step.unusable.is_none() && has_all
        })
    }

    /// Takes a service that was read, or why it cannot be had.
    fn add_service(&mut self, name: &str, read: Result<(String, Service), String>) {
        match read {
            Ok((_, _)) if self.services.len() == MAX_SERVICES => {
                self.lacks_service = Some(format!("there are more than {MAX_SERVICES} services"));
            }
            Ok((name, service)) => {
                self.services.insert(name, service);
            }
            Err(why) => self.lacks_service = Some(format!("service {name}: {why}")),
        }
    }
}

/// All that the CI files say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CiPlan {
    pub jobs: Vec<Job>,
    /// What `setup-*` actions install.
    pub versions: BTreeMap<String, Version>,
    pub notes: Vec<Note>,
}

impl CiPlan {
    pub fn steps(&self) -> impl Iterator<Item = &CiStep> {
        self.jobs.iter().flat_map(|job| &job.steps)
    }

    fn note(&mut self, file: &str, text: impl Into<String>) {
        self.notes.push(Note { file: file.to_owned(), text: text.into() });
    }

    fn version(&mut self, tool: &str, value: String, file: &str, rule: &str) {
        let why = Source { file: file.to_owned(), line: None, rule: rule.to_owned() };
        self.versions.entry(tool.to_owned()).or_insert(Version { value, why });
    }
}

/// Reads the CI files of a tree.
pub fn detect(tree: &dyn Tree) -> CiPlan {
    read(&Files::new(tree))
}

pub(crate) fn read(files: &Files<'_>) -> CiPlan {
    let mut plan = CiPlan::default();
    actions::read(files, &mut plan);
    gitlab::read(files, &mut plan);
    other::travis(files, &mut plan);
    container::read(files, &mut plan);
    plan
}
