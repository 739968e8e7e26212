//! The steps of a job of GitHub's workflows, with those of the composite actions of the same repository.

use std::collections::BTreeMap;

use serde_json::Value;

use super::actions::{MAX_INPUTS, as_text, entries, given};
use super::expressions::{ExpressionValues, is_true, resolve, runs};
use super::{CiPlan, CiStep, Job, MAX_STEPS, StepPurpose, classify, needs, shell};
use crate::files::{self, Files, line_of};
use crate::read::{self, runner_scalar, scalar, scalars};
use crate::setup::Source;

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

/// Actions that run a command, perhaps more than once, and the input that has it.
const WRAPPERS: &[(&str, &str)] = &[
    ("nick-fields/retry", "command"),
    ("nick-invision/retry", "command"),
    ("Wandalen/wretry.action", "command"),
];

/// How deep actions may use each other; GitHub's runner takes ten.
const MAX_DEPTH: usize = 5;
/// Most actions of the repository that the steps of a job come to.
const MAX_ACTIONS: usize = 40;

const ANOTHER: &str = "is about another repository";

/// A version that an action installs.
pub(super) struct SetupVersion {
    pub tool: &'static str,
    pub version: String,
    pub file: String,
    pub action: String,
}

/// Reads steps, one after the other.
pub(super) struct StepReader<'a> {
    files: &'a Files<'a>,
    /// The file of the steps, and its text.
    path: String,
    text: String,
    pub known: ExpressionValues,
    /// Variables that have values here; the others with the reason.
    environment: BTreeMap<String, String>,
    unknown: BTreeMap<String, String>,
    /// What a step left to all that follow, outside of this action too.
    left: Vec<(String, String)>,
    /// `defaults` of job and workflow.
    pub defaults: [Option<Value>; 2],
    /// The runner goes on after any of them fails.
    pub may_fail: bool,
    pub versions: Vec<SetupVersion>,
    checkouts: Checkouts,
    depth: usize,
    actions_left: usize,
}

