//! `devcontainer.json`: the commands that prepare a fresh container.

use std::collections::BTreeMap;

use serde_json::Value;

use super::actions::entries;
use super::{CiPlan, CiStep, Job, StepPurpose, classify};
use crate::files::{Files, quote};
use crate::read::{self, scalar};
use crate::setup::Source;

const PATHS: [&str; 2] = [".devcontainer/devcontainer.json", ".devcontainer.json"];
/// In the order in which they run.
const COMMANDS: [&str; 3] = ["onCreateCommand", "updateContentCommand", "postCreateCommand"];

pub(super) fn read(files: &Files<'_>, plan: &mut CiPlan) {
    let found = PATHS.into_iter().find_map(|path| Some((path, files.text(path)?)));
    let Some((path, text)) = found else { return };
    let file = match read::json(&text) {
        Ok(file) => file,
        Err(why) => return plan.note(path, why),
    };
    let features: Vec<&str> =
        entries(file.get("features")).map(|(name, _)| name.as_str()).take(20).collect();
    if !features.is_empty() {
        plan.note(path, format!("features are not installed: {}", features.join(", ")));
    }
    if file.get("dockerComposeFile").is_some() || file.get("build").is_some() {
        plan.note(path, "an image that has to be built is not used");
    }
    let steps = COMMANDS.iter().flat_map(|key| {
        let commands = file.get(*key).map(commands).unwrap_or_default();
        commands.into_iter().map(|command| CiStep {
            // Whatever it is, it prepares the container.
            is_for: StepPurpose::Install,
            builds: None,
            may_fail: false,
            unusable: unusable(&command),
            folder: String::new(),
            shell: None,
            environment: BTreeMap::new(),
            why: Source {
                file: path.to_owned(),
                line: crate::files::line_of(&text, key),
                rule: (*key).to_owned(),
            },
            command,
        })
    });
    let steps: Vec<CiStep> = steps.take(20).collect();
    if !steps.is_empty() {
        let name = "devcontainer".to_owned();
        plan.jobs.push(Job {
            file: path.to_owned(),
            name,
            steps,
            is_container: true,
            ..Job::default()
        });
    }
}

fn unusable(command: &str) -> Option<String> {
    let needs_editor = command.contains("${localEnv:") || command.contains("${containerEnv:");
    let why = needs_editor.then_some("depends on the machine of the developer");
    why.or_else(|| classify::unusable(command)).map(str::to_owned)
}

/// A line for a shell, a list of words, or several of both by name.
fn commands(value: &Value) -> Vec<String> {
    match value {
        Value::String(line) => vec![line.replace("${containerWorkspaceFolder}", ".")],
        Value::Array(words) => {
            let words: Vec<String> = words.iter().filter_map(scalar).map(|it| quote(&it)).collect();
            vec![words.join(" ")]
        }
        Value::Object(map) => {
            map.values().filter(|it| !it.is_object()).flat_map(commands).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}
