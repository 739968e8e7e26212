//! What the agent is told at the start: the system prompt, then in order the environment, the
//! repository's instruction files, and the task.

use super::TaskKind;
use super::admit::Admitted;
use super::checks::Checks;
use super::run::Run;
use super::workspace::Workspace;
use crate::context::environment::{self, Environment};
use crate::context::instructions::{self, Instructions};
use crate::context::thread::{self, Thread, ThreadContext};
use crate::error::{Failure, Result};
use crate::prompt;
use crate::provider::item::{Content, Item, Message, Role};
use crate::sandbox::Running;

/// Files that are looked at for instructions.
const MAX_PATHS: usize = 500_000;

/// What is known before the sandbox runs.
#[derive(Debug, Default)]
pub struct Brief {
    /// The system prompt.
    pub instructions: String,
    pub files: Instructions,
    /// The task in words.
    pub task: String,
    /// For the report: what was removed from or left out of the input.
    pub notes: Vec<String>,
    checks: Vec<String>,
}

impl Brief {
    pub async fn new(
        run: &Run<'_>,
        admitted: Option<&Admitted>,
        workspace: &Workspace,
        checks: &Checks,
    ) -> Result<Brief> {
        let files = instruction_files(workspace).await?;
        let (task, mut notes) = task_text(run, admitted, checks)?;
        notes.extend(files.notes.iter().cloned());
        Ok(Brief {
            instructions: prompt::system(&run.world.model)?,
            files,
            task,
            notes,
            checks: checks.commands.clone(),
        })
    }

    /// The opening of the conversation in a running sandbox.
    pub fn items(&self, run: &Run<'_>, sandbox: &Running) -> Vec<Item> {
        let environment = environment::render(&Environment {
            cwd: sandbox.workspace.clone(),
            shell: sandbox.client.hello().shell.clone(),
            date: run.world.clock.now().format("%Y-%m-%d").to_string(),
            allowed_hosts: Vec::new(),
            sandbox: sandbox_words(run),
            time_budget: run.remaining(),
            checks: self.checks.clone(),
        });
        let mut items = vec![message(Role::Developer, environment)];
        let files = self.files.render(&sandbox.workspace);
        if !files.is_empty() {
            items.push(message(Role::User, files));
        }
        items.push(message(Role::User, self.task.clone()));
        items
    }
}

fn sandbox_words(run: &Run<'_>) -> String {
    match run.world.sandbox.name() {
        "docker" => "locked container".to_owned(),
        name => format!("{name}, confined to the workspace"),
    }
}

/// The instruction files of the base commit; what a model or a contributor changes is not obeyed.
async fn instruction_files(workspace: &Workspace) -> Result<Instructions> {
    let paths = workspace.paths(MAX_PATHS).await?;
    Ok(instructions::instructions(paths.iter().map(String::as_str), &|path| {
        workspace.file_now(path)
    }))
}

fn task_text(
    run: &Run<'_>,
    admitted: Option<&Admitted>,
    checks: &Checks,
) -> Result<(String, Vec<String>)> {
    match (&run.task.kind, admitted) {
        (TaskKind::Issue { trigger, .. }, Some(admitted)) => {
            let thread = thread_of(admitted, trigger.as_ref());
            let text = prompt::issue_task(&prompt::IssueTask {
                repository: &admitted.repository.id.to_string(),
                number: admitted.issue.number,
                thread: &thread.text,
                checks: &checks.commands,
            })?;
            Ok((text, thread.notes))
        }
        (TaskKind::Exec { prompt: asked, .. }, _) => {
            Ok((prompt::exec_task(asked, &checks.commands)?, Vec::new()))
        }
        (TaskKind::Issue { .. }, None) => Err(Failure::internal("an issue task was not admitted")),
    }
}

/// The conversation as it stood at the trigger, hidden text removed, delimited at random.
fn thread_of(admitted: &Admitted, trigger: Option<&super::Trigger>) -> ThreadContext {
    let thread = Thread {
        issue: &admitted.issue,
        comments: &admitted.comments,
        trigger,
        own_login: admitted.viewer.as_ref().map(|viewer| viewer.login.as_str()),
    };
    thread::thread(&thread, &mut rand::random)
}

/// A message of plain text.
pub fn message(role: Role, text: String) -> Item {
    Item::Message(Message { role, content: vec![Content::text(text)], native: None })
}
