//! Configuration files as they are written: the operator's (`--config`) and the repository's
//! (`.github/patchwright.yml` of the base commit). One grammar for both; [`super::merge`] decides
//! which keys a repository may set.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::review::{RespondFile, ReviewFile};
use super::{Mode, Personality};
use patchwright_base::duration::parse_duration;
use patchwright_base::error::{Failure, Result};
use patchwright_provider::catalogue::Fields;
use patchwright_provider::item::Wire;

/// Where the repository keeps its configuration.
pub const REPOSITORY_FILE: &str = ".github/patchwright.yml";

/// A configuration file. Every key is optional; unknown keys are errors.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct File {
    /// Operator only: the model, as for `--model`.
    pub model: Option<String>,
    /// Operator only: the endpoint, as for `--base-url`.
    pub base_url: Option<String>,
    /// Operator only: reasoning effort.
    pub effort: Option<String>,
    /// Operator only: tool profile.
    pub profile: Option<String>,
    /// Operator only: tools that the model's provider runs, each as its own tool object.
    pub hosted_tools: Vec<serde_json::Value>,
    /// Operator only: the provider stores replies, and requests name the last one.
    pub stateful: Option<bool>,
    /// Operator only: the tone of what people read.
    pub personality: Option<Personality>,
    /// Operator only: plan, or do the work.
    pub mode: Option<Mode>,
    /// Operator only: protocol instead of the model's own.
    pub wire: Option<Wire>,
    /// Operator only: what is known about models, by what is written after `--model`.
    pub models: BTreeMap<String, Fields>,
    /// Container image for the repository.
    pub image: Option<String>,
    /// Operator only: globs of images that repositories may name; public registries when empty.
    pub images: Vec<String>,
    /// Commands that prepare the image, run once as root without secrets.
    pub setup: Option<Vec<String>>,
    /// Commands that must pass, run before and after.
    pub verify: Option<Vec<String>>,
    pub limits: Limits,
    /// Operator only.
    pub container: Container,
    pub policy: Policy,
    pub publish: Publish,
    pub review: ReviewFile,
    pub respond: RespondFile,
    /// Operator only.
    pub access: Access,
    /// Operator only, but for fewer hosts.
    pub network: Network,
    /// Operator only, but for `disabled`.
    pub tools: super::tools::Tools,
    /// Operator only; a repository names those that it wants, with nothing but fewer `tools`.
    pub mcp: BTreeMap<String, super::tools::McpServer>,
    /// Operator only.
    pub identity: Identity,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Limits {
    pub max_turns: Option<u32>,
    pub max_tokens: Option<u64>,
    pub max_cost_usd: Option<f64>,
    #[serde(deserialize_with = "duration")]
    pub timeout: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub command_timeout: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub setup_timeout: Option<Duration>,
    pub verify_rounds: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Container {
    #[serde(deserialize_with = "size")]
    pub memory: Option<u64>,
    pub cpus: Option<f64>,
    pub pids: Option<u32>,
    #[serde(deserialize_with = "size")]
    pub tmp: Option<u64>,
    #[serde(deserialize_with = "size")]
    pub workspace: Option<u64>,
    pub workspace_files: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Policy {
    pub max_files: Option<usize>,
    #[serde(deserialize_with = "size")]
    pub max_bytes: Option<u64>,
    /// More globs of files that make the pull request a draft.
    pub protected_paths: Vec<String>,
    /// More globs of files that are only handed over as a patch.
    pub blocked_paths: Vec<String>,
    /// Operator only: globs of fixtures in which key formats are expected.
    pub secret_allow_paths: Vec<String>,
    /// Operator only: publish changes to workflow files.
    pub allow_workflows: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Publish {
    pub base: Option<String>,
    pub branch: Option<String>,
    pub draft: Option<bool>,
    pub labels: Option<Vec<String>>,
    pub reviewers: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Access {
    pub label: Option<String>,
    pub allow_users: Option<Vec<String>>,
    pub allow_bots: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Network {
    /// Hosts that the model's commands and tools may reach.
    pub allow: Option<Vec<String>>,
    /// Hosts that setup commands may reach.
    pub setup_allow: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Identity {
    pub name: Option<String>,
    pub email: Option<String>,
}

/// Parses a configuration file. `name` is what messages call it.
pub fn parse(name: &str, text: &str) -> Result<File> {
    if text.len() > 256 << 10 {
        return Err(Failure::usage(format!("configuration `{name}` is larger than 256 KB")));
    }
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(File::default());
    }
    let invalid = |why: String| {
        Failure::usage(format!("configuration `{name}` is not valid"))
            .caused_by(anyhow::anyhow!(why))
            .hint("every key is described in `docs/configuration.md`")
    };
    let file = serde_saphyr::from_str(text).map_err(|err| invalid(err.to_string()))?;
    super::check::check(&file).map_err(invalid)?;
    Ok(file)
}

/// Parses `512`, `64k`, `100m`, `4g` as bytes (powers of 1024).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let mistake = || format!("`{text}` is not a size; write for example `512m` or `4g`");
    let lower = text.trim().to_ascii_lowercase();
    let (digits, unit) = match lower.char_indices().last() {
        Some((at, 'k')) => (&lower[..at], 1u64 << 10),
        Some((at, 'm')) => (&lower[..at], 1 << 20),
        Some((at, 'g')) => (&lower[..at], 1 << 30),
        _ => (lower.as_str(), 1),
    };
    let count: u64 = digits.parse().map_err(|_| mistake())?;
    count.checked_mul(unit).ok_or_else(mistake)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_duration(&text).map_err(serde::de::Error::custom)).transpose()
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_size(&text).map_err(serde::de::Error::custom)).transpose()
}

/// Reads a file named on the command line.
pub fn read_file(path: &std::path::Path, what: &str) -> Result<String> {
    fs_err::read_to_string(path).map_err(|err| {
        Failure::usage(format!("cannot read the {what} `{}`", path.display())).caused_by(err)
    })
}

#[cfg(test)]
mod tests {
    use crate::file::*;

    #[test]
    fn durations_and_sizes_are_read_as_people_write_them() {
        for (text, seconds) in [("90s", 90), ("5m", 300), ("1h", 3600), ("1h30m", 5400)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "5", "m", "5d", "-1s", "99999999999999999999s", "10000h", "1m30"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for (text, bytes) in [("512", 512), ("64k", 65_536), ("4G", 4 << 30)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "g", "4t", "-1", "99999999999999999999g"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
