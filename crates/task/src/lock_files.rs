//! Files that decide what setup installs. Their contents are part of the key under which a prepared image is
//! cached, wherever in the tree they are.

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
