//! `.gitlab-ci.yml` and `.travis.yml`: their scripts, without includes and templates from elsewhere.

use std::collections::BTreeMap;

use serde_json::Value;

use super::actions::entries;
use super::shell::{self, Session};
use super::{CiPlan, CiStep, Job, MAX_JOBS, MAX_STEPS, StepPurpose, classify, servers};
use crate::files::{Files, line_of};
use crate::read::{self, scalar, scalars};
use crate::services::of_gitlab;
use crate::setup::Source;

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

fn document(files: &Files<'_>, path: &str, plan: &mut CiPlan) -> Option<(String, Value)> {
    let text = files.text(path)?;
    match read::yaml(&text) {
        Ok(value) => Some((text, value)),
        Err(why) => {
            plan.note(path, why);
            None
        }
    }
}

pub(super) fn gitlab(files: &Files<'_>, plan: &mut CiPlan) {
    const PATH: &str = ".gitlab-ci.yml";
    let Some((text, file)) = document(files, PATH, plan) else { return };
    let of = |value: &Value, key: &str| value.get(key).map(scripts).unwrap_or_default();
    let shared_before = of(&file, "before_script");
    let default = file.get("default").cloned().unwrap_or_default();
    let is_job = |(name, job): &(&String, &Value)| {
        !NO_JOBS.contains(&name.as_str()) && !name.starts_with('.') && job.get("script").is_some()
    };
    let jobs: Vec<(&String, &Value)> = entries(Some(&file)).filter(is_job).take(MAX_JOBS).collect();
    for (name, job) in &jobs {
        let stage = job.get("stage").and_then(scalar).unwrap_or_default();
        if stage.contains("deploy") || stage.contains("release") || stage.contains("publish") {
            continue;
        }
        let before = match job.get("before_script") {
            Some(own) => scripts(own),
            None if default.get("before_script").is_some() => of(&default, "before_script"),
            None => shared_before.clone(),
        };
        let services = [job, &default, &file]
            .iter()
            .find_map(|it| it.get("services"))
            .and_then(Value::as_array);
        let mut environment = variables(file.get("variables"));
        environment.extend(variables(job.get("variables")));
        let commands = before.into_iter().chain(of(job, "script"));
        let mut read = simple((PATH, &text, name), commands, &environment, shell::of_gitlab);
        // A list of exit codes is about some failures only.
        let may_fail = job.get("allow_failure") == Some(&Value::Bool(true));
        read.steps.iter_mut().for_each(|step| step.may_fail = may_fail);
        for service in services.into_iter().flatten().take(20) {
            let image = scalar(service.get("name").unwrap_or(service)).unwrap_or_default();
            read.add_service(&image, of_gitlab(service, &environment));
        }
        read.takes_from = takes_from(&file, &jobs, job);
        plan.jobs.push(read);
    }
}

/// The jobs whose artifacts a job of GitLab finds in its folder: those that `needs` or `dependencies` name, and without
/// either all of earlier stages, in their order.
fn takes_from(file: &Value, jobs: &[(&String, &Value)], job: &Value) -> Vec<String> {
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
    let named: Option<Vec<String>> = listed
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
        .map(|(name, other)| (place(other), *name))
        .collect();
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, name)| name.clone()).collect()
}

pub(super) fn travis(files: &Files<'_>, plan: &mut CiPlan) {
    const PATH: &str = ".travis.yml";
    let Some((text, file)) = document(files, PATH, plan) else { return };
    for tool in ["python", "node_js", "go", "ruby", "php", "rust", "jdk"] {
        let newest = file.get(tool).map(scalars).unwrap_or_default().pop();
        let name = match tool {
            "node_js" => "node",
            "jdk" => "java",
            other => other,
        };
        if let Some(version) = newest {
            plan.version(name, version, PATH, tool);
        }
    }
    let keys = ["before_install", "install", "before_script", "script"];
    let commands = keys.iter().flat_map(|key| file.get(*key).map(scripts).unwrap_or_default());
    let mut job = simple((PATH, &text, "script"), commands, &BTreeMap::new(), shell::of_travis);
    // Travis has servers of its own on its machines, and no images of them.
    let first = file.get("services").map(scalars).unwrap_or_default().into_iter().next();
    job.lacks_service = first.map(|name| format!("service {name}: it has no image"));
    if !job.steps.is_empty() {
        plan.jobs.push(job);
    }
}

/// A script is a list of lines, with lists in it where anchors are used.
fn scripts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(many) => many.iter().flat_map(scripts).take(MAX_STEPS).collect(),
        Value::Bool(_) => Vec::new(),
        one => scalar(one).into_iter().collect(),
    }
}

fn variables(value: Option<&Value>) -> BTreeMap<String, String> {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let pairs = entries(value).filter(|(name, _)| is_name(name) && !name.is_empty());
    let values = pairs.filter_map(|(name, value)| Some((name.clone(), scalar(value)?)));
    values.filter(|(_, value)| !value.contains('$') && value.len() < 2_000).take(100).collect()
}

/// The items of a script. Those before one have left their folder and their variables to it, because all of them are
/// run by one shell.
fn simple(
    (path, text, name): (&str, &str, &str),
    commands: impl Iterator<Item = String>,
    environment: &BTreeMap<String, String>,
    shell: fn(&str) -> Option<String>,
) -> Job {
    let mut session = Session::new();
    let steps = commands.take(MAX_STEPS).map(|command| {
        let first = command.lines().next().unwrap_or_default().trim();
        let line = (!first.is_empty()).then(|| line_of(text, first)).flatten();
        let is_secret = ["TOKEN", "PASSWORD", "SECRET", "API_KEY"]
            .iter()
            .any(|it| command.contains(&format!("${it}")) || command.contains(&format!("_{it}")));
        let unusable =
            is_secret.then_some("uses a secret").or_else(|| classify::unusable(&command));
        let is_lost = session.folder.is_none().then_some("runs in a folder that is not known");
        let is_for = classify::is_for(&command);
        let used = match is_for {
            StepPurpose::Test => classify::without_comparison(&command),
            _ => &command,
        };
        let (folder, inside) = shell::into_folder(session.folder.clone().unwrap_or_default(), used);
        let whole = format!("{}{inside}", session.before);
        if !is_secret {
            session.follow(&command);
        }
        CiStep {
            is_for,
            builds: classify::builds(&whole),
            may_fail: false,
            unusable: unusable.or(is_lost).map(str::to_owned),
            folder,
            shell: shell(&whole),
            environment: environment.clone(),
            why: Source { file: path.to_owned(), line, rule: format!("job {name}") },
            command: whole,
        }
    });
    let steps = steps.collect();
    let mut job = Job { file: path.to_owned(), name: name.to_owned(), steps, ..Job::default() };
    servers::mark(&mut job);
    job
}