impl<'a> StepReader<'a> {
    pub(super) fn of_job(
        files: &'a Files<'a>,
        path: &str,
        text: &str,
        known: ExpressionValues,
    ) -> StepReader<'a> {
        StepReader {
            files,
            path: path.to_owned(),
            text: text.to_owned(),
            known,
            environment: BTreeMap::new(),
            unknown: BTreeMap::new(),
            left: Vec::new(),
            defaults: [None, None],
            may_fail: false,
            versions: Vec::new(),
            checkouts: Checkouts::default(),
            depth: 0,
            actions_left: MAX_ACTIONS,
        }
    }

    /// Variables of workflow, job or step.
    pub(super) fn add_variables(&mut self, env: Option<&Value>) {
        self.variables(env).into_iter().for_each(|(name, value)| match value {
            Ok(value) => {
                self.unknown.remove(&name);
                self.environment.insert(name, value);
            }
            Err(why) => {
                self.unknown.insert(name, why);
            }
        });
        self.known.environment.clone_from(&self.environment);
    }

    fn variables(&self, env: Option<&Value>) -> Vec<(String, Result<String, String>)> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name = |name: &str| {
            !name.is_empty()
                && name.chars().all(is_letter)
                && !name.starts_with(|c: char| c.is_ascii_digit())
        };
        let plain = |value: &Value| runner_scalar(value).unwrap_or_default();
        let found = entries(env).take(100).filter(|(name, _)| is_name(name));
        found.map(|(name, value)| (name.clone(), resolve(&plain(value), &self.known))).collect()
    }

    pub(super) fn read(&mut self, steps: Option<&Value>, job: &mut Job, plan: &mut CiPlan) {
        let steps = steps.and_then(Value::as_array);
        for step in steps.into_iter().flatten().take(MAX_STEPS) {
            if job.steps.len() >= MAX_STEPS {
                return;
            }
            if !runs(step.get("if").and_then(scalar).as_deref(), &self.known) {
                self.known.skipped.extend(step.get("id").and_then(scalar));
                continue;
            }
            let wrapped = wrapped(step);
            let step = wrapped.as_ref().unwrap_or(step);
            if let Some(action) = step.get("uses").and_then(Value::as_str) {
                match action.strip_prefix("./").or((action == ".").then_some("")) {
                    Some(folder) => self.composite(step, folder, job, plan),
                    None => self.action(action, step.get("with")),
                }
            }
            if let Some(command) = step.get("run").and_then(Value::as_str) {
                let read = self.step(step, command, job);
                job.steps.push(read);
                let left = resolve(command, &self.known).unwrap_or_default();
                self.leave(shell::left_in_environment(&left));
                let id = step.get("id").and_then(scalar).unwrap_or_default();
                let outputs = shell::outputs(&left).into_iter();
                self.known.outputs.extend(outputs.map(|(name, it)| (format!("{id}.{name}"), it)));
            }
        }
    }

    fn leave(&mut self, variables: Vec<(String, String)>) {
        for (name, value) in &variables {
            self.known.environment.insert(name.clone(), value.clone());
            self.environment.insert(name.clone(), value.clone());
        }
        self.left.extend(variables);
    }

    /// The steps of an action that is in the repository.
    fn composite(&mut self, step: &Value, folder: &str, job: &mut Job, plan: &mut CiPlan) {
        let Some(folder) = files::resolve("", folder) else { return };
        let Ok(folder) = self.checkouts.inside(folder) else { return };
        let names = ["action.yml", "action.yaml"].map(|name| files::join(&folder, name));
        let Some(path) = names.into_iter().find(|path| self.files.has_file(path)) else { return };
        if self.depth == MAX_DEPTH || self.actions_left == 0 {
            return;
        }
        self.actions_left -= 1;
        let Some(text) = self.files.text(&path) else { return };
        let action = match read::workflow(&text) {
            Ok(action) => action,
            Err(why) => return plan.note(&path, why),
        };
        let Some(runs) = action.get("runs") else { return };
        if runs.get("using").and_then(Value::as_str) != Some("composite") {
            return;
        }
        let mut known = self.known.clone();
        known.outputs.clear();
        known.skipped.clear();
        known.action_folder = Some(folder);
        known.inputs = given(step.get("with"), &self.known);
        for (name, input) in entries(action.get("inputs")).take(MAX_INPUTS) {
            let default = input.get("default").cloned().unwrap_or_default();
            let default = given(Some(&serde_json::json!({ name: default })), &self.known);
            for (name, value) in default {
                known.inputs.entry(name).or_insert(value);
            }
        }
        // Whatever they look like, they are texts: `inputs.coverage == 'true'`.
        known.inputs.values_mut().for_each(|value| *value = value.take().map(as_text));
        let mut inner = StepReader {
            environment: self.environment.clone(),
            unknown: self.unknown.clone(),
            may_fail: self.may_fail || self.says_may_fail(step),
            checkouts: self.checkouts.clone(),
            depth: self.depth + 1,
            actions_left: self.actions_left,
            ..StepReader::of_job(self.files, &path, &text, known)
        };
        inner.add_variables(step.get("env"));
        inner.read(runs.get("steps"), job, plan);
        let id = step.get("id").and_then(scalar).unwrap_or_default();
        for (name, output) in entries(action.get("outputs")).take(MAX_INPUTS) {
            let value = output.get("value").and_then(scalar);
            if let Some(Ok(value)) = value.map(|value| resolve(&value, &inner.known)) {
                self.known.outputs.insert(format!("{id}.{name}"), value);
            }
        }
        self.actions_left = inner.actions_left;
        self.versions.append(&mut inner.versions);
        self.leave(inner.left);
    }

    /// What a step or job says about its own failure.
    pub(super) fn says_may_fail(&self, step: &Value) -> bool {
        let said = step.get("continue-on-error").and_then(scalar);
        said.is_some_and(|said| !said.trim().is_empty() && is_true(&said, &self.known))
    }

    /// What the action of another repository does, as far as it matters here.
    fn action(&mut self, action: &str, with: Option<&Value>) {
        let name = action.split('@').next().unwrap_or_default();
        if name == "actions/checkout" {
            let input = |name: &str| with.and_then(|with| with.get(name)).and_then(scalar);
            self.checkouts.add(input("repository").is_some(), input("path"), &self.known);
        }
        for (_, input, tool) in SETUP.iter().filter(|row| row.0 == name) {
            let asked = with.and_then(|with| with.get(*input)).map(scalars).unwrap_or_default();
            // A list in one string: the last is the newest, as people write it.
            let last =
                asked.iter().flat_map(|it| it.lines()).map(str::trim).rfind(|it| !it.is_empty());
            if let Some(version) =
                last.and_then(|it| resolve(it, &self.known).ok()).filter(|it| !it.is_empty())
            {
                let (file, action) = (self.path.clone(), name.to_owned());
                self.versions.push(SetupVersion { tool, version, file, action });
            }
        }
    }

    fn step(&self, step: &Value, command: &str, job: &Job) -> CiStep {
        let (mut environment, unknown) = self.environment_of(step, command);
        let mut unusable = classify::unusable(command).map(str::to_owned).or(unknown);
        let mut refuse = |why: String| {
            unusable.get_or_insert(why);
        };
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
        let folder = folder.and_then(|it| self.checkouts.inside(it));
        let folder = folder.map_err(&mut refuse).ok();
        environment.retain(|_, value| value.len() < 2_000);
        if let Some(name) =
            shell::reads_file_of(&resolved).filter(|it| !environment.contains_key(it))
        {
            refuse(format!("reads the file `${name}`, which something else makes"));
        }
        let is_for = classify::is_for(&resolved);
        let never_fails = needs::never_fails(&resolved);
        let resolved = match is_for {
            StepPurpose::Test => needs::without_comparison(&resolved),
            _ => resolved.trim_end(),
        };
        let (folder, command) = shell::into_folder(folder.unwrap_or_default(), resolved);
        if self.goes_elsewhere(&folder, &command) {
            refuse(ANOTHER.to_owned());
        }
        if is_for == StepPurpose::Test && !self.has_folder(&folder, &command, job) {
            refuse(outside.to_owned());
        }
        let builds = classify::builds(&command);
        let shell = shell::of_workflow(shell.as_deref(), &command).unwrap_or_else(|why| {
            refuse(why);
            None
        });
        let first =
            command_line(&self.text, step.get("run").and_then(Value::as_str).unwrap_or_default());
        CiStep {
            command,
            folder,
            environment,
            shell,
            is_for,
            builds,
            may_fail: self.may_fail || self.says_may_fail(step) || never_fails,
            unusable,
            why: Source { file: self.path.clone(), line: first, rule: format!("job {}", job.name) },
        }
    }

    /// The variables of a step, and why one that it sets or uses is not known.
    fn environment_of(
        &self,
        step: &Value,
        command: &str,
    ) -> (BTreeMap<String, String>, Option<String>) {
        let mut environment = self.environment.clone();
        let own = self.variables(step.get("env"));
        // What the step sets itself is not what the job would have set.
        let is_own = |name: &str| own.iter().any(|(other, _)| other == name);
        let mut unknown = self.unknown.iter();
        let unknown = unknown.find(|(name, _)| !is_own(name) && uses(command, name));
        let mut unknown = unknown.map(|(_, why)| why.clone());
        for (name, value) in own {
            match value {
                Ok(value) => {
                    environment.insert(name, value);
                }
                Err(why) => {
                    unknown.get_or_insert(why);
                }
            }
        }
        (environment, unknown)
    }

    /// A line of the command goes to the checkout of another repository.
    fn goes_elsewhere(&self, folder: &str, command: &str) -> bool {
        let parts = command.lines().flat_map(|line| line.split("&&")).map(str::trim);
        let targets = parts.filter_map(|part| part.strip_prefix("cd "));
        let mut folders = targets.filter_map(|path| files::resolve(folder, path.trim()));
        folders.any(|folder| self.checkouts.is_other(&folder))
    }

    /// The folder that the command is for is in the tree, or an earlier step seems to make it.
    fn has_folder(&self, folder: &str, command: &str, job: &Job) -> bool {
        let goes_to = command.strip_prefix("cd ").and_then(|rest| rest.split_whitespace().next());
        if goes_to.is_some_and(|path| path.contains('*')) {
            return false;
        }
        let (above, name) = folder.rsplit_once('/').unwrap_or(("", folder));
        let first = folder.split('/').next().unwrap_or_default();
        let makes = |step: &CiStep| {
            let is_made = step.is_for == StepPurpose::Build || step.command.contains("mkdir");
            is_made && step.command.contains(first)
        };
        folder.is_empty()
            || self.files.folders(above).iter().any(|other| other == name)
            || job.steps.iter().any(makes)
    }

    /// A setting of the step, or the default of job and workflow.
    fn setting(&self, step: &Value, name: &str) -> Option<String> {
        let of = |value: &Value| value.get("run")?.get(name).and_then(scalar);
        step.get(name).and_then(scalar).or_else(|| self.defaults.iter().flatten().find_map(of))
    }
}

