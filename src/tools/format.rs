//! How a tool's output is worded: each family has seen results in a form of its own, and reads that
//! best. Always with the exit code. Pure.

use std::time::Duration;

use serde_json::{Value, json};

use super::profile::Profile;
use super::registry::Known;
use super::{CommandOutput, ToolOutput, truncate};
use crate::provider::item::{OutputForm, ToolCall};

/// What the wording depends on besides the output.
pub struct Style<'a> {
    pub profile: Profile,
    /// Most tokens of one output.
    pub tokens: u64,
    /// Takes secrets out of a text.
    pub redact: &'a dyn Fn(&str) -> String,
}

impl Style<'_> {
    /// The text of an output, cut to size and without secrets.
    pub fn text(
        &self,
        tool: &Known,
        call: &ToolCall,
        output: &ToolOutput,
        duration: Duration,
    ) -> String {
        if !output.commands.is_empty() {
            return self.several(call, &output.commands);
        }
        let Some(command) = &output.command else {
            let text = truncate::text(&output.text, self.tokens).text;
            let is_headed = matches!(self.profile, Profile::Codex | Profile::Generic);
            if tool.tool == "apply_patch" && is_headed {
                let seconds = duration.as_secs_f64();
                let head = format!("Exit code: 0\nWall time: {seconds:.1} seconds\nOutput:\n");
                return (self.redact)(&(head + &text));
            }
            return (self.redact)(&text);
        };
        let mut text = match self.profile {
            Profile::Claude => claude(command, self.tokens),
            Profile::Gemini => gemini(command, self.tokens),
            Profile::Codex | Profile::OpenAiHosted | Profile::Generic | Profile::Text => {
                codex(command, self.tokens)
            }
        };
        if !output.text.is_empty() {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&output.text);
        }
        (self.redact)(&text)
    }

    /// The outcomes of several commands: as the list that a `shell_call` is answered with, and in
    /// words where the call had another form.
    fn several(&self, call: &ToolCall, commands: &[CommandOutput]) -> String {
        let tokens = self.tokens / (commands.len() as u64).max(1);
        if call.output_form() != OutputForm::Shell {
            let texts: Vec<String> = commands.iter().map(|it| codex(it, tokens)).collect();
            return (self.redact)(&texts.join("\n\n"));
        }
        let characters = serde_json::from_str::<Value>(call.payload.as_str())
            .ok()
            .and_then(|args| args.get("max_output_length").and_then(Value::as_u64));
        let tokens = characters
            .map_or(tokens, |limit| tokens.min(limit.div_ceil(truncate::BYTES_PER_TOKEN as u64)));
        let chunk = |command: &CommandOutput| {
            let outcome = if command.timed_out {
                json!({"type": "timeout"})
            } else {
                json!({"type": "exit", "exit_code": command.exit_code})
            };
            // A secret is found in the text itself, not in its JSON.
            let stdout = (self.redact)(&truncate::command(command, tokens).text);
            json!({"stdout": stdout, "stderr": "", "outcome": outcome})
        };
        Value::Array(commands.iter().map(chunk).collect()).to_string()
    }
}

/// An output with what hooks said after the call. Where the provider takes a list it stands in the last
/// element, as an error message would; a list of tools stays one.
pub fn with_notes(
    call: &ToolCall,
    mut text: String,
    notes: &[String],
    redact: &dyn Fn(&str) -> String,
) -> String {
    let form = call.output_form();
    if notes.is_empty() || form == OutputForm::ToolSearch {
        return text;
    }
    let notes = redact(&notes.join("\n"));
    if form == OutputForm::Shell
        && let Ok(Value::Array(mut chunks)) = serde_json::from_str(&text)
        && let Some(Value::Object(chunk)) = chunks.last_mut()
    {
        chunk.insert("stderr".to_owned(), Value::String(notes));
        return Value::Array(chunks).to_string();
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str("Note: ");
    text.push_str(&notes);
    text
}

/// A head that says how the command ended, then what it wrote: clear to every model.
fn codex(command: &CommandOutput, tokens: u64) -> String {
    let truncated = truncate::command(command, tokens);
    let seconds = Duration::from_millis(command.duration_ms).as_secs_f64();
    let lines = truncated.total_lines.map(|lines| format!("Total output lines: {lines}\n"));
    let timeout = command
        .timed_out
        .then(|| format!("command timed out after {} milliseconds\n", command.duration_ms));
    format!(
        "Exit code: {}\nWall time: {seconds:.1} seconds\n{}Output:\n{}{}",
        command.exit_code,
        lines.unwrap_or_default(),
        timeout.unwrap_or_default(),
        truncated.text
    )
}

fn claude(command: &CommandOutput, tokens: u64) -> String {
    let truncated = truncate::command(command, tokens).text;
    let timeout = if command.timed_out {
        format!("Command timed out after {} ms\n", command.duration_ms)
    } else {
        String::new()
    };
    let text = format!("Exit code {}\n{timeout}{truncated}", command.exit_code);
    text.trim_end_matches('\n').to_owned()
}

fn gemini(command: &CommandOutput, tokens: u64) -> String {
    let truncated = truncate::command(command, tokens).text;
    let text = match truncated.trim_end_matches('\n') {
        "" => "(empty)",
        text => text,
    };
    let timeout = if command.timed_out {
        format!("\nError: Command timed out after {} ms", command.duration_ms)
    } else {
        String::new()
    };
    format!("Output: {text}{timeout}\nExit Code: {}", command.exit_code)
}
