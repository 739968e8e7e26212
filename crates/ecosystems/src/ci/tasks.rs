//! Targets of task runners, read from their files without running them: make, just, Task, tox, nox.

use serde::{Deserialize, Serialize};

use super::StepPurpose;
use super::actions::entries;
use crate::files::{Files, line_of, quote};
use crate::read;
use crate::setup::Source;

/// Names of targets that are what they say.
const TESTS: &[&str] =
    &["test", "tests", "check", "unit", "unittest", "unit-test", "unit-tests", "test-unit"];
const LINTS: &[&str] = &["lint", "fmt-check", "format-check", "style", "typecheck"];
const INSTALLS: &[&str] =
    &["install", "deps", "setup", "bootstrap", "install-dev", "dev-deps", "init"];

/// A target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub command: String,
    pub is_for: StepPurpose,
    pub why: Source,
}

/// The targets of the root's task runners that are called what they are for.
pub fn targets(files: &Files<'_>) -> Vec<Target> {
    let mut found = Vec::new();
    for file in ["GNUmakefile", "makefile", "Makefile"] {
        if let Some(text) = files.text(file) {
            add(&mut found, file, &text, "make", &make(&text));
            break;
        }
    }
    for file in ["justfile", "Justfile", ".justfile"] {
        if let Some(text) = files.text(file) {
            add(&mut found, file, &text, "just", &just(&text));
            break;
        }
    }
    for file in ["Taskfile.yml", "Taskfile.yaml", "taskfile.yml"] {
        if let Some(text) = files.text(file) {
            let yaml = read::yaml(&text).unwrap_or_default();
            let names: Vec<String> =
                entries(yaml.get("tasks")).map(|(name, _)| name.clone()).collect();
            add(&mut found, file, &text, "task", &names);
            break;
        }
    }
    found
}

fn add(found: &mut Vec<Target>, file: &str, text: &str, program: &str, names: &[String]) {
    for (wanted, is_for) in
        [(TESTS, StepPurpose::Test), (LINTS, StepPurpose::Lint), (INSTALLS, StepPurpose::Install)]
    {
        for name in wanted.iter().filter(|name| names.iter().any(|it| it == *name)) {
            let command = format!("{program} {}", quote(name));
            let line = line_of(text, &format!("\n{name}")).map(|line| line + 1).or(Some(1));
            let why = Source { file: file.to_owned(), line, rule: (*name).to_owned() };
            found.push(Target { command, is_for, why });
        }
    }
}

/// Names in front of a colon that is no assignment.
pub(crate) fn make(text: &str) -> Vec<String> {
    let rules = text.lines().filter(|line| !line.starts_with(['\t', '#', '.']));
    let targets = rules.filter_map(|line| {
        let (targets, rest) = line.split_once(':')?;
        (!rest.starts_with('=') && !rest.starts_with(":=")).then_some(targets)
    });
    targets.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// Names of recipes, which may have parameters.
fn just(text: &str) -> Vec<String> {
    let heads = text.lines().filter(|line| !line.starts_with([' ', '\t', '#', '[']));
    let recipes = heads.filter_map(|line| {
        let (head, rest) = line.split_once(':')?;
        let name = head.trim_start_matches('@').split_whitespace().next()?;
        (!rest.starts_with('=')).then(|| name.to_owned())
    });
    recipes.collect()
}
