//! What the client is told of a run: its events, in the words of the protocol.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use super::messages::{Kind, Location, PlanEntry, Priority, Shown, Status, Text, ToolCall, Update};
use patchwright_base::text;
use patchwright_git::clone::Repo;
use patchwright_git::tree::{self, Change, FileChange};
use patchwright_types::events::{Event, When};

/// Arguments that name a file, in the tools of all families.
const PATHS: &[&str] = &["file_path", "path", "absolute_path", "dir_path"];
/// Files of a change that are shown as a difference.
const MAX_FILES: usize = 50;
/// Bytes of a file that is shown so.
const MAX_BYTES: usize = 128 << 10;

/// The updates of one prompt. Ids of calls are unique in a run, and have to be in a session, so each has the number
/// of its prompt, and of its attempt.
pub(super) struct Updates {
    prompt: usize,
    /// The attempt that an event is of, where there are several at the work.
    attempt: Option<u32>,
    folder: PathBuf,
    begun: HashSet<String>,
    told: usize,
}

impl Updates {
    pub(super) fn new(prompt: usize, folder: &Path) -> Updates {
        Updates { prompt, attempt: None, folder: folder.to_owned(), begun: HashSet::new(), told: 0 }
    }

    /// What of an event the client is told.
    pub(super) fn of(&mut self, attempt: Option<u32>, event: &Event<'_>) -> Vec<Update> {
        self.attempt = attempt;
        let of_agent = |agent: Option<&str>, words: &str| of_agent(attempt, agent, words);
        match event {
            Event::Message { text, agent: None, .. } if attempt.is_none() => vec![self.says(text)],
            Event::Message { text, agent, .. } | Event::Reasoning { text, agent, .. } => {
                vec![self.thinks(&of_agent(*agent, text))]
            }
            Event::Compacted { agent, .. } => {
                vec![self.thinks(&of_agent(*agent, "The conversation was shortened."))]
            }
            Event::Retry { why, agent, .. } => {
                vec![self.thinks(&of_agent(*agent, &format!("The model is asked again: {why}")))]
            }
            Event::Model { model, instead_of, why, agent } => {
                let words = format!("Switching from `{instead_of}` to `{model}`: {why}");
                vec![self.thinks(&of_agent(*agent, &words))]
            }
            Event::CallStarted { id, tool, arguments, agent, .. } => {
                let id = self.id(*agent, id);
                self.begun.insert(id.clone());
                vec![Update::ToolCall(self.call(id, &of_agent(*agent, tool), tool, arguments))]
            }
            Event::CallEnded { id, tool, success, output, agent, .. } => {
                self.ended(self.id(*agent, id), &of_agent(*agent, tool), tool, *success, output)
            }
            Event::Check { when, command, passed, .. } => vec![self.check(*when, command, *passed)],
            Event::Plan { steps, .. } => {
                let entry = |step: &patchwright_types::events::PlanStep<'_>| PlanEntry {
                    content: step.step.to_owned(),
                    priority: Priority::Medium,
                    status: step.status,
                };
                vec![Update::Plan { entries: steps.iter().map(entry).collect() }]
            }
            Event::Run { .. }
            | Event::Phase { .. }
            | Event::Scope { .. }
            | Event::TurnStarted { .. }
            | Event::Reply { .. }
            | Event::TurnEnded { .. }
            | Event::Published { .. }
            | Event::Files { .. }
            | Event::Result(_)
            | Event::ReviewResult(_)
            | Event::CommandResult(_)
            | Event::TriageResult(_)
            | Event::Failure { .. } => Vec::new(),
        }
    }

    /// Something that is said to the person.
    pub(super) fn says(&mut self, words: &str) -> Update {
        let message_id = self.next("message");
        Update::AgentMessageChunk { message_id, content: Text { text: words.to_owned() } }
    }

    fn thinks(&mut self, words: &str) -> Update {
        let message_id = self.next("thought");
        Update::AgentThoughtChunk { message_id, content: Text { text: words.to_owned() } }
    }

    /// The change as it was written into the folder.
    pub(super) fn written(&mut self, repo: &Repo, change: &Change) -> Update {
        let files = change.files.iter().take(MAX_FILES);
        let path = |file: &FileChange| self.folder.join(&file.path);
        let locations = files.clone().map(|file| Location { path: path(file) }).collect();
        let content = files.filter_map(|file| difference(repo, file, path(file))).collect();
        let count = change.files.len();
        let title = format!("Changed {count} {}", if count == 1 { "file" } else { "files" });
        Update::ToolCall(ToolCall {
            id: self.next("change"),
            title,
            kind: Kind::Edit,
            status: Status::Completed,
            raw_input: None,
            locations,
            content,
        })
    }

    fn call(&self, id: String, who: &str, tool: &str, arguments: &str) -> ToolCall {
        let parsed: Option<Value> = serde_json::from_str(arguments).ok().filter(Value::is_object);
        let named = PATHS.iter().find_map(|key| parsed.as_ref()?.get(*key)?.as_str());
        let path = named.and_then(|path| inside(&self.folder, path));
        ToolCall {
            id,
            title: title(who, arguments),
            kind: kind(tool),
            status: Status::InProgress,
            raw_input: Some(parsed.unwrap_or_else(|| json!({ "text": arguments }))),
            locations: path.into_iter().map(|path| Location { path }).collect(),
            content: Vec::new(),
        }
    }

    fn ended(
        &mut self,
        id: String,
        who: &str,
        tool: &str,
        success: bool,
        output: &str,
    ) -> Vec<Update> {
        let mut updates = Vec::new();
        // It was refused before it ran, and the client does not know of it.
        if !self.begun.remove(&id) {
            updates.push(Update::ToolCall(self.call(id.clone(), who, tool, "")));
        }
        let status = if success { Status::Completed } else { Status::Failed };
        let output = Text { text: text::visible(&text::without_ansi(output)) };
        let content = (!output.text.is_empty()).then_some(Shown::Content { content: output });
        let content = content.into_iter().collect();
        updates.push(Update::ToolCallChanged { tool_call_id: id, status, content });
        updates
    }

    fn check(&mut self, when: When, command: &str, passed: bool) -> Update {
        let tree = match when {
            When::Base => "before the change",
            When::Loop | When::Head => "on the change",
        };
        Update::ToolCall(ToolCall {
            id: self.next("check"),
            title: format!("check {tree}: {}", text::line(command)),
            kind: Kind::Execute,
            status: if passed { Status::Completed } else { Status::Failed },
            raw_input: None,
            locations: Vec::new(),
            content: Vec::new(),
        })
    }

    fn id(&self, agent: Option<&str>, id: &str) -> String {
        let attempt = self.attempt.map(|attempt| format!("attempt-{attempt}/")).unwrap_or_default();
        let agent = agent.map(|agent| format!("{agent}/")).unwrap_or_default();
        format!("{}/{attempt}{agent}{id}", self.prompt)
    }

    fn next(&mut self, what: &str) -> String {
        self.told += 1;
        format!("{}/{what}-{}", self.prompt, self.told)
    }
}

