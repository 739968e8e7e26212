//! The flags of settings, and what they say. The flags themselves stand in [`crate::settings`].

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use crate::checkout::Submodules;
use crate::merge;
use crate::publish::{Fork, Signing};
use crate::{Config, Mode, SandboxChoice, Source, read};
use patchwright_base::error::Result;
use patchwright_base::named_file;
use patchwright_provider::item::Wire;

pub use crate::settings::{Common, PublishFlags};

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
}

impl Common {
    /// What is to be said about former names in the file of `--config`. Nothing about one that cannot be read, which
    /// [`Common::resolve`] refuses.
    pub fn warnings(&self) -> Vec<String> {
        let Some(path) = self.config.as_ref() else { return Vec::new() };
        let text = named_file::read_text(path, crate::file::MAX_FILE).unwrap_or_default();
        let parsed = crate::file::parse_with("", &text, &crate::renamed_settings::names());
        parsed.map(|(_, warnings)| warnings).unwrap_or_default()
    }
}

impl PublishFlags {
    /// Lays the flags over a configuration.
    pub fn overlay(&self, config: &mut Config) {
        merge::lay(config, self.settings(), Source::Flag);
    }
}

/// What a flag says; `None` when it was not given, or is empty.
pub(crate) trait FlagValue<T> {
    fn given(&self) -> Option<T>;
}

/// As [`FlagValue::given`], for the table of settings.
pub(crate) fn given<T>(flag: &impl FlagValue<T>) -> Option<T> {
    flag.given()
}

/// Hosts and globs, however they are separated.
pub(crate) fn hosts(flag: &[String]) -> Option<Vec<String>> {
    read::hosts(&flag.join("\n")).ok().filter(|hosts| !hosts.is_empty())
}

macro_rules! given_as_it_is {
    ($($type:ty),+) => {
        $(impl FlagValue<$type> for Option<$type> {
            fn given(&self) -> Option<$type> {
                *self
            }
        })+
    };
}

given_as_it_is!(u32, u64, usize, f64, Duration, SandboxChoice, Mode, Signing, Submodules);

impl FlagValue<PathBuf> for Option<PathBuf> {
    /// An empty variable says nothing.
    fn given(&self) -> Option<PathBuf> {
        self.clone().filter(|path| !path.as_os_str().is_empty())
    }
}

impl FlagValue<Fork> for Option<Fork> {
    fn given(&self) -> Option<Fork> {
        self.clone()
    }
}

impl FlagValue<String> for Option<String> {
    fn given(&self) -> Option<String> {
        self.clone().filter(|text| !text.is_empty())
    }
}

impl FlagValue<Vec<String>> for Vec<String> {
    fn given(&self) -> Option<Vec<String>> {
        let entries = self.iter().map(|entry| entry.trim().to_owned());
        let entries: Vec<String> = entries.filter(|entry| !entry.is_empty()).collect();
        (!entries.is_empty()).then_some(entries)
    }
}

/// A switch can only turn something on.
impl FlagValue<bool> for bool {
    fn given(&self) -> Option<bool> {
        self.then_some(true)
    }
}

impl FlagValue<Wire> for Option<WireName> {
    fn given(&self) -> Option<Wire> {
        self.map(WireName::wire)
    }
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
