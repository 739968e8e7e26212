//! Making room in a conversation that no longer fits the model. Pure: which items stay, and what the
//! model is told about those that do not.
//!
//! A compacted conversation is the opening (task and context, untouched), one message that hands
//! over (plan, changed files, open failures, the model's own notes), and the most recent turns as
//! they were. A turn is never split: calls stay with their outputs, reasoning with what follows it.

use minijinja::context;
use serde_json::Value;

use super::history;
use super::written_calls;
use patchwright_base::error::Result;
use patchwright_prompt as prompt;
use patchwright_provider::Reply;
use patchwright_provider::item::{
    CallOutput, Content, Item, Message, Native, PICTURE_TOKENS, Role, ToolCall,
};
use patchwright_types::plan::Plan;

/// Bytes of text that are counted as a token when no provider has counted: code and JSON have few
/// bytes to a token, so this is on the high side.
const BYTES_PER_TOKEN: u64 = 3;
/// Most tokens of recent turns that stay.
const RECENT_TOKENS: u64 = 20_000;
/// Longest output that stays whole when the conversation is cut for the request for notes, in bytes.
const CUT_OUTPUT: usize = 2000;
/// Failing commands that are kept.
pub const MAX_FAILURES: usize = 3;
/// Kept of a failing command's output, in bytes.
const MAX_TAIL: usize = 1500;
/// Kept of a failing command, in bytes.
const MAX_COMMAND: usize = 300;
/// Kept of the model's notes, in bytes.
const MAX_NOTES: usize = 32 << 10;
/// Steps that are told where the model has written no notes.
const MAX_TRACE: usize = 30;
/// Kept of what it said in one of them, in bytes.
const MAX_SAID: usize = 400;
/// Kept of the arguments of a call, in bytes.
const MAX_CALLED: usize = 120;
/// Changed files that are listed.
const MAX_FILES: usize = 100;

/// A command whose last run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFailure {
    pub command: String,
    pub exit_code: i32,
    /// The end of its output.
    pub tail: String,
}

impl OpenFailure {
    /// The end of the output is what usually says why.
    pub fn new(command: String, exit_code: i32, output: &CallOutput) -> OpenFailure {
        let text = Content::texts(&output.content);
        let from = text.len().saturating_sub(MAX_TAIL);
        let tail = text[text.ceil_char_boundary(from)..].trim().to_owned();
        OpenFailure { command, exit_code, tail }
    }
}

/// The command of a call of a shell, in one line.
pub fn command(call: &ToolCall) -> String {
    let arguments: Value = serde_json::from_str(call.payload.as_str()).unwrap_or_default();
    let words = |value: &Value| match value {
        Value::Array(words) => words.iter().map(word).collect::<Vec<_>>().join(" "),
        value => word(value),
    };
    let command = arguments.get("command").or_else(|| arguments.get("cmd")).map(words);
    let command = command.unwrap_or_else(|| call.payload.as_str().to_owned());
    let line: String = command.split_whitespace().collect::<Vec<_>>().join(" ");
    line[..line.floor_char_boundary(MAX_COMMAND)].replace('`', "'")
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What the harness knows and the model must not forget.
#[derive(Debug)]
pub struct Handover<'a> {
    pub plan: &'a Plan,
    /// Paths that differ from the base commit.
    pub files: &'a [String],
    pub failures: &'a [OpenFailure],
    /// The agents that were started, and how they stand.
    pub agents: &'a [String],
    /// What the model wrote down, if it did.
    pub notes: Option<&'a str>,
    /// What it said and ran last, where it wrote nothing down.
    pub trace: &'a [String],
}

