//! The matrix of a job of GitHub's workflows: one sensible entry of it.

use std::collections::{BTreeMap, BTreeSet};

use github_actions_expressions::Evaluation;
use serde_json::{Map, Value};

use super::expressions::{ExpressionValues, value_of};
use super::functions::below;
use crate::read::scalar;

/// Most entries of one matrix whose values are parts of the tests.
const MAX_PARTS: usize = 12;
/// What is in the name of a list of parts, and whole words of it.
const PARTS: &[&str] = &["suite", "shard", "chunk", "part", "group", "split"];
const PART_WORDS: &[&str] = &[
    "test",
    "tests",
    "script",
    "scripts",
    "task",
    "command",
    "package",
    "packages",
    "project",
    "projects",
    "module",
    "modules",
    "component",
    "crate",
];
/// What says that such a name is about how everything is tested.
const NO_PARTS: &[&str] =
    &["manager", "tag", "flag", "option", "arg", "version", "platform", "runner"];
/// Words of values that are about something else than the tests of the code.
const ASIDE: &[&str] =
    &["example", "examples", "doc", "docs", "lint", "format", "typecheck", "types", "nightly"];

/// The chosen entry.
#[derive(Clone, Debug, Default)]
pub(super) struct MatrixEntry {
    /// By name, in lower case.
    values: BTreeMap<String, Value>,
    /// Names whose lists only a run has.
    unknown: BTreeSet<String>,
    /// All of it comes from another job.
    is_unknown: bool,
}

impl MatrixEntry {
    /// Linux, and the newest plain version of each list; and after this entry those that are the same except for the part of the
    /// tests that they name.
    pub(super) fn all_of(job: &Value, known: &ExpressionValues) -> Vec<MatrixEntry> {
        let mut entry = MatrixEntry::default();
        let Some(matrix) = job.get("strategy").and_then(|it| it.get("matrix")) else {
            return vec![entry];
        };
        let Some(matrix) = with_values(matrix, known) else {
            return vec![MatrixEntry { is_unknown: true, ..entry }];
        };
        let Some(matrix) = matrix.as_object() else { return vec![entry] };
        let mut parts: Vec<(String, Value)> = Vec::new();
        for (name, values) in matrix {
            if name == "include" || name == "exclude" {
                continue;
            }
            let name = name.to_ascii_lowercase();
            match with_values(values, known) {
                Some(Value::Array(values)) if names_parts(&name) => {
                    let mut values = parts_among(&values).into_iter().cloned();
                    entry.values.extend(values.next().map(|first| (name.clone(), first)));
                    parts.extend(values.map(|other| (name.clone(), other)));
                }
                Some(Value::Array(values)) => {
                    if let Some(value) = chosen(&values) {
                        entry.values.insert(name, value.clone());
                    }
                }
                Some(value) => {
                    entry.values.insert(name, value);
                }
                None => {
                    entry.unknown.insert(name);
                }
            }
        }
        let rows = |key: &str| match matrix.get(key).and_then(|it| with_values(it, known)) {
            Some(Value::Array(rows)) => rows,
            _ => Vec::new(),
        };
        entry.with_others(parts, &rows("include"), &rows("exclude"))
    }

    fn with_others(
        mut self,
        parts: Vec<(String, Value)>,
        included: &[Value],
        excluded: &[Value],
    ) -> Vec<MatrixEntry> {
        // A matrix of entries only: the first for Linux, or the first of all.
        if self.values.is_empty() && self.unknown.is_empty() {
            let entries = included.iter().filter_map(Value::as_object).map(named);
            let first = chosen(included).and_then(Value::as_object).map(named).unwrap_or_default();
            let others = entries.filter(|other| is_other_part(&first, other)).take(MAX_PARTS - 1);
            let others: Vec<BTreeMap<String, Value>> = others.collect();
            self.values.extend(first);
            let other = |values| MatrixEntry { values, ..MatrixEntry::default() };
            return [self].into_iter().chain(others.into_iter().map(other)).collect();
        }
        let mut all = vec![self.clone()];
        all.extend(parts.into_iter().take(MAX_PARTS - 1).map(|(name, value)| {
            let mut other = self.clone();
            other.values.insert(name, value);
            other
        }));
        let first = all.remove(0);
        all.retain(|entry| {
            let mut rows = excluded.iter().filter_map(Value::as_object).map(named);
            !rows.any(|row| row.iter().all(|(name, value)| entry.values.get(name) == Some(value)))
        });
        all.insert(0, first);
        for entry in &mut all {
            entry.include(included);
        }
        all
    }

    fn include(&mut self, included: &[Value]) {
        let chosen = self.values.clone();
        for more in included.iter().filter_map(Value::as_object).map(named) {
            // It belongs to the entries that it does not contradict.
            if more.iter().all(|(name, value)| chosen.get(name).is_none_or(|it| it == value)) {
                self.values.extend(more);
            }
        }
    }

