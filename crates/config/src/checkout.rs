//! What of a repository a run has beside its own files.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How a repository is brought into the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkout {
    pub submodules: Submodules,
    /// Hosts beside the forge's that submodules are fetched from.
    pub submodule_hosts: Vec<String>,
    /// The folders that the sandbox has; all when empty.
    pub sparse: Vec<String>,
    /// Contents of Git LFS are fetched.
    pub lfs: bool,
}

/// Which submodules are fetched; the words of `actions/checkout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Submodules {
    /// None: their folders are empty
    #[default]
    #[value(name = "false")]
    Off,
    /// Those of the repository
    #[value(name = "true")]
    On,
    /// Those of submodules, too
    Recursive,
}

impl Submodules {
    fn word(self) -> &'static str {
        match self {
            Submodules::Off => "false",
            Submodules::On => "true",
            Submodules::Recursive => "recursive",
        }
    }
}

impl Serialize for Submodules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for Submodules {
    /// `true` and `false` are no words in YAML.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Submodules, D::Error> {
        struct SubmodulesVisitor;
        impl Visitor<'_> for SubmodulesVisitor {
            type Value = Submodules;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false` or `recursive`")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<Submodules, E> {
                Ok(if on { Submodules::On } else { Submodules::Off })
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Submodules, E> {
                let all = [Submodules::Off, Submodules::On, Submodules::Recursive];
                let found = all.into_iter().find(|one| one.word() == word);
                found.ok_or_else(|| {
                    E::custom(format!("`{word}` is not `true`, `false` or `recursive`"))
                })
            }
        }
        deserializer.deserialize_any(SubmodulesVisitor)
    }
}
