//! What the agent is told at the start: the system prompt, then in order the environment, the
//! repository's instruction files, and the task.

use super::TaskKind;
use super::admit::Admitted;
use super::checks::Checks;
use super::run::Run;
use super::workspace::Workspace;
use crate::context::environment::{self, EnvironmentInput};
use crate::context::instructions::{self, Instructions};
use crate::error::Result;
use crate::prompt;
use crate::provider::item::{Content, Item, Message, Role};

/// The opening of the conversation.
pub struct Brief {
    /// The system prompt.
    pub instructions: String,
    pub items: Vec<Item>,
    /// For the report: what was removed from the input, and which instruction files were given.
    pub notes: Vec<String>,
    pub instruction_files: Vec<String>,
}

impl Brief {
    pub async fn new(
        run: &Run<'_>,
        admitted: Option<&Admitted>,
        workspace: &Workspace,
        checks: &Checks,
    ) -> Result<Brief> {
        let files = instructions::find(workspace).await?;
        let (task, notes) = task_text(run, admitted, checks)?;
        let items = vec![
            message(Role::Developer, environment_text(run, checks)),
            message(Role::User, task),
        ];
        Ok(Brief {
            instructions: prompt::system(&run.world.model)?.to_owned(),
            items: with_instructions(items, &files),
            notes,
            instruction_files: files.files,
        })
    }
}

/// The repository's instruction files go between the environment and the task.
fn with_instructions(mut items: Vec<Item>, files: &Instructions) -> Vec<Item> {
    if !files.text.is_empty() {
        items.insert(1, message(Role::User, files.text.clone()));
    }
    items
}

fn environment_text(run: &Run<'_>, checks: &Checks) -> String {
    environment::render(&EnvironmentInput {
        workspace: run.world.sandbox.workspace_hint(),
        sandbox: run.world.sandbox.name(),
        date: run.world.clock.now().format("%Y-%m-%d").to_string(),
        network: "none",
        checks: &checks.commands,
        max_turns: run.config.limits.max_turns,
        timeout: run.config.limits.timeout,
    })
}

fn task_text(
    run: &Run<'_>,
    admitted: Option<&Admitted>,
    checks: &Checks,
) -> Result<(String, Vec<String>)> {
    match (&run.task.kind, admitted) {
        (TaskKind::Issue { trigger, .. }, Some(admitted)) => {
            let thread = admitted.thread(trigger.as_ref());
            let text = prompt::issue_task(&prompt::IssueTask {
                repository: &admitted.repository.id.to_string(),
                number: admitted.issue.number,
                thread: &thread.text,
                checks: &checks.commands,
                tag: &thread.tag,
            })?;
            Ok((text, thread.notes))
        }
        (TaskKind::Exec { prompt: asked, .. }, _) => {
            Ok((prompt::exec_task(asked, &checks.commands)?, Vec::new()))
        }
        (TaskKind::Issue { .. }, None) => {
            Err(crate::error::Failure::internal("an issue task was not admitted"))
        }
    }
}

/// A message of plain text.
pub fn message(role: Role, text: String) -> Item {
    Item::Message(Message { role, content: vec![Content::text(text)], native: None })
}