    /// The value at a path. What this entry does not have is empty, as on the runner; `None` where only a run
    /// has it.
    pub(super) fn find(&self, path: &[&str]) -> Option<Evaluation> {
        let (name, rest) = path.split_first()?;
        let name = name.to_ascii_lowercase();
        match self.values.get(&name) {
            Some(value) => below(Evaluation::try_from(value.clone()).ok()?, rest),
            None => (!self.is_unknown && !self.unknown.contains(&name)).then_some(Evaluation::Null),
        }
    }
}

/// A value, or what the expression that stands for it comes to.
fn with_values(value: &Value, known: &ExpressionValues) -> Option<Value> {
    match value {
        Value::String(text) if text.contains("${{") => value_of(text, known),
        other => Some(other.clone()),
    }
}

/// The values of a list are parts of the tests, not versions or systems.
fn names_parts(name: &str) -> bool {
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let is_word = words.any(|word| PART_WORDS.contains(&word));
    let is_other = NO_PARTS.iter().any(|word| name.contains(word));
    (is_word || PARTS.iter().any(|part| name.contains(part))) && !is_other
}

/// Those of a list of parts that are about the tests of the code and run on Linux, in their order; or the first.
fn parts_among(values: &[Value]) -> Vec<&Value> {
    let found: Vec<&Value> =
        values.iter().filter(|it| !is_aside(it) && !is_tried_out(it)).collect();
    if found.is_empty() { values.iter().take(1).collect() } else { found }
}

fn is_aside(value: &Value) -> bool {
    let text = value.to_string().to_ascii_lowercase();
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| ASIDE.contains(&word))
        || ["windows", "macos"].iter().any(|it| text.contains(it))
}

/// An entry of a matrix of entries is the same as another, except for the part of the tests that it names.
fn is_other_part(first: &BTreeMap<String, Value>, other: &BTreeMap<String, Value>) -> bool {
    let names_one = first.keys().any(|name| names_parts(name));
    let value = Value::Object(other.clone().into_iter().collect());
    let differs = |name: &String| {
        let (one, another) = (first.get(name), other.get(name));
        one != another && another.is_some()
    };
    let is_version = |name: &String| other.get(name).is_some_and(|it| version(it).is_some());
    names_one
        && !is_aside(&value)
        && !is_tried_out(&value)
        && first.keys().any(|name| names_parts(name) && differs(name))
        && first.keys().all(|name| names_parts(name) || !differs(name) || !is_version(name))
}

/// Linux, and the newest plain version.
pub(super) fn chosen(values: &[Value]) -> Option<&Value> {
    let says = |value: &Value, word: &str| value.to_string().to_ascii_lowercase().contains(word);
    let is_linux = |value: &&Value| says(value, "ubuntu") || says(value, "linux");
    let is_elsewhere = |value: &&Value| says(value, "windows") || says(value, "macos");
    let mut all: Vec<&Value> = values.iter().collect();
    // Beside the entry for another machine, which may be the only one that names a system, the others are for Linux.
    for is_other in [is_for_other_machine, is_tried_out] {
        if all.iter().any(|it| !is_other(it)) {
            all.retain(|it| !is_other(it));
        }
    }
    let mut here: Vec<&Value> = all.iter().copied().filter(is_linux).collect();
    if here.is_empty() {
        here = all.iter().copied().filter(|it| !is_elsewhere(it)).collect();
    }
    let stable = here.iter().find(|it| it.as_str() == Some("stable"));
    // The first of those with the same version.
    let newest = here.iter().rev().filter(|it| version(it).is_some()).max_by_key(|it| version(it));
    stable.or(newest).or(here.first()).copied().or(values.first())
}

/// An entry names a processor that this machine does not have.
fn is_for_other_machine(entry: &Value) -> bool {
    const ARM: &[&str] = &["arm", "arm64", "aarch64"];
    const X86: &[&str] = &["amd64", "x64", "x86_64"];
    const RARE: &[&str] = &["armv7", "armhf", "386", "i386", "i686", "ppc64le", "riscv64", "s390x"];
    let other = if cfg!(target_arch = "aarch64") { X86 } else { ARM };
    let text = entry.to_string().to_ascii_lowercase();
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.any(|word| other.contains(&word) || RARE.contains(&word))
}

/// An entry that may fail.
fn is_tried_out(entry: &Value) -> bool {
    let says = |(name, value): (&String, &Value)| {
        let is_mark = ["experimental", "allow-failure", "allow_failure", "continue-on-error"]
            .contains(&name.to_ascii_lowercase().as_str());
        is_mark && *value == Value::Bool(true)
    };
    entry.as_object().is_some_and(|entry| entry.iter().any(says))
}

/// The newest version that a value is or has.
fn version(value: &Value) -> Option<Vec<u32>> {
    match value {
        Value::Object(entry) => {
            entry.values().filter(|it| !it.is_object()).filter_map(version).max()
        }
        Value::Array(_) => None,
        plain => release(&scalar(plain)?),
    }
}

fn named(entry: &Map<String, Value>) -> BTreeMap<String, Value> {
    entry.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect()
}

/// The numbers of a release; none of a word like `stable` or a range.
pub(super) fn release(version: &str) -> Option<Vec<u32>> {
    is_release(version).then(|| numbers(version))
}

fn is_release(version: &str) -> bool {
    version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(|c| c.is_ascii_digit() || ".x*".contains(c))
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}
