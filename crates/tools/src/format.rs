//! How a tool's output is worded: each family has seen results in a form of its own, and reads that
//! best. Always with the exit code. Pure.

use std::time::Duration;

use serde_json::{Value, json};

use super::profile::Profile;
use super::registry::ResolvedTool;
use super::truncate;
use patchwright_guest::tool::{CommandOutput, Image, Part, ToolOutput};
use patchwright_provider::item::{Content, OutputForm, ToolCall};

/// By so much a command may be ended before its time.
const MARGIN: Duration = Duration::from_secs(1);

/// What the wording depends on besides the output.
pub struct Style<'a> {
    pub profile: Profile,
    /// Most tokens of one output.
    pub tokens: u64,
    /// How long a command may take in this run.
    pub longest: Duration,
    /// Takes secrets out of a text.
    pub redact: &'a dyn Fn(&str) -> String,
}

impl Style<'_> {
    /// The text of an output, cut to size and without secrets.
    pub fn text(
        &self,
        tool: &ResolvedTool,
        call: &ToolCall,
        output: &ToolOutput,
        duration: Duration,
    ) -> String {
        if !output.commands.is_empty() {
            return self.several(call, &output.commands);
        }
        let Some(command) = &output.command else {
            let text = truncate::saved_text(output, self.tokens, self.whereabouts()).text;
            let is_headed = matches!(self.profile, Profile::Codex | Profile::Generic);
            if tool.tool == "apply_patch" && is_headed {
                let seconds = duration.as_secs_f64();
                let head = format!("Exit code: 0\nWall time: {seconds:.1} seconds\nOutput:\n");
                return (self.redact)(&(head + &text));
            }
            return (self.redact)(&text);
        };
        let is_session = tool.is_session();
        let tokens = if is_session { self.tokens.min(asked(call)) } else { self.tokens };
        let mut text = match self.profile {
            Profile::Claude => claude(command, tokens),
            Profile::Gemini => gemini(command, tokens),
            Profile::Codex if is_session => session(&call.id, command, tokens),
            Profile::Codex | Profile::OpenAiHosted | Profile::Generic | Profile::Text => {
                codex(command, tokens)
            }
        };
        let memory = memory_note(command).unwrap_or_default();
        let late = self.after_timeout(tool, command).unwrap_or_default();
        for note in [&output.text, &memory, &late].into_iter().filter(|note| !note.is_empty()) {
            add_line(&mut text, note);
        }
        (self.redact)(&text)
    }

    /// How to go on after a command that ran out of time. The shell that stays lets it go on and says so, and sessions
    /// are waited for.
    fn after_timeout(&self, tool: &ResolvedTool, command: &CommandOutput) -> Option<String> {
        let is_ended = command.timed_out && command.session.is_none();
        let ends_commands = matches!(tool.tool.as_ref(), "shell_command" | "shell");
        if !is_ended || !ends_commands {
            return None;
        }
        let lasted = Duration::from_millis(command.duration_ms);
        let how = if lasted.saturating_add(MARGIN) < self.longest {
            let most = self.longest.as_millis();
            format!("It was ended: give what takes longer more `timeout_ms`, up to {most}.")
        } else {
            "It was ended, and none may take longer: run less of it at a time.".to_owned()
        };
        Some(format!("{how} A server belongs in the background: `COMMAND > LOG 2>&1 &`."))
    }

    /// What stands before the path of a file with an output that was cut.
    fn whereabouts(&self) -> &'static str {
        match self.profile {
            Profile::Claude => CLAUDE_WHOLE,
            Profile::Gemini => GEMINI_WHOLE,
            Profile::Codex | Profile::OpenAiHosted | Profile::Generic | Profile::Text => WHOLE,
        }
    }

    /// What else an output shows, in order: all of it when its texts fit into the limit, otherwise its
    /// texts as one, cut to size, before its pictures.
    pub fn parts(&self, parts: &[Part], shows_pictures: bool) -> Vec<Content> {
        let texts = || {
            parts.iter().filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Image(_) => None,
            })
        };
        let content = |part: &Part| match part {
            Part::Text(text) => Content::text((self.redact)(text)),
            Part::Image(Image { media_type, data }) if shows_pictures => {
                Content::Image { media_type: media_type.clone(), data: data.clone() }
            }
            Part::Image(_) => Content::text("(a picture, which this model does not take)"),
        };
        let bytes: usize = texts().map(str::len).sum();
        if bytes.div_ceil(truncate::BYTES_PER_TOKEN) as u64 <= self.tokens {
            return parts.iter().map(content).collect();
        }
        let whole = truncate::text(&texts().collect::<Vec<_>>().join("\n"), self.tokens).text;
        let images = parts.iter().filter(|part| matches!(part, Part::Image(_))).map(content);
        std::iter::once(Content::text((self.redact)(&whole))).chain(images).collect()
    }

    /// The outcomes of several commands: as the list that a `shell_call` is answered with, and in
    /// words where the call had another form.
    fn several(&self, call: &ToolCall, commands: &[CommandOutput]) -> String {
        let tokens = self.tokens / (commands.len() as u64).max(1);
        if call.output_form() != OutputForm::Shell {
            let texts: Vec<String> = commands.iter().map(|it| in_words(it, tokens)).collect();
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
            let (tokens, for_errors) = truncate::shared(command, tokens);
            let errors = command.errors.as_ref().map(|it| truncate::errors(it, for_errors).text);
            let mut errors = errors.unwrap_or_default();
            if let Some(note) = memory_note(command) {
                add_line(&mut errors, &note);
            }
            // A secret is found in the text itself, not in its JSON.
            let stdout = (self.redact)(&truncate::command(command, tokens, WHOLE).text);
            let stderr = (self.redact)(&errors);
            json!({"stdout": stdout, "stderr": stderr, "outcome": outcome})
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
        let before = chunk.get("stderr").and_then(Value::as_str).unwrap_or_default();
        let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
        let stderr = format!("{before}{gap}{notes}");
        chunk.insert("stderr".to_owned(), Value::String(stderr));
        return Value::Array(chunks).to_string();
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str("Note: ");
    text.push_str(&notes);
    text
}

/// A command whose errors were kept apart: they follow its output.
fn in_words(command: &CommandOutput, tokens: u64) -> String {
    let (tokens, for_errors) = truncate::shared(command, tokens);
    let mut text = codex(command, tokens);
    if let Some(errors) = command.errors.as_ref().filter(|errors| !errors.output.is_empty()) {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str("Errors:\n");
        text.push_str(&truncate::errors(errors, for_errors).text);
    }
    if let Some(note) = memory_note(command) {
        add_line(&mut text, &note);
    }
    text
}

/// What a model is told of a command during which memory ran out; of itself it sees an exit code at most.
pub(crate) fn memory_note(command: &CommandOutput) -> Option<String> {
    let words = command.memory_words()?;
    let (first, rest) = words.split_at_checked(1)?;
    Some(format!(
        "{}{rest}. Use less at a time: fewer parallel jobs, smaller pieces, no large files in /tmp, which is \
         memory as well.",
        first.to_uppercase()
    ))
}

/// Adds a line to a text that may end within one.
fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}

