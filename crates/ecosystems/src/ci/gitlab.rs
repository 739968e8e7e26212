//! `.gitlab-ci.yml`, with the files of the repository that it includes and the jobs that others extend or refer to; nothing
//! from elsewhere. Source of the format: "CI/CD YAML syntax reference", docs.gitlab.com.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::actions::entries;
use super::other::{simple, variables};
use super::{CiPlan, MAX_JOBS, MAX_STEPS, gitlab_rules, matrix, shell};
use crate::files::{self, Files, line_of};
use crate::read::{self, scalar, scalars};
use crate::services::of_gitlab;

const PATH: &str = ".gitlab-ci.yml";
/// Most files, and most jobs that are put together of others. GitLab takes 150 files.
const MAX_INCLUDED: usize = 20;
const MAX_EXTENDED: usize = 200;
/// How deep references may refer to each other, as there.
const MAX_DEPTH: usize = 10;
/// Most parts of values that are put together or looked at, in all.
const MAX_PARTS: usize = 300_000;
/// What stands for the tag `!reference`, which the parser does not tell.
const REFERENCE: &str = "__reference__";

/// Keys of GitLab's file that are no jobs.
const NO_JOBS: &[&str] = &[
    "stages",
    "variables",
    "default",
    "include",
    "workflow",
    "image",
    "services",
    "cache",
    "before_script",
    "after_script",
    "pages",
    "spec",
];

pub(super) fn read(files: &Files<'_>, plan: &mut CiPlan) {
    let mut ci = Pipeline { file: Value::Null, texts: Vec::new(), room: Cell::new(MAX_PARTS) };
    ci.file = ci.load(files, PATH, plan);
    let jobs = ci.jobs();
    for (name, job) in &jobs {
        ci.job(name, job, &jobs, plan);
    }
    if ci.room.get() == 0 {
        plan.note(PATH, "has too many parts that extend or refer to each other; not all are read");
    }
}

struct Pipeline {
    /// All files together.
    file: Value,
    /// Each with its path.
    texts: Vec<(String, String)>,
    /// How many parts of values may still be looked at.
    room: Cell<usize>,
}

impl Pipeline {
    /// A file, over what it includes.
    fn load(&mut self, files: &Files<'_>, path: &str, plan: &mut CiPlan) -> Value {
        let is_known = self.texts.iter().any(|(known, _)| known == path);
        if is_known || self.texts.len() == MAX_INCLUDED {
            return Value::Null;
        }
        let Some(text) = files.text(path) else { return Value::Null };
        self.texts.push((path.to_owned(), text.clone()));
        let own = match read::yaml(&with_references(&text)) {
            Ok(own) => own,
            Err(why) => {
                plan.note(path, why);
                return Value::Null;
            }
        };
        let mut all = Value::Null;
        for included in own.get("include").map(included).unwrap_or_default() {
            let other = self.load(files, &included, plan);
            self.merge(&mut all, &other);
        }
        self.merge(&mut all, &own);
        all
    }

