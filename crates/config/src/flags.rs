//! The flags that all commands with a model and a sandbox share.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use crate::merge::{self, take};
use crate::{Config, SandboxChoice, Source};
use patchwright_base::duration::parse_duration;
use patchwright_base::error::Result;
use patchwright_provider::item::Wire;

/// Flags that the commands share which work with a model.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Model")]
pub struct Common {
    /// Model: a catalogue slug (`gpt-5.3-codex`), `provider/slug`, `azure/DEPLOYMENT`, `bedrock/ID`,
    /// `vertex/ID`, `chat/NAME` with `--base-url`, or `scripted:FILE`
    #[arg(long, env = "PATCHWRIGHT_MODEL", value_name = "MODEL")]
    pub model: Option<String>,

    /// Endpoint of the model's API; for OpenAI-compatible servers it ends in `/v1`
    #[arg(long, env = "PATCHWRIGHT_BASE_URL", value_name = "URL")]
    pub base_url: Option<String>,

    /// Reasoning effort, one of the model's levels
    #[arg(long, env = "PATCHWRIGHT_EFFORT", value_name = "LEVEL")]
    pub effort: Option<String>,

    /// Protocol to ask on, instead of the model's own
    #[arg(long, env = "PATCHWRIGHT_WIRE", value_name = "WIRE")]
    pub wire: Option<WireName>,

    /// Tool profile instead of the catalogue's: `codex`, `openai-hosted`, `claude`, `gemini`, `generic`
    /// or `text`
    #[arg(long, env = "PATCHWRIGHT_PROFILE", value_name = "NAME")]
    pub profile: Option<String>,

    /// Operator's configuration file
    #[arg(long, env = "PATCHWRIGHT_CONFIG", value_name = "FILE", help_heading = "Configuration")]
    pub config: Option<PathBuf>,

    /// Folder for journals, reports and clone mirrors [default: ~/.local/state/patchwright]
    #[arg(long, env = "PATCHWRIGHT_STATE_DIR", value_name = "DIR", help_heading = "Configuration")]
    pub state_dir: Option<PathBuf>,

    /// Where commands run
    #[arg(long, env = "PATCHWRIGHT_SANDBOX", value_name = "KIND", help_heading = "Sandbox")]
    pub sandbox: Option<SandboxChoice>,

    /// Container image; chosen by the repository's kind when absent
    #[arg(long, env = "PATCHWRIGHT_IMAGE", value_name = "IMAGE", help_heading = "Sandbox")]
    pub image: Option<String>,

    /// Image that a repository's own configuration may name, such as `ghcr.io/acme/*`; repeatable
    /// [default: public registries]
    #[arg(
        long,
        env = "PATCHWRIGHT_ALLOW_IMAGE",
        value_name = "GLOB",
        value_delimiter = ',',
        help_heading = "Sandbox"
    )]
    pub allow_image: Vec<String>,

    /// Shell command that prepares the image, run once as root without secrets; repeatable
    #[arg(
        long,
        env = "PATCHWRIGHT_SETUP",
        value_name = "COMMAND",
        value_delimiter = '\n',
        help_heading = "Sandbox"
    )]
    pub setup: Vec<String>,

    /// Check that must pass, run before and after the change; repeatable
    #[arg(
        long,
        env = "PATCHWRIGHT_VERIFY",
        value_name = "COMMAND",
        value_delimiter = '\n',
        help_heading = "Sandbox"
    )]
    pub verify: Vec<String>,

    /// Host that commands and tools may reach, such as `crates.io` or `*.example.com`; repeatable.
    /// Without any there is no network
    #[arg(
        long,
        env = "PATCHWRIGHT_ALLOW_HOST",
        value_name = "HOST",
        value_delimiter = ',',
        help_heading = "Sandbox"
    )]
    pub allow_host: Vec<String>,

    /// Host that setup commands may reach, or `*` for all; repeatable
    #[arg(
        long,
        env = "PATCHWRIGHT_SETUP_ALLOW",
        value_name = "HOST",
        value_delimiter = ',',
        help_heading = "Sandbox"
    )]
    pub setup_allow: Vec<String>,

    /// Most model replies
    #[arg(long, env = "PATCHWRIGHT_MAX_TURNS", value_name = "N", help_heading = "Budget")]
    pub max_turns: Option<u32>,

    /// Most dollars spent on the model
    #[arg(long, env = "PATCHWRIGHT_MAX_COST_USD", value_name = "DOLLARS", help_heading = "Budget")]
    pub max_cost_usd: Option<f64>,

    /// Most tokens, input and output together; input that was read from the provider's cache is not counted
    #[arg(long, env = "PATCHWRIGHT_MAX_TOKENS", value_name = "N", help_heading = "Budget")]
    pub max_tokens: Option<u64>,

    /// Most wall-clock time of the whole run, such as `90s`, `45m` or `1h`
    #[arg(long, env = "PATCHWRIGHT_TIMEOUT", value_name = "DURATION", value_parser = parse_duration, help_heading = "Budget")]
    pub timeout: Option<Duration>,

    /// Print JSON lines on stdout instead of the final message
    #[arg(long, env = "PATCHWRIGHT_JSON", help_heading = "Output")]
    pub json: bool,

    /// Say less on stderr
    #[arg(
        short,
        long,
        env = "PATCHWRIGHT_QUIET",
        help_heading = "Output",
        conflicts_with = "verbose"
    )]
    pub quiet: bool,

    /// Say more on stderr; twice for the log
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Output")]
    pub verbose: u8,
}

