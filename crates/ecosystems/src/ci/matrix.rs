//! The matrix of a job of GitHub's workflows: one sensible entry of it.

use std::collections::{BTreeMap, BTreeSet};

use github_actions_expressions::Evaluation;
use serde_json::{Map, Value};

use super::expressions::{ExpressionValues, value_of};
use super::functions::below;
use crate::read::scalar;

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
    /// Linux, and the newest plain version of each list.
    pub(super) fn of(job: &Value, known: &ExpressionValues) -> MatrixEntry {
        let mut entry = MatrixEntry::default();
        let Some(matrix) = job.get("strategy").and_then(|it| it.get("matrix")) else {
            return entry;
        };
        let Some(matrix) = with_values(matrix, known) else {
            return MatrixEntry { is_unknown: true, ..entry };
        };
        let Some(matrix) = matrix.as_object() else { return entry };
        for (name, values) in matrix {
            if name == "include" || name == "exclude" {
                continue;
            }
            let name = name.to_ascii_lowercase();
            match with_values(values, known) {
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
        let included = matrix.get("include").and_then(|it| with_values(it, known));
        let included = included.as_ref().and_then(Value::as_array);
        entry.include(included.map(Vec::as_slice).unwrap_or_default());
        entry
    }

    fn include(&mut self, included: &[Value]) {
        // A matrix of entries only: the first for Linux, or the first of all.
        if self.values.is_empty() && self.unknown.is_empty() {
            self.values
                .extend(chosen(included).and_then(Value::as_object).map(named).unwrap_or_default());
            return;
        }
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

fn chosen(values: &[Value]) -> Option<&Value> {
    let says = |value: &Value, word: &str| value.to_string().to_ascii_lowercase().contains(word);
    let is_linux = |value: &&Value| says(value, "ubuntu") || says(value, "linux");
    let is_elsewhere = |value: &&Value| says(value, "windows") || says(value, "macos");
    let mut here: Vec<&Value> = values.iter().filter(is_linux).collect();
    if here.is_empty() {
        here = values.iter().filter(|it| !is_elsewhere(it)).collect();
    }
    if here.iter().any(|it| !is_tried_out(it)) {
        here.retain(|it| !is_tried_out(it));
    }
    let stable = here.iter().find(|it| it.as_str() == Some("stable"));
    // The first of those with the same version.
    let newest = here.iter().rev().filter(|it| version(it).is_some()).max_by_key(|it| version(it));
    stable.or(newest).or(here.first()).copied().or(values.first())
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
