//! The sources against the project's own rules: size, headers, layers, words.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn sources(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.push((name, fs_err::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {folder}");
    found.sort();
    found
}

/// Lines that are code: not blank, not a comment, not in the file's own test module.
fn code_lines(text: &str) -> usize {
    let product = text.split("\n#[cfg(test)]\nmod tests").next().unwrap();
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    product.lines().filter(is_code).count()
}

#[test]
fn no_source_file_is_longer_than_400_lines_of_code() {
    let long: Vec<String> = sources("src")
        .iter()
        .map(|(name, text)| (name, code_lines(text)))
        .filter(|(_, lines)| *lines > 400)
        .map(|(name, lines)| format!("{name}: {lines}"))
        .collect();
    assert!(long.is_empty(), "split these: {long:#?}");
}

#[test]
fn every_source_file_says_what_it_is_for() {
    for (name, text) in sources("src").into_iter().chain(sources("tests")) {
        let is_fixture = name.contains("/fixtures/");
        assert!(is_fixture || text.starts_with("//!"), "{name} does not open with `//!`");
    }
}

#[test]
fn no_test_is_ignored_and_no_debt_is_left_in_the_sources() {
    let words = [["todo", "!("], ["unimplemented", "!("], ["FIX", "ME"], ["dbg", "!("]];
    let ignored = |line: &str| line.trim() == ["#[", "ignore]"].concat();
    for (name, text) in sources("src").into_iter().chain(sources("tests")) {
        assert!(!text.lines().any(ignored), "{name} has an ignored test");
        for word in words.map(|parts| parts.concat()) {
            assert!(!text.contains(&word), "{name} contains `{word}`");
        }
    }
}

#[test]
fn only_the_places_that_may_read_the_environment_or_print_do() {
    for (name, text) in sources("src") {
        let expects = text.contains("clippy::disallowed_methods");
        let may = [
            "src/sandbox/",
            "src/guest/",
            "crates/base/src/env.rs",
            "crates/base/src/clock.rs",
            "src/bin/",
            "src/git/",
            "crates/provider/src/http/answer.rs",
        ];
        assert!(
            !expects || may.iter().any(|place| name.starts_with(place)),
            "{name} lifts the ban on disallowed methods"
        );
    }
}

/// Layers from the top; a module may use modules of its own layer and below.
const LAYERS: &[&[&str]] = &[
    &["cli", "doctor"],
    &["server", "batch"],
    &["task"],
    &["agent", "report", "review", "policy", "verify", "context", "world", "telemetry"],
    &["tools", "mcp", "provider", "sandbox", "forge", "git", "store"],
    &["egress"],
    &["patch", "edit_format", "prompt", "guest"],
    &["config", "event", "clock"],
    &["gfm"],
    &["error", "redact"],
];

/// Plain data and the world itself, which may be named from anywhere.
const DATA: &[&str] = &[
    "patchwright_types::task::Task",
    "patchwright_types::task::TaskKind",
    "patchwright_types::task::Trigger",
    "patchwright_types::task::IssueSnapshot",
    "patchwright_types::task::Limits",
    "task::{",
    "task::plan",
    "task::outcome",
    "task::publish::Published",
    "task::review::outcome",
    "task::review::publish::Published",
    "provider::item",
    "provider::Reply",
    "provider::Progress",
    "provider::catalogue::Fields",
    "provider::catalogue::Model",
    "provider::ToolDeclaration",
    "provider::{",
    "tools::{",
    "patchwright_guest::tool::CommandOutput",
    "patchwright_guest::tool::ToolError",
    "patchwright_guest::tool::ToolOutput",
    "tools::guest",
    "patchwright_guest::tool::Effect",
    "git::tree",
    "git::Oid",
    "git::{",
    "policy::Policy",
    "policy::{",
    "policy::Judgement",
    "verify::",
    "world::",
    "sandbox::ContainerLimits",
    "forge::",
    "report::annotations",
    "review::finding",
    "context::hidden",
    "event::mention",
    "config::{",
    "report::text",
    "agent::journal",
    "cli::ui::Ui",
    "cli::common::Common",
    "redact::",
    "VERSION",
    "error::",
];

#[test]
fn dependencies_point_down() {
    let layer_of: BTreeMap<&str, usize> = LAYERS
        .iter()
        .enumerate()
        .flat_map(|(depth, modules)| modules.iter().map(move |module| (*module, depth)))
        .collect();
    let mut wrong = Vec::new();
    for (name, text) in sources("src") {
        let module = name.trim_start_matches("src/").split(['/', '.']).next().unwrap().to_owned();
        let Some(own) = layer_of.get(module.as_str()) else { continue };
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("use crate::")) {
            if DATA.iter().any(|data| line.starts_with(data)) {
                continue;
            }
            let used = line.split([':', ';', ' ']).next().unwrap();
            let Some(depth) = layer_of.get(used) else {
                wrong.push(format!("{name}: `{used}` is in no layer"));
                continue;
            };
            if depth < own {
                wrong.push(format!("{name} uses `{line}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