    /// Puts one value over another: maps together, anything else in its place.
    fn merge(&self, into: &mut Value, over: &Value) {
        if self.room.get() == 0 {
            return;
        }
        self.room.set(self.room.get() - 1);
        match (into, over) {
            (_, Value::Null) => {}
            (Value::Object(into), Value::Object(over)) => {
                for (key, value) in over {
                    self.merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            (into, Value::Object(over)) => {
                *into = Value::Object(Map::new());
                self.merge(into, &Value::Object(over.clone()));
            }
            (into, over) => {
                self.room.set(self.room.get().saturating_sub(parts(over)));
                into.clone_from(over);
            }
        }
    }

    /// The jobs that run for a change, with what they extend.
    fn jobs(&self) -> Vec<(String, Value)> {
        let is_name = |name: &&String| !NO_JOBS.contains(&name.as_str()) && !name.starts_with('.');
        let names = entries(Some(&self.file)).map(|(name, _)| name).filter(is_name);
        let mut known = BTreeMap::new();
        let jobs = names.map(|name| (name.clone(), self.extended(name, &mut known)));
        jobs.filter(|(_, job)| job.get("script").is_some()).take(MAX_JOBS).collect()
    }

    /// A job over those that it extends.
    fn extended(&self, name: &str, known: &mut BTreeMap<String, Value>) -> Value {
        if let Some(job) = known.get(name) {
            return job.clone();
        }
        let Some(own) = self.file.get(name) else { return Value::Null };
        let parents = own.get("extends").map(scalars).unwrap_or_default();
        if parents.is_empty() || known.len() >= MAX_EXTENDED {
            return own.clone();
        }
        // One that extends itself, over others or not, ends here.
        known.insert(name.to_owned(), own.clone());
        let mut all = Value::Null;
        for parent in parents.iter().take(11) {
            let parent = self.extended(parent, known);
            self.merge(&mut all, &parent);
        }
        self.merge(&mut all, own);
        known.insert(name.to_owned(), all.clone());
        all
    }

    fn job(&self, name: &str, job: &Value, jobs: &[(String, Value)], plan: &mut CiPlan) {
        let stage = job.get("stage").and_then(scalar).unwrap_or_default();
        let is_aside = ["deploy", "release", "publish"].iter().any(|word| stage.contains(word));
        if is_aside || !gitlab_rules::runs(job, self.rules(job).as_deref()) {
            return;
        }
        let default = self.file.get("default").cloned().unwrap_or_default();
        let of = |value: &Value, key: &str| value.get(key).map(|it| self.scripts(it));
        let before = of(job, "before_script").or_else(|| of(&default, "before_script"));
        let before = before.or_else(|| of(&self.file, "before_script")).unwrap_or_default();
        let mut environment = variables(self.file.get("variables"));
        environment.extend(variables(job.get("variables")));
        environment.extend(in_parallel(job));
        let commands = before.into_iter().chain(of(job, "script").unwrap_or_default());
        let source = |first: &str| self.source(first);
        let mut read = simple((PATH, name), &source, commands, &environment, shell::of_gitlab);
        // A list of exit codes is about some failures only.
        let may_fail = job.get("allow_failure") == Some(&Value::Bool(true));
        read.steps.iter_mut().for_each(|step| step.may_fail = may_fail);
        let services = [job, &default, &self.file].iter().find_map(|it| it.get("services"));
        for service in services.and_then(Value::as_array).into_iter().flatten().take(20) {
            let image = scalar(service.get("name").unwrap_or(service)).unwrap_or_default();
            read.add_service(&image, of_gitlab(service, &environment));
        }
        read.takes_from = takes_from(&self.file, jobs, job);
        plan.jobs.push(read);
    }

    /// The file and the line of a command.
    fn source(&self, first: &str) -> (String, Option<u32>) {
        let found = self.texts.iter().find_map(|(path, text)| Some((path, line_of(text, first)?)));
        let found = found.filter(|_| !first.is_empty());
        found.map_or((PATH.to_owned(), None), |(path, line)| (path.clone(), Some(line)))
    }

    /// A script is a list of lines, with lists in it where anchors or references are used.
    fn scripts(&self, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        self.flatten(value, MAX_DEPTH, &mut |line| match line {
            Value::Bool(_) => {}
            line => found.extend(scalar(line)),
        });
        found.truncate(MAX_STEPS);
        found
    }

    fn rules(&self, job: &Value) -> Option<Vec<Value>> {
        let mut found = Vec::new();
        self.flatten(job.get("rules")?, MAX_DEPTH, &mut |rule| found.push(rule.clone()));
        Some(found)
    }

    /// The items of a list of lists. What is referred to may refer to others, `depth` times.
    fn flatten(&self, value: &Value, depth: usize, take: &mut dyn FnMut(&Value)) {
        let Some(room) = self.room.get().checked_sub(1) else { return };
        self.room.set(room);
        let Some(many) = value.as_array() else { return take(value) };
        match many.split_first() {
            Some((first, path)) if first.as_str() == Some(REFERENCE) => {
                if let (Some(depth), Some(there)) = (depth.checked_sub(1), self.referred(path)) {
                    self.flatten(&there, depth, take);
                }
            }
            _ => many.iter().for_each(|one| self.flatten(one, depth, take)),
        }
    }

    /// What stands at a path, `[.setup, script]`.
    fn referred(&self, path: &[Value]) -> Option<Value> {
        let (job, keys) = path.split_first()?;
        let mut keys = keys.iter().filter_map(Value::as_str);
        let job = self.extended(job.as_str()?, &mut BTreeMap::new());
        self.room.set(self.room.get().saturating_sub(parts(&job)));
        keys.try_fold(job, |value, key| value.get(key).cloned())
    }
}

/// How many parts a value has.
fn parts(value: &Value) -> usize {
    match value {
        Value::Array(many) => 1 + many.iter().map(parts).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(parts).sum::<usize>(),
        _ => 1,
    }
}

/// The text with lists in place of the tag, which is left out of values.
fn with_references(text: &str) -> String {
    #[expect(clippy::expect_used, reason = "a constant")]
    static TAG: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?m)(^|[\s\[,:-])!reference[ \t]*\[").expect("a valid pattern")
    });
    TAG.replace_all(text, format!("${{1}}[{REFERENCE}, ")).into_owned()
}

/// The paths of the repository that `include` names.
fn included(include: &Value) -> Vec<String> {
    let one = |it: &Value| match it {
        Value::String(path) => Some(path.clone()),
        other => other.get("local").and_then(scalar),
    };
    let paths: Vec<String> = match include {
        Value::Array(many) => many.iter().filter_map(one).collect(),
        one_alone => one(one_alone).into_iter().collect(),
    };
    let is_local = |path: &&String| !path.contains("://") && !path.contains(['*', '$']);
    let inside = |path: &String| files::resolve("", path.trim_start_matches('/'));
    paths.iter().filter(is_local).filter_map(inside).collect()
}

/// The variables of the first job of `parallel: matrix`, with the newest of versions.
fn in_parallel(job: &Value) -> BTreeMap<String, String> {
    let rows = job.get("parallel").and_then(|it| it.get("matrix")).and_then(Value::as_array);
    let mut first = rows.and_then(|rows| rows.first()).cloned().unwrap_or_default();
    for value in first.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(chosen) = value.as_array().and_then(|many| matrix::chosen(many)).cloned() {
            *value = chosen;
        }
    }
    variables(Some(&first))
}

