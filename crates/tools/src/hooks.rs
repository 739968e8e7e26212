//! The operator's commands around calls. One gets the call as JSON on standard input and may answer with
//! JSON: before a call with other arguments (`{"arguments": …}`) or a refusal (`{"deny": "why"}`), after
//! it with a note for the model (`{"note": "…"}`). Nothing printed means nothing to say.
//!
//! They run in the sandbox and are bounded in size and time. One that fails before a call denies it; one
//! that fails after it is mentioned in its place. The operator is told of each that fails, once.

use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::progress::{AgentEvent, AgentProgress};
use super::rules::HookRule;
use super::{piped, truncate};
use patchwright_base::text;
use patchwright_config::tools::{Hook, When};
use patchwright_guest::tool::{ToolError, ToolOutput};
use patchwright_journal::Journal;
use patchwright_sandbox::client::Client;

/// How long a hook may take when the configuration does not say.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Largest answer: the largest arguments, and room for how JSON writes them.
const MAX_ANSWER: usize = 4 << 20;
/// Bytes of an output that a hook is shown.
const MAX_SHOWN: usize = 64 << 10;
/// Characters of what a hook says to the model.
const MAX_WORDS: usize = 4_000;
/// Bytes of standard error that are kept of a hook that fails.
const MAX_ERRORS: usize = 2 << 10;

/// Characters of a hook's command by which the operator knows it.
const MAX_COMMAND: usize = 120;

/// The hooks that have failed in a run, each once, in words for the operator. Whoever wrote one learns of it in no other
/// way: the model is told, and works around it.
#[derive(Debug, Default)]
pub struct FailedHooks(Mutex<Vec<FailedHook>>);

#[derive(Debug)]
struct FailedHook {
    when: When,
    command: String,
    note: String,
}

impl FailedHooks {
    /// What the operator is told of them.
    pub fn notes(&self) -> Vec<String> {
        self.0.lock().iter().map(|failed| failed.note.clone()).collect()
    }

    /// Takes it in; whether it is the hook's first failure.
    fn is_new(&self, hook: &Hook, note: &str) -> bool {
        let mut failed = self.0.lock();
        let is_known = failed.iter().any(|it| it.when == hook.when && it.command == hook.command);
        if !is_known {
            let (when, command) = (hook.when, hook.command.clone());
            failed.push(FailedHook { when, command, note: note.to_owned() });
        }
        !is_known
    }
}

/// What hooks are told of a call.
#[derive(Clone)]
pub struct Subject<'a> {
    pub client: &'a Client,
    pub progress: &'a dyn AgentProgress,
    pub failed: &'a FailedHooks,
    /// Takes secrets out of what they are shown.
    pub journal: &'a Journal,
    pub hooks: &'a [HookRule],
    /// The tool as the model sees it.
    pub tool: &'a str,
    /// When it is not declared: the declared tools in whose place it stands.
    pub in_place_of: Vec<&'a str>,
    pub id: &'a str,
}

