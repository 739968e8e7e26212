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

/// `example-plugin` shows others what to do, and what it installs may change what the tests of the project see.
fn is_foreign(name: &str) -> bool {
    let first = name.split(['-', '_']).next();
    FOREIGN.contains(&name) || matches!(first, Some("example" | "examples" | "sample" | "samples"))
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
                    || is_foreign(&name)
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
    let is_solution = |name: &str| {
        is_solution(name) && files.text(&join(folder, name)).is_some_and(|it| is_of_dotnet(&it))
    };
    files.files(folder).iter().any(|name| {
        MANIFESTS.contains(&name.as_str()) || name.ends_with(".csproj") || is_solution(name)
    })
}

pub(crate) fn is_solution(name: &str) -> bool {
    name.ends_with(".sln") || name.ends_with(".slnx")
}

/// A solution has projects of .NET, and not those of Visual C++ alone.
pub(crate) fn is_of_dotnet(solution: &str) -> bool {
    let has = |endings: &[&str]| endings.iter().any(|ending| solution.contains(ending));
    has(&[".csproj", ".fsproj", ".vbproj"]) || !has(&[".vcxproj", ".vcproj"])
}

/// A crate whose programs `cargo fuzz` runs: it has no tests.
pub(crate) fn is_fuzzed(manifest: &str) -> bool {
    manifest.lines().any(|line| line.split_whitespace().collect::<String>() == "cargo-fuzz=true")
}

/// An Android library without Gradle's script in its folder is built by somebody who has the SDK.
pub(crate) fn is_for_android(build: &str) -> bool {
    build.contains("com.android.")
}

/// A folder of tests: a package in it is a case of them, or what they use.
pub(crate) fn is_beside_code(folder: &str) -> bool {
    const NAMES: &[&str] =
        &["test", "tests", "testing", "__tests__", "integrationTests", "playground"];
    // `test cases`, `test_data`.
    const DATA: &[&str] = &["case", "cases", "data", "files", "packages", "projects", "templates"];
    folder.split('/').any(|name| {
        let mut words = name.split(['-', '_', ' ']);
        let is_data = matches!(words.next(), Some("test" | "tests"))
            && words.any(|word| DATA.contains(&word));
        is_data || NAMES.contains(&name)
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
    files.files(folder).iter().any(|name| is_solution(name))
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
        "deno.json" => ["deno.json", "deno.jsonc"].iter().any(|name| {
            let json = text(name).and_then(|text| read::json(&text).ok());
            json.is_some_and(|json| json.get("workspace").is_some())
        }),
        "mix.exs" => text("mix.exs").is_some_and(|text| text.contains("apps_path")),
        _ => false,
    }
}
