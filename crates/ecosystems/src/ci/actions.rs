//! GitHub's workflows, and those that they call in the same repository.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::expressions::{ExpressionValues, resolve, runs, value_of};
use super::matrix::{self, MatrixEntry};
use super::steps::{SetupVersion, StepReader};
use super::{CiPlan, CiStep, Job, MAX_FILES, MAX_JOBS, StepPurpose, servers};
use crate::files::{self, Files};
use crate::read::{self, runner_scalar, scalar, scalars};
use crate::services;

const FOLDER: &str = ".github/workflows";

/// Events on which a workflow says something about a change.
const EVENTS: &[&str] = &["push", "pull_request", "pull_request_target", "merge_group"];

/// Those on which a pull request is what the event tells of, or may be.
const PULL_REQUESTS: &[&str] =
    &["pull_request", "pull_request_target", "merge_group", "workflow_call"];

/// Most workflows that are read, each as often as it is called with something else, and most jobs of all.
const MAX_READ: usize = 80;
const MAX_FOUND: usize = 400;

/// Most further entries of matrices that are read for one workflow.
const MAX_PARTS: usize = 24;

/// Most inputs of a workflow or an action that are read.
pub(super) const MAX_INPUTS: usize = 100;

pub(super) fn read(files: &Files<'_>, plan: &mut CiPlan) {
    let workflows = parsed(files, plan);
    let local: BTreeSet<String> = workflows.iter().flat_map(Workflow::calls).collect();
    let mut waiting: VecDeque<(&Workflow, Inputs, Option<String>)> = workflows
        .iter()
        .filter(|it| {
            it.is_for_agents() || it.is_about_changes() || it.is_called_from_elsewhere(&local)
        })
        .map(|it| (it, it.given(Inputs::new()), None))
        .collect();
    let (mut done, mut found) = (Vec::new(), Vec::new());
    while let Some((workflow, inputs, part_of)) = waiting.pop_front() {
        if done.len() == MAX_READ
            || found.len() > MAX_FOUND
            || done.contains(&(&workflow.path, inputs.clone()))
        {
            continue;
        }
        let from = found.len();
        for call in workflow.read(files, &inputs, &mut found, plan) {
            if let Some(called) = workflows.iter().find(|it| it.path == call.path) {
                let part_of = call.part_of.or_else(|| part_of.clone());
                waiting.push_back((called, called.given(call.with), part_of));
            }
        }
        for read in found.iter_mut().skip(from) {
            read.job.part_of = read.job.part_of.take().or_else(|| part_of.clone());
        }
        done.push((&workflow.path, inputs));
    }
    add(found, plan);
}

/// What is known of a job.
struct Found {
    job: Job,
    versions: Vec<SetupVersion>,
    /// What it says to other jobs, by `JOB.NAME`.
    outputs: BTreeMap<String, String>,
}

/// Adds jobs to the plan. Versions are those of jobs with tests, where they have any: a scanner or a deployment has
/// compilers of its own.
fn add(found: Vec<Found>, plan: &mut CiPlan) {
    let has_tests = |it: &Found| it.job.is_for_agents || it.job.tests().next().is_some();
    let (with, without): (Vec<&Found>, Vec<&Found>) = found.iter().partition(|it| has_tests(it));
    // Of releases the newest, and else the first that is named.
    for jobs in [with, without] {
        let mut versions: Vec<&SetupVersion> = jobs.iter().flat_map(|it| &it.versions).collect();
        let words = versions.iter().filter(|it| matrix::release(&it.version).is_none());
        let words: BTreeSet<&str> = words.map(|it| it.tool).collect();
        versions.sort_by_key(|it| {
            let release = matrix::release(&it.version).filter(|_| !words.contains(it.tool));
            std::cmp::Reverse(release)
        });
        for it in versions {
            plan.version(it.tool, it.version.clone(), &it.file, &it.action);
        }
    }
    plan.jobs.extend(found.into_iter().map(|it| it.job).filter(|job| !job.steps.is_empty()));
}

/// The workflows that can be read.
fn parsed(files: &Files<'_>, plan: &mut CiPlan) -> Vec<Workflow> {
    let is_workflow = |name: &String| name.ends_with(".yml") || name.ends_with(".yaml");
    let names: Vec<String> = files.files(FOLDER).into_iter().filter(is_workflow).collect();
    if names.len() > MAX_FILES {
        plan.note(
            FOLDER,
            format!("only the first {MAX_FILES} of {} workflows are read", names.len()),
        );
    }
    let mut workflows = Vec::new();
    for name in names.iter().take(MAX_FILES) {
        let path = format!("{FOLDER}/{name}");
        let Some(text) = files.text(&path) else {
            plan.note(&path, "is too large to be read");
            continue;
        };
        match read::workflow(&text) {
            Ok(content) => workflows.push(Workflow { path, text, content }),
            Err(why) => plan.note(&path, why),
        }
    }
    // What pull requests are judged by comes before what runs for pushes alone, such as releases.
    workflows.sort_by_key(|it| !it.is_for_agents() && it.is_push_only());
    workflows
}

