//! Models without tool calls: what the text of a reply asks for becomes calls, and their results go
//! back as one message of the user.
//!
//! The calls are run, journalled and counted like any others, but they are not in the history: it
//! holds messages only, which every wire and server can carry. Pure; ids follow from turn and
//! position, and from what was said last, so a recorded reply gives the same calls again. `docs/text-formats.md` has the rules.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::history::{History, message, text_of};
use super::reply::{AcceptedReply, drop_trailing_reasoning};
use patchwright_guest::edit_format::checklist::Checklist;
use patchwright_guest::edit_format::fence::without_thoughts;
use patchwright_guest::edit_format::{self, Block, Edit, What};
use patchwright_guest::tools::text_edit;
use patchwright_prompt as prompt;
use patchwright_provider::Reply;
use patchwright_provider::item::{CallOutput, Content, Item, Payload, Role, StopReason, ToolCall};
use patchwright_tools::dispatch;
use patchwright_types::calls::Fault;

/// What a model is told that has shown code and done nothing.
const FINISHED: &str = "Nothing of your last reply was carried out. If the work is finished, send the final message again, \
                        whole; that ends the run.";

/// Sorts a reply whose calls are written as text, the next one in this conversation. Nothing of a reply that was cut is run.
pub fn accept(reply: &Reply, turn: u32, history: &History) -> AcceptedReply {
    let mut accepted = AcceptedReply {
        items: Vec::with_capacity(reply.items.len()),
        calls: Vec::new(),
        remarks: Vec::new(),
        fault: None,
        text: None,
        stop: reply.stop,
        is_refusal: false,
        is_text: true,
        is_misnamed: false,
        is_commentary: false,
        not_carried_out: None,
    };
    let mut said = String::new();
    for item in &reply.items {
        match item {
            Item::Message(message) if message.role == Role::Assistant => {
                let is_refusal = |part: &Content| matches!(part, Content::Refusal { .. });
                accepted.is_refusal |= message.content.iter().any(is_refusal);
                let text = text_of(message);
                let visible = without_thoughts(&text).trim();
                if !visible.is_empty() {
                    accepted.text = Some(visible.to_owned());
                }
                said.push_str(visible);
                said.push('\n');
            }
            Item::Call(call) => {
                let name = dispatch::printable(&call.name);
                accepted.remarks.push(format!(
                    "A call of `{name}` was not run: there are no tool calls here. Write fenced \
                     blocks instead, as the instructions say."
                ));
                accepted.fault = Some(Fault::Malformed);
                continue;
            }
            Item::Message(_) | Item::Output(_) => continue,
            Item::Reasoning(_) | Item::Opaque(_) => {}
        }
        accepted.items.push(item.clone());
    }
    if reply.stop == StopReason::EndTurn {
        let blocks = edit_format::read(&said);
        let told = match history.items().last() {
            Some(Item::Message(message)) => text_of(message),
            _ => String::new(),
        };
        collect(blocks, turn, &told, &mut accepted);
    }
    accepted.is_refusal &= accepted.calls.is_empty();
    if reply.stop != StopReason::Pause {
        drop_trailing_reasoning(&mut accepted.items);
    }
    accepted
}

/// Turns blocks into calls. Edits of one file that have no command between them are one call, so
/// that they are applied together or not at all. `told` is what the model was told last.
fn collect(blocks: Vec<Block>, turn: u32, told: &str, accepted: &mut AcceptedReply) {
    let mut edits: Vec<(String, Vec<Edit>)> = Vec::new();
    let mut calls: Vec<(&str, Value)> = Vec::new();
    let flush = |edits: &mut Vec<(String, Vec<Edit>)>, calls: &mut Vec<(&str, Value)>| {
        calls.extend(edits.drain(..).map(|(path, edits)| text_edit_call(&path, &edits, told)));
    };
    let mut unnamed = Vec::new();
    for block in blocks {
        match block.what {
            What::Edit { path, edit } => {
                let path = path.trim_start_matches("./").to_owned();
                if let Some((_, edits)) = edits.iter_mut().find(|(known, _)| *known == path) {
                    edits.push(edit);
                    continue;
                }
                // No more calls than that are run; looking through more files would only be slow.
                if edits.len() == dispatch::MAX_CALLS {
                    flush(&mut edits, &mut calls);
                }
                edits.push((path, vec![edit]));
            }
            What::Command(script) => {
                flush(&mut edits, &mut calls);
                calls.push(("shell_command", json!({ "command": script })));
            }
            What::Plan(list) => calls.push(("update_plan", plan(list))),
            What::Malformed(why) => {
                accepted.remarks.push(format!("Line {} of your reply: {why}.", block.line));
                accepted.fault = Some(Fault::Malformed);
            }
            What::Unnamed(why) => {
                unnamed.push(format!("Line {} of your reply: {why}.", block.line));
            }
        }
    }
    flush(&mut edits, &mut calls);
    if calls.is_empty() && accepted.remarks.is_empty() && !unnamed.is_empty() {
        accepted.not_carried_out = Some(format!("{} {FINISHED}", unnamed.join(" ")));
    } else {
        accepted.remarks.append(&mut unnamed);
    }
    for (number, (name, arguments)) in (1..).zip(calls) {
        let payload = arguments.to_string();
        if payload.len() > dispatch::MAX_ARGUMENTS {
            accepted.remarks.push(format!(
                "A block for `{name}` was not run: it has {} bytes, and at most {} are allowed. Do the \
                 work in smaller steps.",
                payload.len(),
                dispatch::MAX_ARGUMENTS
            ));
            accepted.fault = Some(Fault::Malformed);
            continue;
        }
        accepted.calls.push(ToolCall {
            id: format!("text_{turn}_{number}"),
            name: name.to_owned(),
            payload: Payload::Json(payload),
            native: None,
        });
    }
}