/// What the hooks before a call decided.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// It runs, with these arguments where one changed them.
    Go(Option<Value>),
    /// It does not, for this reason.
    Deny(String),
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Before {
    arguments: Option<Value>,
    deny: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct After {
    note: Option<String>,
}

impl<'a> Subject<'a> {
    /// Some hook is about this tool.
    pub fn is_hooked(&self) -> bool {
        self.about(&[When::Before, When::After]).next().is_some()
    }

    fn about(&self, when: &'static [When]) -> impl Iterator<Item = &'a Hook> + use<'a> {
        let names: Vec<&'a str> =
            std::iter::once(self.tool).chain(self.in_place_of.iter().copied()).collect();
        self.hooks
            .iter()
            .filter(move |rule| when.contains(&rule.hook.when) && rule.is_about(&names))
            .map(|rule| &rule.hook)
    }

    /// Runs the hooks before a call, each with the arguments as the one before it left them.
    ///
    /// # Errors
    /// Only when the sandbox is gone.
    pub async fn before(&self, arguments: &Value) -> Result<Verdict, ToolError> {
        let mut changed = None;
        for hook in self.about(&[When::Before]) {
            let current = changed.as_ref().unwrap_or(arguments);
            let told = json!({
                "when": "before", "tool": self.tool, "id": self.id, "arguments": current,
            });
            match self.ask::<Before>(hook, &told).await? {
                Err(why) => return Ok(Verdict::Deny(format!("a check of it failed: {why}"))),
                Ok(Before { deny: Some(why), .. }) => return Ok(Verdict::Deny(words(&why))),
                Ok(Before { arguments: Some(new), .. }) => changed = Some(new),
                Ok(_) => {}
            }
        }
        Ok(Verdict::Go(changed))
    }

    /// Runs the hooks after a call; their notes for the model.
    ///
    /// # Errors
    /// Only when the sandbox is gone.
    pub async fn after(
        &self,
        arguments: &Value,
        output: &Result<ToolOutput, String>,
    ) -> Result<Vec<String>, ToolError> {
        let mut notes = Vec::new();
        let mut hooks = self.about(&[When::After]).peekable();
        if hooks.peek().is_none() {
            return Ok(notes);
        }
        let mut told = json!({
            "when": "after", "tool": self.tool, "id": self.id, "arguments": arguments,
            "success": output.as_ref().is_ok_and(|output| output.success),
            "output": truncate::bytes(&self.journal.redact(&text_of(output)), MAX_SHOWN),
        });
        let command = output.as_ref().ok().and_then(|output| output.command.as_ref());
        if let (Some(command), Value::Object(fields)) = (command, &mut told) {
            fields.insert("exit_code".to_owned(), json!(command.exit_code));
        }
        for hook in hooks {
            match self.ask::<After>(hook, &told).await? {
                Err(why) => notes.push(format!("a check after it failed: {why}")),
                Ok(After { note }) => notes.extend(note.map(|note| words(&note))),
            }
        }
        notes.retain(|note| !note.is_empty());
        Ok(notes)
    }

    /// What a hook answers; the inner error says why it has no answer, in words, which the operator is told as well.
    async fn ask<T: Default + for<'de> Deserialize<'de>>(
        &self,
        hook: &Hook,
        told: &Value,
    ) -> Result<Result<T, String>, ToolError> {
        let answer = self.answer(hook, told).await?;
        if let Err(why) = &answer {
            self.tell_operator(hook, why);
        }
        Ok(answer)
    }

    /// A hook has failed: says so at its first time.
    fn tell_operator(&self, hook: &Hook, why: &str) {
        let (when, so) = match hook.when {
            When::Before => ("before", ", and the call was not run"),
            When::After => ("after", ""),
        };
        let command = text::code(&text::short_command(&hook.command, MAX_COMMAND));
        let (tool, why) = (self.tool, text::line(why));
        let note =
            format!("a hook failed {when} a call of `{tool}`{so} (said once): {command}: {why}");
        let note = self.journal.redact(&note);
        if self.failed.is_new(hook, &note) {
            self.progress.happened(AgentEvent::HookFailed { note: &note });
        }
    }

    async fn answer<T: Default + for<'de> Deserialize<'de>>(
        &self,
        hook: &Hook,
        told: &Value,
    ) -> Result<Result<T, String>, ToolError> {
        let stdin = told.to_string();
        let timeout = hook.timeout_seconds.map_or(TIMEOUT, Duration::from_secs);
        let spec = piped::Spec {
            command: &hook.command,
            stdin: stdin.as_bytes(),
            env: std::collections::BTreeMap::new(),
            timeout,
            stdout_cap: MAX_ANSWER,
            stderr_cap: MAX_ERRORS,
        };
        let ran = match piped::run(self.client, spec).await {
            Ok(ran) => ran,
            Err(ToolError::Tell(why)) => return Ok(Err(why)),
            Err(broken) => return Err(broken),
        };
        let ended = &ran.command;
        if ended.timed_out {
            return Ok(Err(format!("it did not end within {timeout:?}")));
        }
        if ended.exit_code != 0 {
            let errors = words(ended.output.trim());
            let why = if errors.is_empty() { String::new() } else { format!(": {errors}") };
            return Ok(Err(format!("exit code {}{why}", ended.exit_code)));
        }
        if ran.stdout.trim_ascii().is_empty() {
            return Ok(Ok(T::default()));
        }
        // A list would be taken for the fields in their order.
        let answer = serde_json::from_slice::<Map<String, Value>>(&ran.stdout)
            .and_then(|fields| T::deserialize(Value::Object(fields)));
        Ok(answer.map_err(|err| format!("its answer is not what a hook may say: {err}")))
    }
}

/// Bounded, and without anything that a terminal would act on.
fn words(text: &str) -> String {
    let clean = text.chars().filter(|c| !c.is_control() || c.is_whitespace());
    clean.take(MAX_WORDS).collect::<String>().trim().to_owned()
}

fn text_of(output: &Result<ToolOutput, String>) -> String {
    match output {
        Err(message) => message.clone(),
        Ok(output) => {
            let commands = output.command.iter().chain(&output.commands);
            let written = commands.flat_map(|command| {
                let errors = command.errors.as_ref().map(|errors| errors.output.as_str());
                [Some(command.output.as_str()), errors].into_iter().flatten()
            });
            let parts = written.chain([output.text.as_str()]);
            parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
        }
    }
}
