//! defaults → file → campaign → flags and environment: one resolved [`Config`], each value knowing where
//! it came from.
//!
//! Operators (flags, `PATCHWRIGHT_*`, `--config`) decide everything. The repository's own file is
//! read from the base commit and can only tighten: see [`merge::tighten`]. Every setting is declared once,
//! in [`mod@settings`].

mod behavior_settings;
pub mod check;
mod check_tools;
pub mod checkout;
pub mod document;
pub mod file;
pub mod flags;
pub mod merge;
mod narrow;
pub mod output_schema;
pub mod publish;
mod publish_settings;
mod read;
pub mod renamed_settings;
pub mod review;
pub mod rules;
pub mod settings;
pub mod table;
pub mod tools;
pub mod triage;
pub mod web_search;
pub mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::publish::{Commits, Identity, Publish};
use patchwright_ecosystems::registries;
use patchwright_ecosystems::services::Service;
use patchwright_policy::Policy;
use patchwright_provider::catalogue::Fields;
use patchwright_provider::endpoint::{self, EndpointSettings};
use patchwright_provider::item::Wire;
use patchwright_sandbox::ContainerLimits;
use patchwright_sandbox::docker::WarmLimits;
use patchwright_types::task::Limits;

/// Everything that can be configured, resolved. Holds no secret, so it may be journaled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Config {
    /// Catalogue slug, `provider/slug`, `chat/NAME` or `scripted:FILE`.
    pub model: String,
    /// Models that go on when it cannot, in this order: as it is written, or `MODEL@URL`.
    #[serde(default)]
    pub fallback_models: Vec<String>,
    /// Attempts at the work; see [`Config::attempts`].
    #[serde(default)]
    pub attempts: u32,
    /// Their models, in turn, written as fallback models are.
    #[serde(default)]
    pub attempt_models: Vec<String>,
    /// How many of them are worked on at the same time.
    #[serde(default)]
    pub attempts_at_once: Option<u32>,
    /// The model that compares those which are equal by their checks.
    #[serde(default)]
    pub judge_model: Option<String>,
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
    /// What requests to endpoints have besides, by provider or base URL. Secrets are references.
    #[serde(default)]
    pub endpoints: BTreeMap<String, EndpointSettings>,
    pub sandbox: SandboxChoice,
    /// The file with the template of sandbox pods.
    #[serde(default)]
    pub sandbox_pod_template: Option<PathBuf>,
    pub image: Option<String>,
    /// Globs of images that repositories may name; see [`patchwright_sandbox::image::permission`].
    #[serde(default)]
    pub images: Vec<String>,
    /// Whose work this process does.
    #[serde(default)]
    pub tenants: Tenants,
    /// Commands of setup, or [`NONE`]; see [`Config::setup`].
    pub setup: Vec<String>,
    /// A command of setup that fails ends the run.
    #[serde(default)]
    pub setup_required: bool,
    /// The model may ask for setup once more, in the tree that it has changed.
    #[serde(default)]
    pub setup_again: bool,
    /// Hosts that setup commands may reach, as they were written; see [`Config::setup_hosts`].
    pub setup_hosts: Vec<String>,
    /// Hosts that commands of the model, its tools and MCP servers may reach: names, or `*.name` for
    /// everything below one. None: no network.
    #[serde(default)]
    pub allow_hosts: Vec<String>,
    /// Searching the web; nobody does when absent.
    #[serde(default)]
    pub web_search: web_search::WebSearch,
    /// Tools beyond the profile's, and what surrounds calls.
    #[serde(default)]
    pub tools: tools::Tools,
    /// MCP servers, by name.
    #[serde(default)]
    pub mcp: BTreeMap<String, tools::McpServer>,
    /// Servers beside the commands of a run, by name.
    #[serde(default)]
    pub services: BTreeMap<String, Service>,
    pub setup_timeout: Duration,
    /// Checks; found in CI files or by the repository's kind when empty.
    pub verify: Vec<String>,
    pub limits: Limits,
    pub container: ContainerLimits,
    /// Containers that wait for runs.
    #[serde(default)]
    pub warm: Warm,
    pub policy: Policy,
    #[serde(default)]
    pub checkout: checkout::Checkout,
    pub publish: Publish,
    #[serde(default)]
    pub commits: Commits,
    pub access: Access,
    pub identity: Identity,
    #[serde(default)]
    pub review: review::Review,
    #[serde(default)]
    pub respond: review::Respond,
    #[serde(default)]
    pub triage: triage::Triage,
    /// What the operator wants of every run.
    #[serde(default)]
    pub instructions: Option<String>,
    /// The tone of what people read.
    #[serde(default)]
    pub personality: Personality,
    /// Runs read the file with what maintainers corrected, and may propose what is to be in it.
    #[serde(default)]
    pub memory: bool,
    /// What the model may do about the task.
    #[serde(default)]
    pub mode: Mode,
    /// JSON Schema of the result of work that ends with an answer.
    #[serde(default)]
    pub output_schema: Option<serde_json::Value>,
    /// Do everything but write to the forge.
    pub dry_run: bool,
    /// Where each value that is not a default came from.
    pub sources: BTreeMap<String, Source>,
    /// What the repository's file asked for and did not get.
    pub notes: Vec<String>,
}