impl Common {
    /// The resolved configuration: defaults, `--config`, flags.
    pub fn resolve(&self) -> Result<Config> {
        let file = match &self.config {
            Some(path) if !path.as_os_str().is_empty() => {
                Some((path.display().to_string(), crate::file::read_file(path, "configuration")?))
            }
            _ => None,
        };
        merge::resolve(file.as_ref().map(|(name, text)| (name.as_str(), text.as_str())), self)
    }

    /// Lays the flags over a configuration.
    pub fn overlay(&self, config: &mut Config) {
        let source = Source::Flag;
        let text = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
        take!(config, source, model = text(&self.model));
        take!(config, source, base_url = text(&self.base_url).map(Some));
        take!(config, source, effort = text(&self.effort).map(Some));
        take!(config, source, profile = text(&self.profile).map(Some));
        take!(config, source, wire = self.wire.map(|name| Some(name.wire())));
        take!(config, source, sandbox = self.sandbox);
        take!(config, source, image = text(&self.image).map(Some));
        take!(config, source, images = hosts(&self.allow_image));
        take!(config, source, setup = commands(&self.setup));
        take!(config, source, verify = commands(&self.verify));
        take!(config, source, allow_hosts = hosts(&self.allow_host));
        take!(config, source, setup_hosts = hosts(&self.setup_allow));
        take!(config, source, limits.max_turns = self.max_turns);
        take!(config, source, limits.max_cost_usd = self.max_cost_usd);
        take!(config, source, limits.max_tokens = self.max_tokens);
        take!(config, source, limits.timeout = self.timeout);
    }
}

/// Hosts, however they are separated; `None` when there is none.
fn hosts(given: &[String]) -> Option<Vec<String>> {
    let hosts = given.iter().flat_map(|hosts| hosts.split([',', '\n', ' ']));
    commands(&hosts.map(str::to_owned).collect::<Vec<_>>())
}

/// Commands without blank entries; `None` when there is none.
fn commands(given: &[String]) -> Option<Vec<String>> {
    let commands: Vec<String> =
        given.iter().map(|command| command.trim().to_owned()).filter(|c| !c.is_empty()).collect();
    (!commands.is_empty()).then_some(commands)
}

/// A protocol by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WireName {
    /// The Responses API of `OpenAI`
    Responses,
    /// Chat Completions, spoken by most servers
    Chat,
    /// The Messages API of Anthropic
    Messages,
    /// The Gemini API
    Gemini,
}

impl WireName {
    pub fn wire(self) -> Wire {
        match self {
            WireName::Responses => Wire::Responses,
            WireName::Chat => Wire::Chat,
            WireName::Messages => Wire::Messages,
            WireName::Gemini => Wire::Gemini,
        }
    }
}