/// Where the repositories are that a job has checked out.
#[derive(Clone, Default)]
struct Checkouts {
    /// The folder of this one, where it is not the workspace itself.
    own: Option<String>,
    others: Vec<String>,
}

impl Checkouts {
    fn add(&mut self, is_other: bool, path: Option<String>, known: &ExpressionValues) {
        let path = path.and_then(|path| files::resolve("", &resolve(&path, known).ok()?));
        let path = path.filter(|path| !path.is_empty());
        match is_other {
            true => self.others.extend(path),
            false => self.own = path,
        }
    }

    /// A folder of the workspace is one of another repository.
    fn is_other(&self, folder: &str) -> bool {
        self.others.iter().any(|other| below(folder, other).is_some())
    }

    /// A folder of the workspace as one of the tree.
    ///
    /// # Errors
    /// Why the folder is not in the tree.
    fn inside(&self, folder: String) -> Result<String, String> {
        if self.is_other(&folder) {
            return Err(ANOTHER.to_owned());
        }
        match &self.own {
            Some(own) => below(&folder, own).ok_or_else(|| "runs beside the repository".to_owned()),
            None => Ok(folder),
        }
    }
}

/// A folder as seen from another one that it is in.
fn below(folder: &str, of: &str) -> Option<String> {
    match folder.strip_prefix(of)? {
        "" => Some(String::new()),
        rest => rest.strip_prefix('/').map(str::to_owned),
    }
}

