//! Files that decide what setup installs, and those that its commands name. Their contents are part of the key under which a prepared image is
//! cached, wherever in the tree they are.

use std::collections::BTreeSet;

/// By name.
const NAMES: &[&str] = &[
    ".node-version",
    ".npmrc",
    ".nvmrc",
    ".python-version",
    ".ruby-version",
    ".tool-versions",
    ".yarnrc",
    ".yarnrc.yml",
    "Cargo.lock",
    "Cargo.toml",
    "Directory.Build.props",
    "Directory.Packages.props",
    "Gemfile",
    "Gemfile.lock",
    "Pipfile",
    "Pipfile.lock",
    "build.gradle",
    "build.gradle.kts",
    "bun.lock",
    "bun.lockb",
    "bunfig.toml",
    "composer.json",
    "composer.lock",
    "deno.json",
    "deno.jsonc",
    "deno.lock",
    "global.json",
    "go.mod",
    "go.sum",
    "go.work",
    "go.work.sum",
    "gradle-wrapper.properties",
    "gradle.properties",
    "libs.versions.toml",
    "maven-wrapper.properties",
    "mix.exs",
    "mix.lock",
    "noxfile.py",
    "npm-shrinkwrap.json",
    "nuget.config",
    "package-lock.json",
    "package.json",
    "packages.lock.json",
    "pdm.lock",
    "pip.conf",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "poetry.lock",
    "pom.xml",
    "pyproject.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    "settings.gradle",
    "settings.gradle.kts",
    "setup.cfg",
    "setup.py",
    "tox.ini",
    "uv.lock",
    "uv.toml",
    "yarn.lock",
];

/// By the end of the name.
const ENDS: &[&str] = &[".csproj", ".fsproj", ".gemspec", ".sln", ".slnx", ".vbproj"];

/// What programs read that are not told what to read.
const READ_BY: &[(&str, &[&str])] = &[
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
];

/// Paths that may be files which these commands run or read: each of their words, from the root and from where `cd` has
/// led. What such a file runs in turn is not known.
pub(super) fn named(commands: &[String]) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for command in commands {
        let words = command.split(|c: char| c.is_whitespace() || "\"'`;&|()<>=,".contains(c));
        let (mut folder, mut is_folder) = (String::new(), false);
        for word in words.filter(|word| !word.is_empty()) {
            let path = word.trim_start_matches("$PWD/").trim_start_matches("./");
            let path = path.trim_end_matches('/');
            if is_folder {
                folder = format!("{folder}{path}/");
            }
            is_folder = word == "cd";
            let read = READ_BY.iter().filter(|(program, _)| *program == word);
            for name in read.flat_map(|(_, names)| names.iter().copied()).chain([path]) {
                paths.insert(format!("{folder}{name}"));
                paths.insert(name.to_owned());
            }
        }
    }
    paths
}

/// Whether a file decides what setup installs.
pub(super) fn decides(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_pip = || {
        let is_list = [".txt", ".in"].iter().any(|end| name.ends_with(end));
        let is_named = |text: &str| text.contains("requirements") || text.contains("constraints");
        is_list && (is_named(name) || is_named(folder.rsplit('/').next().unwrap_or_default()))
    };
    NAMES.contains(&name)
        || ENDS.iter().any(|end| name.ends_with(end))
        || is_pip()
        || path.ends_with(".cargo/config.toml")
        || path.ends_with(".bundle/config")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_commands_name_are_known() {
        let commands = [
            "sh ./ci/setup.sh --all",
            "cd app/ && FILE=tools.txt make install; (cd web; \"$PWD/run\" <in.json)",
        ];
        let named = named(&commands.map(str::to_owned));
        for path in ["ci/setup.sh", "app/Makefile", "app/tools.txt", "run", "app/web/in.json"] {
            assert!(named.contains(path), "{path}: {named:?}");
        }
        assert!(!named.contains("setup.sh"));
    }

    #[test]
    fn lock_files_and_manifests_of_nested_packages_decide() {
        for path in [
            "Cargo.lock",
            "api/go.sum",
            "web/app/package.json",
            "requirements-dev.txt",
            "requirements/base.txt",
            "app/constraints.txt",
            "src/App/App.csproj",
            ".cargo/config.toml",
            "gradle/wrapper/gradle-wrapper.properties",
        ] {
            assert!(decides(path), "{path}");
        }
        for path in ["README.md", "src/main.rs", "notes.txt", "requirements.md", "a/lock.json"] {
            assert!(!decides(path), "{path}");
        }
    }
}