impl Handover<'_> {
    /// The message that stands in for the turns that were taken out.
    pub fn message(&self) -> Result<Item> {
        let texts: Vec<&str> = self
            .failures
            .iter()
            .flat_map(|failure| [failure.tail.as_str(), failure.command.as_str()])
            .chain(self.notes)
            .chain(self.trace.iter().map(String::as_str))
            .collect();
        let tag = prompt::tag_of(&texts);
        let plan = self.plan.steps.iter().map(|step| {
            context! { text => step.step.as_str(), mark => step.status.mark() }
        });
        let failures = self.failures.iter().map(|failure| {
            context! {
                command => failure.command.as_str(),
                exit_code => failure.exit_code,
                tail => failure.tail.as_str(),
            }
        });
        let agents = self.agents.iter().map(|line| minijinja::Value::from(line.as_str()));
        let files =
            self.files.iter().take(MAX_FILES).map(|path| minijinja::Value::from(path.as_str()));
        let trace = self.trace.iter().map(|line| minijinja::Value::from(line.as_str()));
        let text = prompt::render(
            "task/handover.md",
            context! {
                plan => plan.collect::<Vec<_>>(),
                files => files.collect::<Vec<_>>(),
                more_files => self.files.len().saturating_sub(MAX_FILES),
                agents => agents.collect::<Vec<_>>(),
                failures => failures.collect::<Vec<_>>(),
                notes => self.notes.unwrap_or_default(),
                trace => trace.collect::<Vec<_>>(),
                tag,
            },
        )?;
        Ok(history::message(Role::User, [text]))
    }
}

