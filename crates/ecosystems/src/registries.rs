//! The hosts that package registries are at. They are asked for packages only; none of them is a place
//! where a command could publish without a secret, which no sandbox has.

use serde::{Deserialize, Serialize};

/// What the preset of all hosts here is called in a list of allowed hosts.
pub const PRESET: &str = "registries";

/// A family of languages with a registry of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ecosystem {
    Python,
    Node,
    Deno,
    Rust,
    Go,
    Ruby,
    Php,
    Jvm,
    Dotnet,
    Elixir,
    /// Packages of the distribution in the image.
    System,
}

impl Ecosystem {
    pub const ALL: [Ecosystem; 11] = [
        Ecosystem::Python,
        Ecosystem::Node,
        Ecosystem::Deno,
        Ecosystem::Rust,
        Ecosystem::Go,
        Ecosystem::Ruby,
        Ecosystem::Php,
        Ecosystem::Jvm,
        Ecosystem::Dotnet,
        Ecosystem::Elixir,
        Ecosystem::System,
    ];

    /// The hosts that its package managers ask.
    pub fn hosts(self) -> &'static [&'static str] {
        match self {
            Ecosystem::Python => &["pypi.org", "files.pythonhosted.org"],
            Ecosystem::Node => {
                &["registry.npmjs.org", "registry.yarnpkg.com", "repo.yarnpkg.com", "nodejs.org"]
            }
            Ecosystem::Deno => &["jsr.io", "npm.jsr.io", "deno.land", "registry.npmjs.org"],
            Ecosystem::Rust => &["index.crates.io", "static.crates.io", "static.rust-lang.org"],
            Ecosystem::Go => &["proxy.golang.org", "sum.golang.org"],
            Ecosystem::Ruby => &["rubygems.org", "index.rubygems.org"],
            Ecosystem::Php => &["packagist.org", "repo.packagist.org"],
            Ecosystem::Jvm => &[
                "repo.maven.apache.org",
                "repo1.maven.org",
                "plugins.gradle.org",
                "plugins-artifacts.gradle.org",
                "services.gradle.org",
                "downloads.gradle.org",
                "dl.google.com",
                "maven.google.com",
            ],
            Ecosystem::Dotnet => &["api.nuget.org"],
            Ecosystem::Elixir => &["hex.pm", "repo.hex.pm", "builds.hex.pm"],
            Ecosystem::System => &[
                "deb.debian.org",
                "security.debian.org",
                "archive.ubuntu.com",
                "security.ubuntu.com",
                "ports.ubuntu.com",
                "dl-cdn.alpinelinux.org",
            ],
        }
    }
}

/// Every host of the preset, sorted.
pub fn hosts() -> Vec<&'static str> {
    let mut all: Vec<&str> =
        Ecosystem::ALL.iter().flat_map(|ecosystem| ecosystem.hosts()).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preset_has_exact_names_only() {
        let hosts = hosts();
        assert!(hosts.len() > 25);
        for host in hosts {
            let is_name =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            assert!(host.contains('.') && host.chars().all(is_name), "{host}");
        }
    }
}