/// The jobs whose artifacts a job of GitLab finds in its folder: those that `needs` or `dependencies` name, and without
/// either all of earlier stages, in their order.
fn takes_from(file: &Value, jobs: &[(String, Value)], job: &Value) -> Vec<String> {
    let stages = file.get("stages").map(scalars);
    let stages = stages.unwrap_or_else(|| ["build", "test", "deploy"].map(str::to_owned).to_vec());
    let place = |job: &Value| {
        let stage = job.get("stage").and_then(scalar).unwrap_or_else(|| "test".to_owned());
        match stage.as_str() {
            ".pre" => Some(0),
            ".post" => Some(usize::MAX),
            stage => stages.iter().position(|it| it == stage).map(|at| at + 1),
        }
    };
    let is_taken = |need: &Value| need.get("artifacts") != Some(&Value::Bool(false));
    let name_of = |need: &Value| scalar(need).or_else(|| need.get("job").and_then(scalar));
    let listed = ["dependencies", "needs"].iter().find_map(|key| job.get(*key)?.as_array());
    let named: Option<BTreeSet<String>> = listed
        .map(|listed| listed.iter().filter(|need| is_taken(need)).filter_map(name_of).collect());
    let has_artifacts =
        |job: &Value| job.get("artifacts").is_some_and(|it| it.get("paths").is_some());
    let mut found: Vec<(Option<usize>, &String)> = jobs
        .iter()
        .filter(|(name, other)| {
            has_artifacts(other)
                && match &named {
                    Some(named) => named.contains(name),
                    None => place(other).zip(place(job)).is_some_and(|(there, here)| there < here),
                }
        })
        .map(|(name, other)| (place(other), name))
        .collect();
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, name)| name.clone()).collect()
}

#[cfg(test)]
#[path = "gitlab_tests.rs"]
mod tests;