/// What a workflow or an action was given, by name; without a value where only a run has it.
type Inputs = BTreeMap<String, Option<Value>>;

/// A job that is another workflow of the repository.
struct Call {
    path: String,
    with: Inputs,
    part_of: Option<String>,
}

struct Workflow {
    path: String,
    text: String,
    content: Value,
}

impl Workflow {
    fn is_for_agents(&self) -> bool {
        self.path.ends_with("/copilot-setup-steps.yml")
            || self.path.ends_with("/copilot-setup-steps.yaml")
    }

    fn is_about_changes(&self) -> bool {
        self.event().is_some_and(|on| is_about_changes(on, EVENTS))
    }

    /// No pull request sets it off.
    fn is_push_only(&self) -> bool {
        self.event().is_some_and(|on| !is_about_changes(on, PULL_REQUESTS))
    }

    /// Other repositories may call it, as far as this one can tell.
    fn is_called_from_elsewhere(&self, local: &BTreeSet<String>) -> bool {
        !local.contains(&self.path)
            && self.event().is_some_and(|on| is_about_changes(on, &["workflow_call"]))
    }

    fn event(&self) -> Option<&Value> {
        self.content.get("on").or_else(|| self.content.get("true"))
    }

    fn jobs(&self) -> impl Iterator<Item = (&String, &Value)> {
        entries(self.content.get("jobs")).take(MAX_JOBS)
    }

    /// The workflows of this repository that its jobs name.
    fn calls(&self) -> impl Iterator<Item = String> {
        self.jobs().filter_map(|(_, job)| called(job))
    }

    /// The inputs that it declares for calls.
    fn declared(&self) -> impl Iterator<Item = (&String, &Value)> {
        let call = self.event().and_then(|on| on.get("workflow_call"));
        entries(call.and_then(|call| call.get("inputs")))
    }

    /// What a caller gives, and the defaults of the rest.
    fn given(&self, mut with: Inputs) -> Inputs {
        for (name, input) in self.declared().take(MAX_INPUTS) {
            let is_required = input.get("required").and_then(Value::as_bool).unwrap_or_default();
            let default = input.get("default").cloned().or((!is_required).then_some(Value::Null));
            let value = with.entry(name.to_ascii_lowercase()).or_insert(default);
            if input.get("type").and_then(Value::as_str) == Some("string") {
                *value = value.take().map(as_text);
            }
        }
        with
    }

    /// Reads its jobs, and tells which workflows it calls.
    fn read(
        &self,
        files: &Files<'_>,
        inputs: &Inputs,
        found: &mut Vec<Found>,
        plan: &mut CiPlan,
    ) -> Vec<Call> {
        let mut calls = Vec::new();
        if self.content.get("jobs").and_then(Value::as_object).is_none() {
            plan.note(&self.path, "has no jobs");
        }
        let is_for_agents = self.is_for_agents();
        let skipped = self.skipped(inputs, self.is_push_only());
        let mut needs = BTreeMap::new();
        let mut parts_left = MAX_PARTS;
        for (name, job) in self.jobs() {
            if skipped.contains(name.as_str()) || (is_for_agents && name != "copilot-setup-steps") {
                continue;
            }
            let known = ExpressionValues {
                inputs: inputs.clone(),
                needs: needs.clone(),
                is_push_only: self.is_push_only(),
                ..ExpressionValues::default()
            };
            let mut entries = MatrixEntry::all_of(job, &known);
            entries.truncate(1 + parts_left);
            parts_left -= entries.len() - 1;
            let part_of = (entries.len() > 1).then(|| format!("{}: {name}", self.path));
            let first = found.len();
            for entry in entries {
                let known = ExpressionValues { matrix: entry, ..known.clone() };
                if !is_linux(job, &known) {
                    continue;
                }
                if let Some(path) = called(job) {
                    let with = given(job.get("with"), &known);
                    calls.push(Call { path, with, part_of: part_of.clone() });
                    continue;
                }
                let mut read = self.job(files, (name, job), known, plan);
                read.job.is_for_agents = is_for_agents;
                read.job.part_of.clone_from(&part_of);
                if found.len() == first {
                    needs.append(&mut read.outputs);
                }
                match found.get(first) {
                    Some(known) if !is_other_part(&known.job, &read.job) => {}
                    known => {
                        // Of the first entry with tests.
                        if known.is_some_and(|it| it.job.tests().next().is_some()) {
                            read.versions.clear();
                        }
                        found.push(read);
                    }
                }
            }
        }
        calls
    }

