//! Which versions of tools the repository asks for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Source, Version};
use crate::ci::CiPlan;
use crate::files::{Files, line_of};
use crate::read;

/// Files with one version and nothing else.
const PLAIN: &[(&str, &str)] = &[
    (".python-version", "python"),
    (".nvmrc", "node"),
    (".node-version", "node"),
    (".ruby-version", "ruby"),
    (".go-version", "go"),
    (".java-version", "java"),
    (".php-version", "php"),
];

/// What asdf and mise call tools otherwise.
const OTHER_NAMES: &[(&str, &str)] =
    &[("nodejs", "node"), ("golang", "go"), ("dotnet-core", "dotnet")];

/// Versions that begin with a word, by tool; `.python-version` and the like also hold names that pyenv and others give to
/// environments on the machine of one developer. `v` stands before numbers of any tool.
const WORDS: &[(&str, &[&str])] = &[
    ("python", &["pypy", "graalpy", "cpython", "python", "anaconda", "miniconda", "miniforge"]),
    ("node", &["lts", "node", "stable", "current", "iojs"]),
    ("ruby", &["ruby", "jruby", "truffleruby", "mruby", "head"]),
    ("go", &["go", "stable", "oldstable"]),
    ("rust", &["stable", "beta", "nightly"]),
    (
        "java",
        &[
            "temurin",
            "adoptopenjdk",
            "openjdk",
            "corretto",
            "zulu",
            "liberica",
            "microsoft",
            "graalvm",
            "oracle",
            "semeru",
            "sapmachine",
            "dragonwell",
        ],
    ),
    ("deno", &["lts", "stable"]),
];

/// Whether a value says which version: a number, a range, or a word that stands for one.
fn is_version(tool: &str, value: &str) -> bool {
    let value = value.trim_start_matches(['<', '>', '=', '~', '^', '!', ' ']);
    let numbers = value.strip_prefix(['v', 'V']).unwrap_or(value);
    if numbers.starts_with(|c: char| c.is_ascii_digit()) || matches!(value, "*" | "latest") {
        return true;
    }
    let word = value.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    WORDS.iter().any(|(other, words)| *other == tool && words.contains(&word))
}

/// The most exact source wins: files that pin, then manifests that name one version, then CI, then ranges.
#[expect(clippy::too_many_lines, reason = "a list of files, one after the other")]
pub(super) fn collect(files: &Files<'_>, ci: &CiPlan, found: &mut BTreeMap<String, Version>) {
    let mut put = |tool: &str, value: &str, file: &str, rule: &str, line| {
        let value = value.trim().trim_matches(['"', '\'']);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+*<>=~^!,|/ @".contains(c);
        if value.len() > 100 || !value.chars().all(is_plain) || !is_version(tool, value) {
            return;
        }
        let why = Source { file: file.to_owned(), line, rule: rule.to_owned() };
        found.entry(tool.to_owned()).or_insert_with(|| Version { value: value.to_owned(), why });
    };
    for (file, tool) in PLAIN {
        let text = files.text(file).unwrap_or_default();
        let first =
            text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        put(tool, first.unwrap_or_default().trim_start_matches("ruby-"), file, "pinned", Some(1));
    }
    let tools = files.text(".tool-versions").unwrap_or_default();
    for (at, line) in (1u32..).zip(tools.lines().take(200)) {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        if let (Some(tool), Some(version)) = (words.next(), words.next()) {
            let tool = OTHER_NAMES.iter().find(|row| row.0 == tool).map_or(tool, |row| row.1);
            put(tool, version, ".tool-versions", "pinned", Some(at));
        }
    }
    if let Some(text) = files.text("rust-toolchain.toml").or_else(|| files.text("rust-toolchain")) {
        let table = read::toml(&text).ok();
        let channel =
            table.as_ref().and_then(|table| table.get("toolchain")?.get("channel")?.as_str());
        let plain = text.trim();
        let is_plain = !plain.contains(['\n', '[']);
        put(
            "rust",
            channel.unwrap_or(if is_plain { plain } else { "" }),
            "rust-toolchain.toml",
            "channel",
            None,
        );
    }
    let manifest = files.text("package.json").and_then(|text| read::json(&text).ok());
    let manifest = manifest.unwrap_or_default();
    if let Some((name, version)) =
        manifest.get("packageManager").and_then(Value::as_str).and_then(|it| it.split_once('@'))
    {
        put(
            name,
            version.split('+').next().unwrap_or_default(),
            "package.json",
            "packageManager",
            None,
        );
    }
    if let Some(json) = files.text("global.json").and_then(|text| read::json(&text).ok()) {
        let version = json.get("sdk").and_then(|sdk| sdk.get("version")).and_then(Value::as_str);
        put("dotnet", version.unwrap_or_default(), "global.json", "sdk", None);
    }
    let module = files.text("go.mod").unwrap_or_default();
    for word in ["toolchain go", "go "] {
        let line = module.lines().find_map(|line| line.strip_prefix(word));
        put(
            "go",
            line.unwrap_or_default(),
            "go.mod",
            "go",
            line_of(&module, &format!("\n{word}")).map(|at| at + 1),
        );
    }
    for (tool, version) in &ci.versions {
        put(tool, &version.value, &version.why.file, &version.why.rule, version.why.line);
    }
    let engine = manifest.get("engines").and_then(|it| it.get("node")).and_then(Value::as_str);
    put("node", engine.unwrap_or_default(), "package.json", "engines", None);
    if let Some(table) = files.text("pyproject.toml").and_then(|text| read::toml(&text).ok()) {
        let range = table.get("project").and_then(|it| it.get("requires-python")?.as_str());
        put("python", range.unwrap_or_default(), "pyproject.toml", "requires-python", None);
    }
    if let Some(table) = files.text("Cargo.toml").and_then(|text| read::toml(&text).ok()) {
        let least = |key: &str| table.get(key)?.get("rust-version")?.as_str();
        let least = least("package")
            .or_else(|| table.get("workspace")?.get("package")?.get("rust-version")?.as_str());
        put(
            "rust",
            &least.map(|it| format!(">={it}")).unwrap_or_default(),
            "Cargo.toml",
            "rust-version",
            None,
        );
    }
}