/// What the model wrote down for itself; `None` when it wrote nothing. Words beside a call are about the
/// call, and no notes.
pub fn notes(reply: &Reply) -> Option<String> {
    if reply.items.iter().any(|item| matches!(item, Item::Call(_))) {
        return None;
    }
    let texts = reply.items.iter().filter_map(|item| match item {
        Item::Message(message) if message.role == Role::Assistant => {
            Some(history::text_of(message))
        }
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n\n");
    let text = text.trim();
    let is_notes = !text.is_empty() && !written_calls::is_attempt(text);
    is_notes.then(|| text[..text.floor_char_boundary(MAX_NOTES)].to_owned())
}

/// What the model said and ran last, in order and each in one line: what the harness knows of the way where
/// there are no notes.
pub fn trace(items: &[Item]) -> Vec<String> {
    let line = |item: &Item| match item {
        Item::Message(message) if message.role == Role::Assistant => {
            let text = history::text_of(message);
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let line = &line[..line.floor_char_boundary(MAX_SAID)];
            (!line.is_empty()).then(|| format!("said: {line}"))
        }
        Item::Call(call) => {
            let what = command(call);
            let end = what.floor_char_boundary(MAX_CALLED);
            Some(format!("`{}`: {}", call.name.replace('`', "'"), &what[..end]))
        }
        _ => None,
    };
    let mut lines: Vec<String> = items.iter().rev().filter_map(line).take(MAX_TRACE).collect();
    lines.reverse();
    lines
}

/// The beginning of notes that has so many tokens at most.
pub fn beginning(notes: &str, tokens: u64) -> &str {
    let bytes = usize::try_from(tokens * BYTES_PER_TOKEN).unwrap_or(usize::MAX);
    &notes[..notes.floor_char_boundary(bytes)]
}

/// Tokens of these items, roughly and rather too many.
pub fn estimate(items: &[Item]) -> u64 {
    items.iter().map(tokens).sum()
}

/// Tokens of one output, roughly and rather too many.
pub fn estimate_output(output: &CallOutput) -> u64 {
    content(&output.content) + 20
}

/// Tokens of a text, roughly and rather too many.
pub fn estimate_text(text: &str) -> u64 {
    estimate_bytes(text.len())
}

/// Tokens of a text with so many bytes, roughly and rather too many.
pub fn estimate_bytes(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

fn tokens(item: &Item) -> u64 {
    let native = |native: &Option<Native>| {
        native.as_ref().map_or(0, |native| estimate_text(&native.value.to_string()))
    };
    match item {
        Item::Message(message) => content(&message.content) + native(&message.native),
        // A thought is sent in its native form, which contains the summary.
        Item::Reasoning(thought) => native(&thought.native),
        Item::Call(call) => estimate_text(call.payload.as_str()) + native(&call.native) + 20,
        Item::Output(output) => estimate_output(output),
        Item::Opaque(opaque) => estimate_text(&opaque.value.to_string()),
    }
}

fn content(parts: &[Content]) -> u64 {
    let part = |part: &Content| match part {
        Content::Text { text } | Content::Refusal { text } => estimate_text(text),
        Content::Image { .. } => PICTURE_TOKENS as u64,
    };
    parts.iter().map(part).sum()
}

/// Tokens of the last turns that [`compacted`] leaves at most.
pub fn most_kept(limit: u64) -> u64 {
    (limit / 4).min(RECENT_TOKENS)
}

/// The conversation, with `handover` instead of the turns between the opening and the last ones that
/// fit into a tenth of `limit` tokens. Where not even the last turn does, it stays with its outputs cut,
/// up to a quarter of the limit: what the model has just seen is what it works on.
pub fn compacted(items: &[Item], opening: usize, handover: Item, limit: u64) -> Vec<Item> {
    let opening = opening.min(items.len());
    let budget = (limit / 10).min(RECENT_TOKENS);
    let from = recent(items, opening, budget);
    let mut rest = items[..opening].to_vec();
    rest.push(handover);
    if from < items.len() {
        rest.extend_from_slice(&items[from..]);
        return rest;
    }
    let cut = items[opening..].iter().map(|item| shortened_results(shortened(item)));
    let cut: Vec<Item> = cut.collect();
    let last = (0..cut.len()).rev().find(|index| is_turn_start(&cut, *index));
    let last = &cut[last.unwrap_or(cut.len())..];
    if estimate(last) <= most_kept(limit) {
        rest.extend_from_slice(last);
    }
    rest
}

/// The conversation for the request for notes, cut to `limit` tokens: outputs of earlier turns lose
/// their middle, then the earliest turns go.
pub fn cut(items: &[Item], opening: usize, limit: u64) -> Vec<Item> {
    let opening = opening.min(items.len());
    let mut cut = items[..opening].to_vec();
    let shortened: Vec<Item> = items[opening..].iter().map(shortened).collect();
    let from = recent(&shortened, 0, limit.saturating_sub(estimate(&cut)));
    cut.extend_from_slice(&shortened[from..]);
    cut
}

/// Where the last turns that fit into `budget` tokens begin.
fn recent(items: &[Item], from: usize, budget: u64) -> usize {
    let mut spent = 0;
    let mut start = items.len();
    for index in (from..items.len()).rev() {
        spent += tokens(&items[index]);
        if spent > budget {
            break;
        }
        if is_turn_start(items, index) {
            start = index;
        }
    }
    start
}

/// The model begins to speak here.
fn is_turn_start(items: &[Item], index: usize) -> bool {
    let is_models = |item: &Item| match item {
        Item::Message(message) => message.role == Role::Assistant,
        Item::Reasoning(_) | Item::Call(_) | Item::Opaque(_) => true,
        Item::Output(_) => false,
    };
    let before = index.checked_sub(1).and_then(|before| items.get(before));
    items.get(index).is_some_and(is_models) && !before.is_some_and(is_models)
}

/// A long output without its middle.
fn shortened(item: &Item) -> Item {
    let Item::Output(output) = item else { return item.clone() };
    let content = output.content.iter().map(|part| match part {
        Content::Text { text } if text.len() > CUT_OUTPUT => Content::text(ends(text, CUT_OUTPUT)),
        Content::Image { .. } => Content::text("[a picture was here]"),
        part => part.clone(),
    });
    let content = content.collect();
    Item::Output(CallOutput { content, ..output.clone() })
}

/// Shortens the results in what is said to a model that makes its calls as text.
fn shortened_results(item: Item) -> Item {
    let Item::Message(message) = item else { return item };
    if message.role == Role::Assistant {
        return Item::Message(message);
    }
    let content = message.content.into_iter().map(|part| match part {
        Content::Text { text } if text.len() > CUT_OUTPUT => Content::text(ends(&text, CUT_OUTPUT)),
        part => part,
    });
    Item::Message(Message { content: content.collect(), ..message })
}

/// The two ends of a text.
fn ends(text: &str, bytes: usize) -> String {
    let head = text.floor_char_boundary(bytes / 2);
    let tail = text.ceil_char_boundary(text.len() - bytes / 2);
    format!("{}\n[{} bytes left out]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use crate::compact::*;
    use patchwright_provider::item::{OutputForm, Payload, Reasoning, ToolCall};

    fn turn(id: &str, output: &str) -> Vec<Item> {
        let (id, name) = (id.to_owned(), "shell_command".to_owned());
        let payload = Payload::Json("{}".to_owned());
        vec![
            Item::Reasoning(Reasoning { summary: Vec::new(), native: None }),
            Item::Call(ToolCall { id: id.clone(), name: name.clone(), payload, native: None }),
            Item::Output(CallOutput {
                id,
                name,
                content: vec![Content::text(output)],
                success: true,
                ran: false,
                goes_on: false,
                form: OutputForm::Function,
            }),
        ]
    }

    fn conversation(turns: usize, output: &str) -> Vec<Item> {
        let mut items = vec![history::message(Role::User, ["task"])];
        items.extend((0..turns).flat_map(|number| turn(&format!("c{number}"), output)));
        items
    }

    #[test]
    fn the_opening_and_whole_recent_turns_stay() {
        let items = conversation(10, &"x".repeat(3000));
        let handover = history::message(Role::User, ["handover"]);
        let after = compacted(&items, 1, handover.clone(), 25_000);
        assert_eq!(after[..2], [items[0].clone(), handover.clone()]);
        assert_eq!(after[2..], items[items.len() - 6..]);
        // Not even one turn fits: the last one without the middle of its output.
        let after = compacted(&items, 1, handover.clone(), 5000);
        assert_eq!(after[..2], [items[0].clone(), handover.clone()]);
        assert_eq!(after[2..], cut(&items, 1, 1_000_000)[items.len() - 3..]);
        // Not even that: the handover alone.
        let after = compacted(&items, 1, handover.clone(), 2000);
        assert_eq!(after, [items[0].clone(), handover]);
    }

    #[test]
    fn in_a_small_window_the_last_output_survives_in_part() {
        let long = format!("begin{}end", "x".repeat(10_000));
        let items = conversation(20, &long);
        let limit = 32_000 / 100 * 85;
        let after = compacted(&items, 1, history::message(Role::User, ["handover"]), limit);
        let Some(Item::Output(output)) = after.last() else { panic!("{after:?}") };
        let text = Content::texts(&output.content);
        assert_eq!(output.id, "c19");
        assert!(text.starts_with("begin") && text.ends_with("end"), "{text}");
        assert!(text.contains("bytes left out") && estimate(&after) < limit / 4);
    }

    #[test]
    fn the_request_for_notes_is_cut_from_the_front() {
        let items = conversation(10, &"x".repeat(30_000));
        let whole = estimate(&items);
        let cut_a_bit = cut(&items, 1, whole / 2);
        assert_eq!(cut_a_bit.len(), items.len(), "shorter outputs are enough");
        let cut_hard = cut(&items, 1, 2500);
        assert_eq!(cut_hard[0], items[0]);
        assert!(estimate(&cut_hard) <= 2500);
        assert!(is_turn_start(&cut_hard, 1));
        assert_eq!(cut_hard.len(), 1 + 3 * 3);
        assert_eq!(cut(&items, 1, 0), items[..1]);
    }

    #[test]
    fn the_ends_of_a_text_are_whole_characters() {
        let text = "ä".repeat(2000);
        let short = ends(&text, 1001);
        assert!(short.starts_with("ää") && short.ends_with("ää"));
        assert!(short.contains("bytes left out"));
        assert!(short.len() < 1100);
    }
}