/// The step that an action comes to which runs a command: in the workspace, whatever the defaults of the job are.
fn wrapped(step: &Value) -> Option<Value> {
    let action = step.get("uses").and_then(Value::as_str)?.split('@').next()?;
    let (_, input) = WRAPPERS.iter().find(|(name, _)| *name == action)?;
    let with = step.get("with")?;
    let command = with.get(*input).and_then(Value::as_str)?;
    let mut made = step.as_object()?.clone();
    made.remove("uses");
    made.insert("run".to_owned(), command.into());
    made.insert("shell".to_owned(), with.get("shell").cloned().unwrap_or_else(|| "bash".into()));
    made.insert("working-directory".to_owned(), ".".into());
    if let Some(goes_on) = with.get("continue_on_error") {
        made.insert("continue-on-error".to_owned(), goes_on.clone());
    }
    Some(Value::Object(made))
}

fn uses(command: &str, variable: &str) -> bool {
    [format!("${variable}"), format!("${{{variable}")]
        .iter()
        .any(|it| command.contains(it.as_str()))
}

/// The line on which a command starts: one that is nothing else, where there is one.
fn command_line(text: &str, command: &str) -> Option<u32> {
    let first = command.lines().map(str::trim).find(|line| !line.is_empty())?;
    let is_command = |line: &str| {
        let line = line.trim().trim_start_matches("- ");
        let value = line.strip_prefix("run:").or_else(|| line.strip_prefix("command:"));
        let value = value.map_or(line, str::trim);
        value.trim_matches(['"', '\'']) == first
    };
    let whole = text.lines().position(is_command).and_then(|at| u32::try_from(at + 1).ok());
    whole.or_else(|| line_of(text, first))
}
