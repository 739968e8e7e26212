//! GitHub's workflows.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::expressions::{ExpressionValues, resolve, runs};
use super::{CiPlan, CiStep, Job, MAX_FILES, MAX_JOBS, MAX_STEPS, classify, shell};
use crate::files::{self, Files, line_of};
use crate::read::{self, runner_scalar, scalar, scalars};
use crate::services;
use crate::setup::Source;

const FOLDER: &str = ".github/workflows";

/// Inputs of well-known actions that name a version.
const SETUP: &[(&str, &str, &str)] = &[
    ("actions/setup-python", "python-version", "python"),
    ("actions/setup-node", "node-version", "node"),
    ("actions/setup-go", "go-version", "go"),
    ("actions/setup-java", "java-version", "java"),
    ("actions/setup-dotnet", "dotnet-version", "dotnet"),
    ("ruby/setup-ruby", "ruby-version", "ruby"),
    ("shivammathur/setup-php", "php-version", "php"),
    ("erlef/setup-beam", "elixir-version", "elixir"),
    ("erlef/setup-beam", "otp-version", "erlang"),
    ("dtolnay/rust-toolchain", "toolchain", "rust"),
    ("actions-rs/toolchain", "toolchain", "rust"),
    ("pnpm/action-setup", "version", "pnpm"),
    ("oven-sh/setup-bun", "bun-version", "bun"),
    ("astral-sh/setup-uv", "version", "uv"),
    ("astral-sh/setup-uv", "python-version", "python"),
    ("denoland/setup-deno", "deno-version", "deno"),
];

/// Events on which a workflow says something about a change.
const EVENTS: &[&str] =
    &["push", "pull_request", "pull_request_target", "merge_group", "workflow_call"];

pub(super) fn read(files: &Files<'_>, plan: &mut CiPlan) {
    let is_workflow = |name: &String| name.ends_with(".yml") || name.ends_with(".yaml");
    let names: Vec<String> = files.files(FOLDER).into_iter().filter(is_workflow).collect();
    if names.len() > MAX_FILES {
        plan.note(
            FOLDER,
            format!("only the first {MAX_FILES} of {} workflows are read", names.len()),
        );
    }
    for name in names.iter().take(MAX_FILES) {
        let path = format!("{FOLDER}/{name}");
        let Some(text) = files.text(&path) else {
            plan.note(&path, "is too large to be read");
            continue;
        };
        match read::workflow(&text) {
            Ok(workflow) => one(&path, &text, &workflow, plan),
            Err(why) => plan.note(&path, why),
        }
    }
}

fn one(path: &str, text: &str, workflow: &Value, plan: &mut CiPlan) {
    let is_for_agents =
        path.ends_with("/copilot-setup-steps.yml") || path.ends_with("/copilot-setup-steps.yaml");
    if !is_for_agents && !is_about_changes(workflow) {
        return;
    }
    let Some(jobs) = workflow.get("jobs").and_then(Value::as_object) else {
        plan.note(path, "has no jobs");
        return;
    };
    for (name, job) in jobs.iter().take(MAX_JOBS) {
        if is_for_agents && name != "copilot-setup-steps" {
            continue;
        }
        let known = ExpressionValues { matrix: matrix(job), ..ExpressionValues::default() };
        if !runs(job.get("if").and_then(scalar).as_deref(), &known) || !is_linux(job, &known) {
            continue;
        }
        let found = Reader { path, text, workflow, job, name, known }.read(plan);
        if !found.steps.is_empty() {
            plan.jobs.push(Job { is_for_agents, ..found });
        }
    }
}

/// Workflows for releases, schedules and issues say nothing about how a change is tested.
fn is_about_changes(workflow: &Value) -> bool {
    let Some(on) = workflow.get("on").or_else(|| workflow.get("true")) else { return false };
    let on_tags_only = |event: &Value| {
        let keys = event.as_object();
        keys.is_some_and(|keys| keys.contains_key("tags") && !keys.contains_key("branches"))
    };
    match on {
        Value::Object(map) => {
            EVENTS.iter().any(|event| map.get(*event).is_some_and(|it| !on_tags_only(it)))
        }
        one => scalars(one).iter().any(|event| EVENTS.contains(&event.as_str())),
    }
}

fn is_linux(job: &Value, known: &ExpressionValues) -> bool {
    let Some(on) = job.get("runs-on") else { return true };
    let labels = scalars(on);
    let resolved = |label: &String| resolve(label, known).unwrap_or_default().to_ascii_lowercase();
    labels.iter().map(resolved).all(|label| !label.contains("windows") && !label.contains("macos"))
}