fn of_agent(attempt: Option<u32>, agent: Option<&str>, words: &str) -> String {
    let attempt = attempt.map(|attempt| format!("[attempt {attempt}] ")).unwrap_or_default();
    let agent = agent.map(|agent| format!("[{agent}] ")).unwrap_or_default();
    format!("{attempt}{agent}{words}")
}

/// The tool and the first line of its arguments.
fn title(who: &str, arguments: &str) -> String {
    let first = arguments.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    text::cut(&text::line(&format!("{who} {first}")), 120)
}

/// What kind of tool it is, by the names that the families have for them.
fn kind(tool: &str) -> Kind {
    let has = |words: &[&str]| words.iter().any(|word| tool.contains(word));
    match tool {
        _ if has(&["patch", "write_file", "replace", "edit"]) => Kind::Edit,
        _ if has(&["fetch"]) => Kind::Fetch,
        _ if has(&["grep", "glob", "search", "list_dir", "list_directory"]) => Kind::Search,
        _ if has(&["shell", "bash", "exec", "stdin", "run_", "js_repl", "install"]) => {
            Kind::Execute
        }
        _ if has(&["plan", "todo"]) => Kind::Think,
        _ if has(&["read", "view"]) => Kind::Read,
        _ => Kind::Other,
    }
}

/// A path of the repository as one of the session's folder. What stands in the sandbox alone has none.
fn inside(folder: &Path, path: &str) -> Option<PathBuf> {
    let is_plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && !path.is_empty()).then(|| folder.join(path))
}

/// Old and new text of a file, where both are text and not too long.
fn difference(repo: &Repo, file: &FileChange, path: PathBuf) -> Option<Shown> {
    let read = |entry: &tree::Entry| {
        let content = tree::read_blob(repo, entry.oid, MAX_BYTES).ok()?;
        String::from_utf8(content).ok()
    };
    let old_text = match &file.old {
        Some(entry) => Some(read(entry)?),
        None => None,
    };
    let new_text = match &file.new {
        Some(entry) => read(entry)?,
        None => String::new(),
    };
    Some(Shown::Diff { path, old_text, new_text })
}
