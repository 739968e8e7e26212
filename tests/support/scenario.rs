//! What a model does, written once (`tests/fixtures/scenarios/*.yml`), and said in the tools of each
//! model family: the same work as a codex model, a Claude, a Gemini, a model with plain functions,
//! or one without tool calls would do it.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::model::{
    Turn, call, custom, cut, failed, limited, no_final, overloaded, refuse, say,
};

/// The tools that a scenario is said in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// With the shell that runs each command to its end.
    Codex,
    /// With the shell whose commands go on in sessions.
    Sessions,
    /// Scripts that call those tools.
    Scripts,
    Claude,
    Gemini,
    Generic,
    /// Blocks of text instead of calls.
    Text,
}

/// A scenario file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// What it shows, for the reader of the file.
    #[serde(rename = "about")]
    _about: String,
    turns: Vec<Step>,
}

/// One reply of the model, or what happens instead of one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    think: Option<String>,
    say: Option<String>,
    refuse: Option<String>,
    #[serde(default)]
    calls: Vec<Action>,
    fault: Option<Trouble>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Action {
    /// A command.
    Run(String),
    /// Show a file.
    Read(String),
    /// Exchange whole lines of a file.
    Edit { path: String, old: String, new: String },
    /// Make a file.
    Write { path: String, content: String },
    /// Steps as `[status, words]`.
    Plan(Vec<(String, String)>),
    /// Look at a picture.
    Look(String),
    /// A tool that there is not.
    Unknown(String),
}

/// What goes wrong, in each protocol's own way.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Trouble {
    Limited,
    Overloaded,
    Cut,
    NoFinal,
    ErrorInStream,
}

/// The turns of a scenario for a family.
pub(crate) fn scenario(name: &str, family: Family) -> Vec<Turn> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/scenarios");
    let source = fs_err::read_to_string(folder.join(format!("{name}.yml"))).unwrap();
    let scenario: Scenario =
        serde_saphyr::from_str(&source).unwrap_or_else(|err| panic!("{name}.yml: {err}"));
    scenario.turns.iter().map(|step| turn(step, family)).collect()
}

fn turn(step: &Step, family: Family) -> Turn {
    if let Some(trouble) = step.fault {
        return match trouble {
            Trouble::Limited => limited(2),
            Trouble::Overloaded => overloaded(),
            Trouble::Cut => cut(),
            Trouble::NoFinal => no_final(),
            Trouble::ErrorInStream => failed("server_error", "trouble on the way"),
        };
    }
    let mut parts: Vec<Turn> = step.say.iter().map(|text| say(text.trim_end())).collect();
    parts.extend(step.refuse.iter().map(|text| refuse(text)));
    if family == Family::Text {
        let words = step.say.iter().map(|text| text.trim_end().to_owned());
        let blocks: Vec<String> = words.chain(step.calls.iter().map(block)).collect();
        parts = vec![say(blocks.join("\n\n"))];
    } else {
        parts.extend(step.calls.iter().map(|action| called(action, family)));
    }
    let whole = parts.into_iter().reduce(Turn::and).expect("a step says or does something");
    match &step.think {
        Some(thought) => whole.thinking(thought),
        None => whole.without_reasoning(),
    }
}

/// A reply that does one thing.
pub(crate) fn called(action: &Action, family: Family) -> Turn {
    if let Action::Unknown(name) = action {
        return call(name, json!({"depth": 1}));
    }
    match family {
        Family::Codex => codex(action),
        Family::Sessions => sessions(action),
        Family::Scripts => custom("exec", &script(action)),
        Family::Claude => claude(action),
        Family::Gemini => gemini(action),
        Family::Generic => generic(action),
        Family::Text => say(block(action)),
    }
}

fn codex(action: &Action) -> Turn {
    match action {
        Action::Run(command) => call("shell_command", json!({"command": command})),
        Action::Read(path) => call("read_file", json!({"file_path": path})),
        Action::Edit { path, old, new } => custom("apply_patch", &update(path, old, new)),
        Action::Write { path, content } => custom("apply_patch", &add(path, content)),
        Action::Plan(steps) => call("update_plan", json!({"plan": plan(steps, "step")})),
        Action::Look(path) => call("view_image", json!({"path": path})),
        Action::Unknown(_) => unreachable!("the same for all"),
    }
}

fn sessions(action: &Action) -> Turn {
    match action {
        Action::Run(command) => call("exec_command", json!({"cmd": command})),
        other => codex(other),
    }
}

