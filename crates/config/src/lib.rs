//! defaults → file → campaign → flags and environment: one resolved [`Config`], each value knowing where
//! it came from.
//!
//! Operators (flags, `PATCHWRIGHT_*`, `--config`) decide everything. The repository's own file is
//! read from the base commit and can only tighten: see [`merge::tighten`]. Every setting is declared once,
//! in [`mod@settings`].

pub mod check;
mod check_tools;
pub mod document;
pub mod file;
pub mod flags;
pub mod merge;
mod narrow;
mod read;
pub mod review;
pub mod rules;
pub mod settings;
pub mod table;
pub mod tools;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use patchwright_policy::Policy;
use patchwright_provider::catalogue::Fields;
use patchwright_provider::endpoint;
use patchwright_provider::item::Wire;
use patchwright_sandbox::ContainerLimits;
use patchwright_types::task::Limits;

/// Everything that can be configured, resolved. Holds no secret, so it may be journaled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Catalogue slug, `provider/slug`, `chat/NAME` or `scripted:FILE`.
    pub model: String,
    pub base_url: Option<String>,
    pub effort: Option<String>,
    /// Tool profile that overrides the catalogue's.
    pub profile: Option<String>,
    /// Tools that the provider runs, with references to environment variables in place of secrets.
    #[serde(default)]
    pub hosted_tools: Vec<serde_json::Value>,
    /// The provider stores replies, and requests name the last one.
    #[serde(default)]
    pub stateful: bool,
    /// Protocol that overrides the catalogue's.
    #[serde(default)]
    pub wire: Option<Wire>,
    /// Changes and additions to the catalogue, by what is written after `--model`.
    #[serde(default)]
    pub models: BTreeMap<String, Fields>,
    pub sandbox: SandboxChoice,
    pub image: Option<String>,
    /// Globs of images that repositories may name; see [`patchwright_sandbox::image::permission`].
    #[serde(default)]
    pub images: Vec<String>,
    /// Whose work this process does.
    #[serde(default)]
    pub tenants: Tenants,
    pub setup: Vec<String>,
    /// Hosts that setup commands may reach.
    pub setup_hosts: Vec<String>,
    /// Hosts that commands of the model, its tools and MCP servers may reach: names, or `*.name` for
    /// everything below one. None: no network.
    #[serde(default)]
    pub allow_hosts: Vec<String>,
    /// Tools beyond the profile's, and what surrounds calls.
    #[serde(default)]
    pub tools: tools::Tools,
    /// MCP servers, by name.
    #[serde(default)]
    pub mcp: BTreeMap<String, tools::McpServer>,
    pub setup_timeout: Duration,
    /// Checks; found in CI files or by the repository's kind when empty.
    pub verify: Vec<String>,
    pub limits: Limits,
    pub container: ContainerLimits,
    pub policy: Policy,
    pub publish: Publish,
    pub access: Access,
    pub identity: Identity,
    #[serde(default)]
    pub review: review::Review,
    #[serde(default)]
    pub respond: review::Respond,
    /// The tone of what people read.
    #[serde(default)]
    pub personality: Personality,
    /// What the model may do about the task.
    #[serde(default)]
    pub mode: Mode,
    /// Do everything but write to the forge.
    pub dry_run: bool,
    /// Where each value that is not a default came from.
    pub sources: BTreeMap<String, Source>,
    /// What the repository's file asked for and did not get.
    pub notes: Vec<String>,
}

impl Config {
    /// What it says about the model's endpoint.
    pub fn endpoint(&self) -> endpoint::Wanted<'_> {
        endpoint::Wanted {
            model: &self.model,
            base_url: self.base_url.as_deref(),
            hosted_tools: &self.hosted_tools,
        }
    }

    /// Whether a source may set the key: not where one that counts more has set it.
    fn yields(&self, key: &str, source: Source) -> bool {
        self.sources.get(key).is_none_or(|set_by| set_by.rank() <= source.rank())
    }
}

/// Whose work a process does, as far as repositories may not be each other's business.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tenants {
    /// One repository: a workflow, a command.
    #[default]
    One,
    /// Many, in campaigns or behind webhooks.
    Many,
}

/// Where commands run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum SandboxChoice {
    /// A hardened container.
    #[default]
    Docker,
    /// No container: Landlock and seccomp on this machine.
    Local,
}

/// The tone of what people read; nothing else depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Personality {
    /// Plain and direct.
    #[default]
    Pragmatic,
    /// Warm, without jargon.
    Friendly,
    /// Whatever the model is like by itself.
    None,
}

impl Personality {
    /// The word in configuration files.
    pub fn word(self) -> &'static str {
        match self {
            Personality::Pragmatic => "pragmatic",
            Personality::Friendly => "friendly",
            Personality::None => "none",
        }
    }
}

/// What the model may do about the task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Read and end with a plan; nothing is changed
    Plan,
    /// Do the work
    #[default]
    Execute,
    /// Read, run checks, report findings; nothing is changed
    #[value(skip)]
    Review,
}

/// How the pull request is made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Publish {
    /// The branch to work on and to merge into; the default branch when absent.
    pub base: Option<String>,
    /// The branch to push; `patchwright/issue-N` when absent.
    pub branch: Option<String>,
    /// Always a draft; without it a draft only when checks fail or protected files change.
    pub draft: bool,
    pub labels: Vec<String>,
    pub reviewers: Vec<String>,
}

/// Who may start work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// The label that starts work.
    pub label: String,
    /// When not empty: only these people, and they still need write access.
    pub allow_users: Vec<String>,
    /// Bots that may start work, by exact login.
    pub allow_bots: Vec<String>,
}

/// Author and committer of the commits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    pub name: String,
    pub email: String,
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    OperatorFile,
    /// The campaign file of a batch.
    Campaign,
    RepositoryFile,
    /// A flag or its environment variable.
    Flag,
}

impl Source {
    /// Among operators' sources the higher one counts. A repository's file does not compete with them.
    fn rank(self) -> u8 {
        match self {
            Source::RepositoryFile | Source::OperatorFile => 0,
            Source::Campaign => 1,
            Source::Flag => 2,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::OperatorFile => "--config",
            Source::Campaign => "campaign file",
            Source::RepositoryFile => file::REPOSITORY_FILE,
            Source::Flag => "flag or environment",
        })
    }
}
