//! Where the packages of a repository are: folders with a manifest, and which of them a manifest above
//! takes care of (workspaces of Cargo, npm, pnpm and Go, modules of Maven and Gradle).

use serde_json::Value;

use crate::files::{Files, join};
use crate::read;

/// How deep packages are looked for, and how many folders are walked.
const MAX_DEPTH: usize = 4;
const MAX_FOLDERS: usize = 1_500;
/// Most packages of one repository.
pub(crate) const MAX_PACKAGES: usize = 200;

/// Folders into which package managers and people copy the code of others.
const VENDORED: &[&str] = &[
    "node_modules",
    "vendor",
    "third_party",
    "third-party",
    "site-packages",
    "Pods",
    "bower_components",
];

/// Folders with code of others as well, with what was built, and with what only tests read.
const FOREIGN: &[&str] = &[
    "external",
    "extern",
    "target",
    "dist",
    "build",
    "out",
    "bin",
    "obj",
    "venv",
    "env",
    "testdata",
    "fixtures",
    "__fixtures__",
    "templates",
    "template",
    "examples",
    "example",
    "samples",
    "docs",
    "doc",
    "benchmarks",
    "deps",
];

/// The name of a folder into which the code of others is copied: what is below is not the project's own.
pub fn is_vendored(name: &str) -> bool {
    VENDORED.contains(&name)
}

const MANIFESTS: &[&str] = &[
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "Pipfile",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "Gemfile",
    "composer.json",
    "mix.exs",
    "deno.json",
    "deno.jsonc",
];

/// Folders with a manifest, the root first, then by depth and name. Hidden and foreign ones are left out.
pub(crate) fn folders(files: &Files<'_>) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut level = vec![String::new()];
    let mut walked = 0;
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for folder in &level {
            for name in files.folders(folder) {
                if name.starts_with('.')
                    || is_vendored(&name)
                    || FOREIGN.contains(&name.as_str())
                    || walked >= MAX_FOLDERS
                {
                    continue;
                }
                walked += 1;
                let path = join(folder, &name);
                if has_manifest(files, &path) && found.len() < MAX_PACKAGES {
                    found.push(path.clone());
                }
                next.push(path);
            }
        }
        level = next;
    }
    found
}

pub(crate) fn has_manifest(files: &Files<'_>, folder: &str) -> bool {
    files.files(folder).iter().any(|name| {
        MANIFESTS.contains(&name.as_str())
            || [".sln", ".slnx", ".csproj"].iter().any(|end| name.ends_with(end))
    })
}

/// A solution of .NET above a folder has the projects in it.
pub(crate) fn has_solution_above(files: &Files<'_>, folder: &str) -> bool {
    let mut above = folder;
    while !above.is_empty() {
        above = above.rsplit_once('/').map_or("", |(parent, _)| parent);
        if has_solution(files, above) {
            return true;
        }
    }
    false
}

pub(crate) fn has_solution(files: &Files<'_>, folder: &str) -> bool {
    let is_solution = |name: &String| name.ends_with(".sln") || name.ends_with(".slnx");
    files.files(folder).iter().any(is_solution)
}

/// A package of one kind belongs to one above it that has the same manifest and says so.
pub(crate) fn is_member(files: &Files<'_>, folder: &str, manifest: &str) -> bool {
    let mut above = folder;
    while !above.is_empty() {
        above = above.rsplit_once('/').map_or("", |(parent, _)| parent);
        if is_workspace(files, above, manifest) {
            return true;
        }
    }
    false
}

/// Whether the manifest in a folder is about packages below it as well.
pub(crate) fn is_workspace(files: &Files<'_>, folder: &str, manifest: &str) -> bool {
    let text = |name: &str| files.text(&join(folder, name));
    match manifest {
        "Cargo.toml" => text("Cargo.toml").is_some_and(|text| text.contains("[workspace]")),
        "package.json" => {
            let json = text("package.json").and_then(|text| read::json(&text).ok());
            json.is_some_and(|json| json.get("workspaces").is_some_and(|it| *it != Value::Null))
                || files.has_file(&join(folder, "pnpm-workspace.yaml"))
        }
        "go.mod" => files.has_file(&join(folder, "go.work")),
        "pom.xml" => text("pom.xml").is_some_and(|text| text.contains("<modules>")),
        "build.gradle" => ["settings.gradle", "settings.gradle.kts"]
            .iter()
            .any(|name| text(name).is_some_and(|text| text.contains("include"))),
        "pyproject.toml" => {
            text("pyproject.toml").is_some_and(|text| text.contains("[tool.uv.workspace]"))
        }
        "mix.exs" => text("mix.exs").is_some_and(|text| text.contains("apps_path")),
        _ => false,
    }
}