/// Most tokens that a call asks for.
fn asked(call: &ToolCall) -> u64 {
    serde_json::from_str::<Value>(call.payload.as_str())
        .ok()
        .and_then(|args| args.get("max_output_tokens")?.as_u64())
        .unwrap_or(u64::MAX)
}

/// What is new in a session, in the words that the codex models know. `call` names the piece.
fn session(call: &str, command: &CommandOutput, tokens: u64) -> String {
    let truncated = truncate::command(command, tokens, WHOLE);
    let seconds = Duration::from_millis(command.duration_ms).as_secs_f64();
    let state = match command.session {
        Some(number) => format!("Process running with session ID {number}"),
        None => format!("Process exited with code {}", command.exit_code),
    };
    let lines = truncated.total_lines.map(|lines| format!("Total output lines: {lines}\n"));
    format!(
        "Chunk ID: {}\nWall time: {seconds:.4} seconds\n{state}\nOriginal token count: {}\n{}Output:\n{}",
        chunk_id(call),
        command.total_bytes.div_ceil(truncate::BYTES_PER_TOKEN as u64),
        lines.unwrap_or_default(),
        truncated.text
    )
}

/// Six hexadecimal digits that are the same whenever the call is (FNV-1a, folded).
fn chunk_id(call: &str) -> String {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = call.bytes().fold(0x811c_9dc5, step);
    format!("{:06x}", (hash >> 24) ^ (hash & 0x00ff_ffff))
}

/// Before the path of a file with an output that was cut.
const WHOLE: &str = "the whole output is in";
const CLAUDE_WHOLE: &str = "full output saved to:";
const GEMINI_WHOLE: &str = "for full output see:";

/// How the command ended, or that it has not.
fn ending(command: &CommandOutput, label: &str) -> String {
    match command.session {
        Some(number) => format!("Still running in session {number}"),
        None => format!("{label} {}", command.exit_code),
    }
}

/// A head that says how the command ended, then what it wrote: clear to every model.
fn codex(command: &CommandOutput, tokens: u64) -> String {
    let truncated = truncate::command(command, tokens, WHOLE);
    let seconds = Duration::from_millis(command.duration_ms).as_secs_f64();
    let lines = truncated.total_lines.map(|lines| format!("Total output lines: {lines}\n"));
    let timeout = command
        .timed_out
        .then(|| format!("command timed out after {} milliseconds\n", command.duration_ms));
    format!(
        "{}\nWall time: {seconds:.1} seconds\n{}Output:\n{}{}",
        ending(command, "Exit code:"),
        lines.unwrap_or_default(),
        timeout.unwrap_or_default(),
        truncated.text
    )
}

fn claude(command: &CommandOutput, tokens: u64) -> String {
    let truncated = truncate::command(command, tokens, CLAUDE_WHOLE).text;
    let timeout = if command.timed_out {
        format!("Command timed out after {} ms\n", command.duration_ms)
    } else {
        String::new()
    };
    let text = format!("{}\n{timeout}{truncated}", ending(command, "Exit code"));
    text.trim_end_matches('\n').to_owned()
}

fn gemini(command: &CommandOutput, tokens: u64) -> String {
    let truncated = truncate::command(command, tokens, GEMINI_WHOLE).text;
    let text = match truncated.trim_end_matches('\n') {
        "" => "(empty)",
        text => text,
    };
    let timeout = if command.timed_out {
        format!("\nError: Command timed out after {} ms", command.duration_ms)
    } else {
        String::new()
    };
    format!("Output: {text}{timeout}\n{}", ending(command, "Exit Code:"))
}