    /// The jobs that do not run for a change: by their own condition, or because one that they need does not.
    fn skipped(&self, inputs: &Inputs, is_push_only: bool) -> BTreeSet<&str> {
        let known = ExpressionValues {
            inputs: inputs.clone(),
            is_push_only,
            ..ExpressionValues::default()
        };
        let condition = |job: &Value| job.get("if").and_then(scalar).unwrap_or_default();
        let mut skipped: BTreeSet<&str> = self
            .jobs()
            .filter(|(_, job)| !runs(Some(&condition(job)), &known))
            .map(|(name, _)| name.as_str())
            .collect();
        loop {
            let before = skipped.len();
            for (name, job) in self.jobs().filter(|(_, job)| !has_status_function(&condition(job)))
            {
                let needs = job.get("needs").map(scalars).unwrap_or_default();
                if needs.iter().any(|needed| skipped.contains(needed.as_str())) {
                    skipped.insert(name);
                }
            }
            if skipped.len() == before {
                return skipped;
            }
        }
    }

    fn job(
        &self,
        files: &Files<'_>,
        (name, job): (&str, &Value),
        known: ExpressionValues,
        plan: &mut CiPlan,
    ) -> Found {
        let mut found = Job { file: self.path.clone(), name: name.to_owned(), ..Job::default() };
        let mut steps = StepReader::of_job(files, &self.path, &self.text, known);
        steps.add_variables(self.content.get("env"));
        steps.add_variables(job.get("env"));
        steps.may_fail = steps.says_may_fail(job);
        steps.defaults = [job, &self.content].map(|it| it.get("defaults").cloned());
        let beside = job.get("services").and_then(Value::as_object);
        for (name, service) in beside.into_iter().flatten().take(20) {
            let read = services::of_workflow(name, service, &|text| resolve(text, &steps.known));
            found.add_service(name, read.map(|service| (name.clone(), service)));
        }
        found.takes_from = takes_from(job);
        steps.read(job.get("steps"), &mut found, plan);
        servers::mark(&mut found);
        let outputs = entries(job.get("outputs")).take(MAX_INPUTS).filter_map(|(output, value)| {
            Some((format!("{name}.{output}"), resolve(&scalar(value)?, &steps.known).ok()?))
        });
        Found { job: found, outputs: outputs.collect(), versions: steps.versions }
    }
}

/// Another entry of the matrix of a job has tests that the first does not have.
fn is_other_part(first: &Job, other: &Job) -> bool {
    let tests = |job: &Job| -> BTreeSet<String> {
        let tests = job.steps.iter().filter(|step| step.is_for == StepPurpose::Test);
        tests.map(CiStep::with_environment).collect()
    };
    !tests(other).is_subset(&tests(first))
}

/// Such a condition decides alone; any other counts only when all that the job needs has succeeded.
fn has_status_function(condition: &str) -> bool {
    ["always()", "failure()", "cancelled()"].iter().any(|it| condition.contains(it))
}

/// The path of the workflow of this repository that a job is.
fn called(job: &Value) -> Option<String> {
    let path = job.get("uses").and_then(Value::as_str)?.strip_prefix("./")?;
    files::resolve("", path)
}

/// `with:` of a step or of a job that calls a workflow.
pub(super) fn given(with: Option<&Value>, known: &ExpressionValues) -> Inputs {
    let value = |value: &Value| match value {
        Value::String(text) => match value_of(text, known) {
            Some(value) => Some(value),
            None => resolve(text, known).ok().map(Value::String),
        },
        other => Some(other.clone()),
    };
    entries(with)
        .take(MAX_INPUTS)
        .map(|(name, it)| (name.to_ascii_lowercase(), value(it)))
        .collect()
}

/// A value as the text that it is for what takes texts only.
pub(super) fn as_text(value: Value) -> Value {
    match runner_scalar(&value) {
        Some(text) => Value::String(text),
        None => value,
    }
}

/// The jobs before this one, where it downloads what they have uploaded.
fn takes_from(job: &Value) -> Vec<String> {
    let steps = job.get("steps").and_then(Value::as_array).into_iter().flatten();
    let mut actions = steps.filter_map(|step| step.get("uses").and_then(Value::as_str));
    let is_download = |action: &str| action.starts_with("actions/download-artifact");
    let needs = job.get("needs").filter(|_| actions.any(is_download));
    needs.map(scalars).unwrap_or_default().into_iter().take(MAX_JOBS).collect()
}

/// Workflows for releases, schedules and issues say nothing about how a change is tested.
fn is_about_changes(on: &Value, events: &[&str]) -> bool {
    let on_tags_only = |event: &Value| {
        let keys = event.as_object();
        keys.is_some_and(|keys| keys.contains_key("tags") && !keys.contains_key("branches"))
    };
    match on {
        Value::Object(map) => {
            events.iter().any(|event| map.get(*event).is_some_and(|it| !on_tags_only(it)))
        }
        one => scalars(one).iter().any(|event| events.contains(&event.as_str())),
    }
}

fn is_linux(job: &Value, known: &ExpressionValues) -> bool {
    let Some(on) = job.get("runs-on") else { return true };
    let labels = scalars(on);
    let resolved = |label: &String| resolve(label, known).unwrap_or_default().to_ascii_lowercase();
    labels.iter().map(resolved).all(|label| !label.contains("windows") && !label.contains("macos"))
}

/// For other modules: a map's entries when it is one.
pub(super) fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

#[cfg(test)]
#[path = "actions_tests.rs"]
mod tests;