/// One sensible entry of the matrix: Linux, the newest plain version of each list.
fn matrix(job: &Value) -> BTreeMap<String, String> {
    let mut entry = BTreeMap::new();
    let Some(matrix) =
        job.get("strategy").and_then(|it| it.get("matrix")).and_then(Value::as_object)
    else {
        return entry;
    };
    for (name, values) in matrix {
        if name == "include" || name == "exclude" {
            continue;
        }
        let values = scalars(values);
        let linux = values.iter().find(|value| value.contains("ubuntu") || value.contains("linux"));
        let newest = || values.iter().filter(|it| is_release(it)).max_by_key(|it| numbers(it));
        let plain = || values.iter().find(|it| *it == "stable").or(values.first());
        if let Some(value) = linux.or_else(newest).or_else(plain) {
            entry.insert(name.to_ascii_lowercase(), value.clone());
        }
    }
    // A matrix of entries only: the first for Linux, or the first of all.
    let included = matrix.get("include").and_then(Value::as_array);
    if let (true, Some(entries)) = (entry.is_empty(), included) {
        let is_linux =
            |it: &&Value| !it.to_string().contains("windows") && !it.to_string().contains("macos");
        let chosen = entries.iter().find(is_linux).or(entries.first()).and_then(Value::as_object);
        entry.extend(named(chosen));
        return entry;
    }
    let chosen = entry.clone();
    for more in included.into_iter().flatten().map(|it| named(it.as_object())) {
        // It belongs to the entries that it does not contradict.
        if more.iter().all(|(name, value)| chosen.get(name).is_none_or(|it| it == value)) {
            entry.extend(more);
        }
    }
    entry
}

/// The plain values of an entry of a matrix.
fn named(entry: Option<&Map<String, Value>>) -> BTreeMap<String, String> {
    let values = entry.into_iter().flatten();
    values.filter_map(|(name, it)| Some((name.to_ascii_lowercase(), scalar(it)?))).collect()
}

fn is_release(version: &str) -> bool {
    version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(|c| c.is_ascii_digit() || ".x*".contains(c))
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

struct Reader<'a> {
    path: &'a str,
    text: &'a str,
    workflow: &'a Value,
    job: &'a Value,
    name: &'a str,
    known: ExpressionValues,
}

