//! Every word that a model reads besides the task's own data: the files in `prompts/`, embedded.
//!
//! Fixed texts come from [`text`], templates from [`render`]; a variable that a template does not get
//! is an error. What goes into a template must be clean already (see `context`); this file only
//! decides where it stands and between which tags.

use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior, Value, context};

use crate::error::{Failure, Result};
use crate::provider::catalogue::Model;
use crate::verify::CheckRun;

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../prompts/", $name)))),*]
    };
}

/// Every file in `prompts/`, by its path there.
pub const FILES: &[(&str, &str)] = embedded![
    "apply_patch.lark",
    "system/codex.md",
    "system/generic.md",
    "system/text.md",
    "task/check_failed.md",
    "task/cut_reply.md",
    "task/empty_reply.md",
    "task/exec.md",
    "task/issue.md",
    "task/nudge.md",
    "tools/apply_patch.md",
    "tools/apply_patch_function.md",
    "tools/grep_files.md",
    "tools/list_dir.md",
    "tools/read_file.md",
    "tools/shell_command.md",
    "tools/update_plan.md",
];

/// The system prompt of a model family that has none of its own.
const DEFAULT_SYSTEM: &str = "generic";

/// The edit format that a model without tool calls is asked to use.
const DEFAULT_EDIT_FORMAT: &str = "search-replace";

/// What the model is told about an issue.
#[derive(Clone, Copy, Debug)]
pub struct IssueTask<'a> {
    /// `owner/name`.
    pub repository: &'a str,
    pub number: u64,
    /// Title, body and comments, sanitised, between tags that the text cannot close: what
    /// `context::thread` makes.
    pub thread: &'a str,
    /// Commands that are run afterwards.
    pub checks: &'a [String],
}

/// A check that failed on the change, for the model.
#[derive(Clone, Copy, Debug)]
pub struct FailedCheck<'a> {
    pub run: &'a CheckRun,
    /// It passed on the base commit.
    pub before: Before,
}

/// How a check went on the base commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Passed,
    Failed,
    /// It was not run, or could not be.
    Unknown,
}

/// A fixed text or the source of a template.
pub fn text(name: &str) -> Result<&'static str> {
    let file = FILES.iter().find(|(file, _)| *file == name);
    let text = file.map(|(_, text)| text.trim_end_matches('\n'));
    text.ok_or_else(|| Failure::internal(format!("there is no prompt `{name}`")))
}

/// The system prompt of a model's family. The text profile has its own, whatever the model: without
/// it a model could not know how to edit.
pub fn system(model: &Model) -> Result<String> {
    if model.profile == "text" {
        let patch = model.patch.as_deref().unwrap_or(DEFAULT_EDIT_FORMAT);
        return render("system/text.md", context! { patch });
    }
    text(&format!("system/{}.md", model.prompt))
        .or_else(|_| text(&format!("system/{DEFAULT_SYSTEM}.md")))
        .map(str::to_owned)
}

/// The task: solve this issue.
pub fn issue_task(task: &IssueTask<'_>) -> Result<String> {
    let IssueTask { repository, number, thread, checks } = *task;
    render("task/issue.md", context! { repository, number, thread, checks => list(checks) })
}

/// The task: follow this prompt.
pub fn exec_task(prompt: &str, checks: &[String]) -> Result<String> {
    render("task/exec.md", context! { prompt, checks => list(checks) })
}

/// What is said to a model whose change fails checks. `tag` is from [`fresh_tag`], made for the
/// outputs of the checks.
pub fn check_failed(failed: &[FailedCheck<'_>], tag: &str) -> Result<String> {
    let checks = failed.iter().map(|FailedCheck { run, before }| {
        context! {
            command => run.command.as_str(),
            tail => run.tail.as_str(),
            verdict => verdict(run),
            passed_before => *before == Before::Passed,
        }
    });
    render("task/check_failed.md", context! { checks => checks.collect::<Vec<Value>>(), tag })
}

fn list(texts: &[String]) -> Value {
    texts.iter().map(|text| Value::from(text.as_str())).collect::<Vec<Value>>().into()
}

/// A word for tags around text from outside: random, and in none of the texts, so that no text can
/// close its own tag.
pub fn fresh_tag(texts: &[&str]) -> String {
    loop {
        let tag = format!("{:016x}", rand::random::<u64>());
        if !texts.iter().any(|text| text.contains(&tag)) {
            return tag;
        }
    }
}

/// Fills a template.
///
/// # Errors
/// When there is no such template, or it uses a variable that is not given: a defect either way.
pub fn render(name: &str, variables: Value) -> Result<String> {
    let broken = |err| Failure::internal(format!("prompt `{name}` is broken")).caused_by(err);
    let template = TEMPLATES.get_template(name).map_err(broken)?;
    template.render(variables).map(|text| text.trim().to_owned()).map_err(broken)
}

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    for (name, text) in FILES {
        // A template that does not parse is missing, and using it fails; a test renders each.
        if name.starts_with("task/") || *name == "system/text.md" {
            environment.add_template(name, text).ok();
        }
    }
    environment
});

fn verdict(run: &CheckRun) -> String {
    match (run.exit_code, run.timed_out, &run.note) {
        (_, true, _) => format!("timed out after {} seconds", run.duration_ms / 1000),
        (Some(code), false, _) => format!("exit code {code}"),
        (None, false, Some(note)) => format!("could not be run ({note})"),
        (None, false, None) => "could not be run".to_owned(),
    }
}