fn script(action: &Action) -> String {
    let shows = |tool: &str, args: Value| format!("text(await tools.{tool}({args}));");
    match action {
        Action::Run(command) | Action::Read(command) => {
            let is_read = matches!(action, Action::Read(_));
            let command = if is_read { format!("cat {command}") } else { command.clone() };
            shows("exec_command", json!({"cmd": command}))
        }
        Action::Edit { path, old, new } => shows("apply_patch", json!(update(path, old, new))),
        Action::Write { path, content } => shows("apply_patch", json!(add(path, content))),
        Action::Plan(steps) => shows("update_plan", json!({"plan": plan(steps, "step")})),
        Action::Look(path) => {
            let args = json!({"path": path});
            format!("image(await tools.view_image({args}));")
        }
        Action::Unknown(_) => unreachable!("the same for all"),
    }
}

fn claude(action: &Action) -> Turn {
    let edit = |args: Value| call("str_replace_based_edit_tool", args);
    match action {
        Action::Run(command) => call("bash", json!({"command": command})),
        Action::Read(path) | Action::Look(path) => edit(json!({"command": "view", "path": path})),
        Action::Edit { path, old, new } => edit(json!({
            "command": "str_replace", "path": path, "old_str": old, "new_str": new,
        })),
        Action::Write { path, content } => {
            edit(json!({"command": "create", "path": path, "file_text": content}))
        }
        Action::Plan(steps) => call("update_plan", json!({"plan": plan(steps, "step")})),
        Action::Unknown(_) => unreachable!("the same for all"),
    }
}

fn gemini(action: &Action) -> Turn {
    match action {
        Action::Run(command) => call(
            "run_shell_command",
            json!({"command": command, "description": "Runs a command of the scenario"}),
        ),
        Action::Read(path) | Action::Look(path) => call("read_file", json!({"file_path": path})),
        Action::Edit { path, old, new } => call(
            "replace",
            json!({
                "file_path": path, "instruction": "Exchange the lines",
                "old_string": old, "new_string": new,
            }),
        ),
        Action::Write { path, content } => {
            call("write_file", json!({"file_path": path, "content": content}))
        }
        Action::Plan(steps) => call("write_todos", json!({"todos": plan(steps, "description")})),
        Action::Unknown(_) => unreachable!("the same for all"),
    }
}

fn generic(action: &Action) -> Turn {
    match action {
        Action::Run(command) => call("run_shell_command", json!({"command": command})),
        Action::Read(path) | Action::Look(path) => {
            call("read_file", json!({"absolute_path": path}))
        }
        Action::Edit { path, old, new } => {
            call("replace", json!({"file_path": path, "old_string": old, "new_string": new}))
        }
        Action::Write { path, content } => {
            call("write_file", json!({"file_path": path, "content": content}))
        }
        Action::Plan(steps) => call("update_plan", json!({"plan": plan(steps, "step")})),
        Action::Unknown(_) => unreachable!("the same for all"),
    }
}

/// The action as a block of text.
fn block(action: &Action) -> String {
    match action {
        Action::Run(command) => format!("```bash\n{}\n```", command.trim_end()),
        Action::Read(path) | Action::Look(path) => format!("```bash\ncat {path}\n```"),
        Action::Unknown(name) => format!("```bash\n{name}\n```"),
        Action::Edit { path, old, new } => {
            let (old, new) = (old.trim_end(), new.trim_end());
            format!("{path}\n```\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n```")
        }
        Action::Write { path, content } => {
            let content = content.trim_end();
            format!("{path}\n```\n<<<<<<< SEARCH\n=======\n{content}\n>>>>>>> REPLACE\n```")
        }
        Action::Plan(steps) => {
            let mark = |status: &str| match status {
                "completed" => "x",
                "in_progress" => ">",
                _ => " ",
            };
            let lines = steps.iter().map(|(status, step)| format!("- [{}] {step}", mark(status)));
            let lines = lines.collect::<Vec<_>>().join("\n");
            format!("```plan\n{lines}\n```")
        }
    }
}

fn plan(steps: &[(String, String)], words: &str) -> Vec<Value> {
    steps.iter().map(|(status, step)| json!({words: step, "status": status})).collect()
}

fn update(path: &str, old: &str, new: &str) -> String {
    let (old, new) = (prefixed('-', old), prefixed('+', new));
    format!("*** Begin Patch\n*** Update File: {path}\n@@\n{old}{new}*** End Patch\n")
}

fn add(path: &str, content: &str) -> String {
    let lines = prefixed('+', content);
    format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n")
}

fn prefixed(sign: char, text: &str) -> String {
    let lines = text.trim_end_matches('\n').split('\n');
    lines.flat_map(|line| [sign.to_string(), line.to_owned(), "\n".to_owned()]).collect()
}