impl Config {
    /// What it says about the model's endpoint.
    pub fn endpoint(&self) -> endpoint::EndpointRequest<'_> {
        endpoint::EndpointRequest {
            model: &self.model,
            base_url: self.base_url.as_deref(),
            hosted_tools: &self.hosted_tools,
            endpoints: &self.endpoints,
        }
    }

    /// Attempts at the work of a run. Configurations of earlier versions name none.
    pub fn attempts(&self) -> u32 {
        self.attempts.clamp(1, MOST_ATTEMPTS)
    }

    /// What prepares the image.
    pub fn setup(&self) -> Setup<'_> {
        match self.setup.as_slice() {
            [] if self.sources.contains_key("setup") => Setup::None,
            [] => Setup::Detected,
            [none] if none == NONE => Setup::None,
            commands => Setup::Commands(commands),
        }
    }

    /// The hosts that setup may reach, with the preset of the registries written out; `*` alone for all.
    pub fn setup_hosts(&self) -> Vec<String> {
        let mut hosts: Vec<String> = Vec::new();
        for entry in self.setup_hosts.iter().map(|entry| entry.trim()) {
            match entry {
                "" | NONE => {}
                "*" => return vec!["*".to_owned()],
                registries::PRESET => {
                    hosts.extend(registries::hosts().into_iter().map(str::to_owned));
                }
                host => hosts.push(host.to_owned()),
            }
        }
        // A name at an address stands for itself, also when a preset has the name.
        let pinned: Vec<String> = hosts.iter().filter_map(|host| pinned_name(host)).collect();
        hosts.retain(|host| host.contains('=') || !pinned.contains(host));
        let mut seen = BTreeSet::new();
        hosts.retain(|host| seen.insert(host.clone()));
        hosts
    }

    /// Whether a source may set the key: not where one that counts more has set it.
    fn yields(&self, key: &str, source: Source) -> bool {
        self.sources.get(key).is_none_or(|set_by| set_by.rank() <= source.rank())
    }
}

/// The name of an entry with an address: `pypi.org` of `pypi.org:443=10.0.0.1`.
fn pinned_name(host: &str) -> Option<String> {
    let (name, _) = host.split_once('=')?;
    Some(name.split(':').next().unwrap_or_default().trim().to_owned())
}

/// Attempts of one run at most.
pub const MOST_ATTEMPTS: u32 = 8;

/// The word that switches a list off which would have something in it otherwise.
pub const NONE: &str = "none";

/// What prepares the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup<'a> {
    /// What the repository's files ask for.
    Detected,
    /// Nothing.
    None,
    /// What somebody has configured.
    Commands(&'a [String]),
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

/// How many started containers wait for runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warm {
    /// As many as the command usually has when nobody says.
    pub count: Option<usize>,
    pub age: Duration,
    pub memory_bytes: u64,
}

impl Warm {
    /// With the number that a command has when nobody says one.
    pub fn or(&self, count: usize) -> WarmLimits {
        let count = self.count.unwrap_or(count);
        WarmLimits { count, age: self.age, memory_bytes: self.memory_bytes }
    }
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
    /// A hardened pod of a Kubernetes cluster.
    Kubernetes,
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

/// Who may start work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// The label that starts work.
    pub label: String,
    /// The account to which an issue is assigned to start work on it.
    #[serde(default)]
    pub assignee: Option<String>,
    /// When not empty: only these people, and they still need write access.
    pub allow_users: Vec<String>,
    /// Bots that may start work, by exact login.
    pub allow_bots: Vec<String>,
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