/// Edits of one file. One that takes most of it away was asked about before.
fn text_edit_call(path: &str, edits: &[Edit], told: &str) -> (&'static str, Value) {
    let mut arguments = json!({ "path": path, "edits": edits });
    if told.contains(&text_edit::shrinks(path)) {
        arguments["may_shrink"] = Value::Bool(true);
    }
    ("text_edit", arguments)
}

fn plan(list: Checklist) -> Value {
    let steps: Vec<Value> = list
        .items
        .into_iter()
        .map(|item| json!({ "step": item.text, "status": item.state }))
        .collect();
    match list.explanation {
        Some(explanation) => json!({ "explanation": explanation, "plan": steps }),
        None => json!({ "plan": steps }),
    }
}

/// What is wrong with a reply from which nothing was run, as one message.
pub fn remarks(reply: &AcceptedReply) -> Vec<Item> {
    if reply.remarks.is_empty() || !reply.calls.is_empty() {
        return Vec::new();
    }
    let text = format!("Nothing was run.\n\n{}", reply.remarks.join("\n\n"));
    vec![message(Role::User, [text])]
}

/// The results of all calls of a reply, and what was wrong with the rest of it, as one message.
/// Outputs stand between tags that they cannot contain: the tag is made from the outputs.
pub fn results<'o>(reply: &AcceptedReply, outputs: impl Iterator<Item = &'o CallOutput>) -> Item {
    let outputs: Vec<(String, bool)> =
        outputs.map(|output| (Content::texts(&output.content), output.success)).collect();
    let texts: Vec<&str> = outputs.iter().map(|(text, _)| text.as_str()).collect();
    let tag = prompt::tag_of(&texts);
    let mut parts = vec![
        "These are the results of the blocks of your reply, in the order in which they were run."
            .to_owned(),
    ];
    let (mut applied, mut missed) = (Vec::new(), Vec::new());
    for (number, (call, (text, success))) in (1..).zip(reply.calls.iter().zip(&outputs)) {
        let (title, path) = title(call);
        if let Some(path) = path {
            if *success { &mut applied } else { &mut missed }.push(format!("`{path}`"));
        }
        parts.push(format!(
            "{number}. {title}\n<output-{tag}>\n{}\n</output-{tag}>",
            text.trim_end_matches('\n')
        ));
    }
    parts.extend(reply.remarks.iter().cloned());
    if !missed.is_empty() {
        let mut text = format!("Edits that were not applied: {}.", missed.join(", "));
        if !applied.is_empty() {
            let applied = applied.join(", ");
            let _ = write!(text, " The edits of {applied} were applied: do not send them again.");
        }
        text.push_str(
            " Send those that failed once more, with lines copied exactly from the file as it is now.",
        );
        parts.push(text);
    }
    message(Role::User, [parts.join("\n\n")])
}

/// A line about a call, and the file that it edits.
fn title(call: &ToolCall) -> (String, Option<String>) {
    let arguments: Value = serde_json::from_str(call.payload.as_str()).unwrap_or_default();
    let field = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    match call.name.as_str() {
        "text_edit" => (format!("Edit of `{}`", field("path")), Some(field("path").to_owned())),
        "shell_command" => {
            let script = field("command").trim();
            let line: String = script.lines().next().unwrap_or_default().chars().take(80).collect();
            let dots = if line.len() < script.len() { " …" } else { "" };
            (format!("Command `{line}{dots}`"), None)
        }
        _ => ("Plan".to_owned(), None),
    }
}
