//! `.travis.yml`, and the scripts of GitLab's file: items of one shell.

use std::collections::BTreeMap;

use serde_json::Value;

use super::actions::entries;
use super::shell::{self, Session};
use super::{CiPlan, CiStep, Job, MAX_STEPS, StepPurpose, classify, needs, servers};
use crate::files::{Files, line_of};
use crate::read::{self, scalar, scalars};
use crate::setup::Source;

/// Travis's file.
pub(crate) const TRAVIS: &str = ".travis.yml";

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

pub(super) fn travis(files: &Files<'_>, plan: &mut CiPlan) {
    const PATH: &str = TRAVIS;
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
    let source = |first: &str| (PATH.to_owned(), line_of(&text, first));
    let none = BTreeMap::new();
    let mut job = simple((PATH, "script"), &source, commands, &none, shell::of_travis);
    // Travis has servers of its own on its machines, and no images of them.
    let first = file.get("services").map(scalars).unwrap_or_default().into_iter().next();
    job.lacks_service = first.map(|name| format!("service {name}: it has no image"));
    if !job.steps.is_empty() {
        plan.jobs.push(job);
    }
}

/// A script is a line or a list of lines.
fn scripts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(many) => many.iter().flat_map(scripts).take(MAX_STEPS).collect(),
        Value::Bool(_) => Vec::new(),
        one => scalar(one).into_iter().collect(),
    }
}

pub(super) fn variables(value: Option<&Value>) -> BTreeMap<String, String> {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let pairs = entries(value).filter(|(name, _)| is_name(name) && !name.is_empty());
    let values = pairs.filter_map(|(name, value)| Some((name.clone(), scalar(value)?)));
    values.filter(|(_, value)| !value.contains('$') && value.len() < 2_000).take(100).collect()
}

/// The items of a script. Those before one have left their folder and their variables to it, because all of them are
/// run by one shell.
pub(super) fn simple(
    (path, name): (&str, &str),
    source: &dyn Fn(&str) -> (String, Option<u32>),
    commands: impl Iterator<Item = String>,
    environment: &BTreeMap<String, String>,
    shell: fn(&str) -> Option<String>,
) -> Job {
    let mut session = Session::new();
    let steps = commands.take(MAX_STEPS).map(|command| {
        let first = command.lines().next().unwrap_or_default().trim();
        let (file, line) = source(first);
        let is_secret = ["TOKEN", "PASSWORD", "SECRET", "API_KEY"]
            .iter()
            .any(|it| command.contains(&format!("${it}")) || command.contains(&format!("_{it}")));
        let unusable =
            is_secret.then_some("uses a secret").or_else(|| classify::unusable(&command));
        // What MSYS2 reads, which is on Windows.
        let is_windows = environment.contains_key("MSYSTEM");
        let unusable = unusable
            .or_else(|| is_windows.then_some("is for another system"))
            .or_else(|| command.contains("$[[").then_some("depends on an input of its file"));
        let is_lost = session.folder.is_none().then_some("runs in a folder that is not known");
        let is_for = classify::is_for(&command);
        let used = match is_for {
            StepPurpose::Test => needs::without_comparison(&command),
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
            may_fail: needs::never_fails(&command),
            unusable: unusable.or(is_lost).map(str::to_owned),
            folder,
            shell: shell(&whole),
            environment: environment.clone(),
            why: Source { file, line, rule: format!("job {name}") },
            command: whole,
        }
    });
    let steps = steps.collect();
    let mut job = Job { file: path.to_owned(), name: name.to_owned(), steps, ..Job::default() };
    servers::mark(&mut job);
    job
}