impl Reader<'_> {
    fn read(mut self, plan: &mut CiPlan) -> Job {
        let mut environment = BTreeMap::new();
        let mut trouble = BTreeMap::new();
        self.variables(self.workflow.get("env"), &mut environment, &mut trouble);
        self.variables(self.job.get("env"), &mut environment, &mut trouble);
        self.known.environment.clone_from(&environment);
        let mut job =
            Job { file: self.path.to_owned(), name: self.name.to_owned(), ..Job::default() };
        let beside = self.job.get("services").and_then(Value::as_object);
        for (name, service) in beside.into_iter().flatten().take(20) {
            let read = services::of_workflow(name, service, &|text| resolve(text, &self.known));
            job.add_service(name, read.map(|service| (name.clone(), service)));
        }
        let image =
            self.job.get("container").map(|it| it.get("image").unwrap_or(it)).and_then(scalar);
        if let Some(image) = image.and_then(|image| resolve(&image, &self.known).ok()) {
            plan.image.get_or_insert(image);
        }
        job.takes_from = self.takes_from();
        let steps = self.job.get("steps").and_then(Value::as_array);
        for step in steps.into_iter().flatten().take(MAX_STEPS) {
            if !runs(step.get("if").and_then(scalar).as_deref(), &self.known) {
                continue;
            }
            if let Some(action) = step.get("uses").and_then(Value::as_str) {
                self.versions(action, step.get("with"), plan);
            }
            if let Some(command) = step.get("run").and_then(Value::as_str) {
                job.steps.push(self.step(step, command, &environment, &trouble));
                let left = resolve(command, &self.known).unwrap_or_default();
                for (name, value) in shell::left_in_environment(&left) {
                    self.known.environment.insert(name.clone(), value.clone());
                    environment.insert(name, value);
                }
                let id = step.get("id").and_then(scalar).unwrap_or_default();
                let outputs = shell::outputs(&left).into_iter();
                self.known.outputs.extend(outputs.map(|(name, it)| (format!("{id}.{name}"), it)));
            }
        }
        job
    }

    /// The jobs before this one, where it downloads what they have uploaded.
    fn takes_from(&self) -> Vec<String> {
        let steps = self.job.get("steps").and_then(Value::as_array).into_iter().flatten();
        let mut actions = steps.filter_map(|step| step.get("uses").and_then(Value::as_str));
        let is_download = |action: &str| action.starts_with("actions/download-artifact");
        let needs = self.job.get("needs").filter(|_| actions.any(is_download));
        needs.map(scalars).unwrap_or_default().into_iter().take(MAX_JOBS).collect()
    }

    /// The runner goes on after it fails: what the step says of itself, and else the job, whose other steps it ends.
    fn may_fail(&self, step: &Value) -> bool {
        let says = |value: &Value| {
            let said = value.get("continue-on-error").and_then(scalar);
            said.is_some_and(|said| runs(Some(&said), &self.known) && !said.trim().is_empty())
        };
        says(step) || says(self.job)
    }

    /// Variables that have values here; the others with the reason.
    fn variables(
        &self,
        env: Option<&Value>,
        values: &mut BTreeMap<String, String>,
        trouble: &mut BTreeMap<String, String>,
    ) {
        for (name, value) in env.and_then(Value::as_object).into_iter().flatten().take(100) {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty()
                || !name.chars().all(is_name)
                || name.starts_with(|c: char| c.is_ascii_digit())
            {
                continue;
            }
            match resolve(&runner_scalar(value).unwrap_or_default(), &self.known) {
                Ok(value) => {
                    values.insert(name.clone(), value);
                }
                Err(why) => {
                    trouble.insert(name.clone(), why);
                }
            }
        }
    }

    fn versions(&self, action: &str, with: Option<&Value>, plan: &mut CiPlan) {
        let name = action.split('@').next().unwrap_or_default();
        for (_, input, tool) in SETUP.iter().filter(|row| row.0 == name) {
            let asked = with.and_then(|with| with.get(*input)).map(scalars).unwrap_or_default();
            // A list in one string: the last is the newest, as people write it.
            let last =
                asked.iter().flat_map(|it| it.lines()).map(str::trim).rfind(|it| !it.is_empty());
            if let Some(version) =
                last.and_then(|it| resolve(it, &self.known).ok()).filter(|it| !it.is_empty())
            {
                plan.version(tool, version, self.path, name);
            }
        }
    }

    fn step(
        &self,
        step: &Value,
        command: &str,
        environment: &BTreeMap<String, String>,
        trouble: &BTreeMap<String, String>,
    ) -> CiStep {
        let mut environment = environment.clone();
        let mut trouble = trouble.clone();
        self.variables(step.get("env"), &mut environment, &mut trouble);
        let mut unusable = classify::unusable(command).map(str::to_owned);
        let mut refuse = |why: String| {
            unusable.get_or_insert(why);
        };
        let own = step.get("env").and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some((_, why)) =
            trouble.iter().find(|(name, _)| own.contains_key(*name) || uses(command, name))
        {
            refuse(why.clone());
        }
        let resolved = resolve(command, &self.known).unwrap_or_else(|why| {
            refuse(why);
            command.to_owned()
        });
        let shell = self.setting(step, "shell");
        let shell = shell.map(|shell| resolve(&shell, &self.known).unwrap_or(shell));
        let folder = self.setting(step, "working-directory").unwrap_or_default();
        let outside = "runs in a folder that is not in the tree";
        let folder = resolve(&folder, &self.known)
            .and_then(|it| files::resolve("", &it).ok_or_else(|| outside.to_owned()));
        let folder = folder.map_err(&mut refuse).ok();
        environment.retain(|_, value| value.len() < 2_000);
        let is_for = classify::is_for(&resolved);
        let (folder, command) = shell::into_folder(folder.unwrap_or_default(), resolved.trim_end());
        let builds = classify::builds(&command);
        let shell = shell::of_workflow(shell.as_deref(), &command).unwrap_or_else(|why| {
            refuse(why);
            None
        });
        let first =
            command_line(self.text, step.get("run").and_then(Value::as_str).unwrap_or_default());
        CiStep {
            command,
            folder,
            environment,
            shell,
            is_for,
            builds,
            may_fail: self.may_fail(step),
            unusable,
            why: Source {
                file: self.path.to_owned(),
                line: first,
                rule: format!("job {}", self.name),
            },
        }
    }

    /// A setting of the step, or the default of job and workflow.
    fn setting(&self, step: &Value, name: &str) -> Option<String> {
        let of = |value: &Value| value.get("defaults")?.get("run")?.get(name).and_then(scalar);
        step.get(name).and_then(scalar).or_else(|| of(self.job)).or_else(|| of(self.workflow))
    }
}

fn uses(command: &str, variable: &str) -> bool {
    [format!("${variable}"), format!("${{{variable}")]
        .iter()
        .any(|it| command.contains(it.as_str()))
}

/// The line on which a command starts.
fn command_line(text: &str, command: &str) -> Option<u32> {
    let first = command.lines().map(str::trim).find(|line| !line.is_empty())?;
    line_of(text, first)
}

/// For other modules: a map's entries when it is one.
pub(super) fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}
