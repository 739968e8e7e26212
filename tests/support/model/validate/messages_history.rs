//! Anthropic Messages: each `tool_use` with its result, and what the model said as it said it.

use serde_json::Value;

use super::messages::Joined;
use super::{Problems, Reply, is_name, text};

pub(super) fn pairs(problems: &mut Problems, messages: &[Joined<'_>]) {
    let mut seen: Vec<&str> = Vec::new();
    let mut asked: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let ids = |kind: &str, field: &str| -> Vec<&str> {
            let of_kind = message.blocks.iter().filter(|block| block["type"] == *kind);
            of_kind.map(|block| text(block, field)).collect()
        };
        let results = ids("tool_result", "tool_use_id");
        for id in &results {
            problems.refuse_if(!asked.contains(id), || {
                format!("messages.{index}.content: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.")
            });
        }
        let twice = results.iter().enumerate().any(|(at, id)| results[..at].contains(id));
        problems.refuse_if(twice, || {
            format!("messages.{index}.content: each tool_use must have a single result. Found multiple `tool_result` blocks with the same id")
        });
        let missing: Vec<&str> = asked.iter().filter(|id| !results.contains(id)).copied().collect();
        problems.refuse_if(!missing.is_empty(), || unanswered(index - 1, &missing));
        let results_first = message
            .blocks
            .iter()
            .skip_while(|block| block["type"] == "tool_result")
            .all(|block| block["type"] != "tool_result");
        problems.refuse_if(!results_first, || {
            format!("messages.{index}.content: `tool_result` blocks must come first in the message")
        });
        asked = ids("tool_use", "id");
        for (id, name) in asked.iter().zip(ids("tool_use", "name")) {
            problems.refuse_if(seen.contains(id), || {
                "messages: `tool_use` ids must be unique".to_owned()
            });
            problems.refuse_if(!is_name(id, 256), || {
                format!("messages.{index}.content.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            });
            problems.refuse_if(!is_name(name, 200), || {
                format!("messages.{index}.content.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'")
            });
        }
        seen.extend(&asked);
    }
    problems.refuse_if(!asked.is_empty(), || unanswered(messages.len() - 1, &asked));
}

fn unanswered(index: usize, ids: &[&str]) -> String {
    let ids = ids.join(", ");
    format!(
        "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )
}

/// Blocks of a reply come back unmodified, all of them, in their order.
pub(super) fn unchanged(problems: &mut Problems, messages: &[Joined<'_>], replies: &[&Reply]) {
    let sent: Vec<&Value> = messages
        .iter()
        .filter(|message| message.role == "assistant")
        .flat_map(|message| message.blocks.iter().copied())
        .collect();
    let is_known =
        |block: &Value| replies.iter().flat_map(|reply| &reply.items).any(|it| same(it, block));
    let thinks = |block: &Value| matches!(text(block, "type"), "thinking" | "redacted_thinking");
    let has_thought = replies.iter().flat_map(|reply| &reply.items).any(thinks);
    for block in sent.iter().filter(|block| thinks(block)) {
        problems.refuse_if(has_thought && !is_known(block), || {
            "messages: Invalid `signature` in `thinking` block".to_owned()
        });
    }
    for reply in replies {
        of_reply(problems, &sent, reply);
    }
}

fn of_reply(problems: &mut Problems, sent: &[&Value], reply: &Reply) {
    let position = |item: &Value| sent.iter().position(|block| same(item, block));
    let identified = reply.items.iter().filter(|item| item["type"] != "text");
    let Some(start) = identified.clone().filter_map(position).min() else { return };
    let mut last = start;
    for item in &reply.items {
        let kind = text(item, "type");
        let found = match kind {
            "text" => sent
                .iter()
                .position(|block| block["type"] == "text" && block["text"] == item["text"]),
            _ => position(item),
        };
        let Some(at) = found else {
            problems.must(!reply.is_whole, || {
                format!("the `{kind}` block of reply {} is not sent back", reply.number)
            });
            continue;
        };
        let in_order = kind == "text" || at >= last;
        problems.must(in_order, || format!("the blocks of reply {} changed places", reply.number));
        if kind != "text" {
            last = at;
            problems.refuse_if(kind.ends_with("thinking") && !equal(item, sent[at]), || {
                format!("messages.{at}.content: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.")
            });
            problems.must(equal(item, sent[at]), || {
                format!(
                    "the `{kind}` block of reply {} is not as the server had sent it",
                    reply.number
                )
            });
        }
    }
}

/// Whether two blocks are one, by what identifies them.
fn same(one: &Value, other: &Value) -> bool {
    let key = match text(one, "type") {
        "tool_use" => "id",
        "thinking" => "signature",
        "redacted_thinking" => "data",
        _ => return false,
    };
    one["type"] == other["type"] && one[key] == other[key]
}

/// Whether a block is as it was sent. A name that the API would not take and arguments that were no
/// object cannot be.
fn equal(issued: &Value, block: &Value) -> bool {
    let mut block = block.clone();
    let mut issued = issued.clone();
    if let Some(fields) = block.as_object_mut() {
        fields.shift_remove("cache_control");
    }
    if issued["type"] == "tool_use" {
        if !issued["input"].is_object() {
            issued["input"] = block["input"].clone();
        }
        if !is_name(text(&issued, "name"), 200) {
            issued["name"] = block["name"].clone();
        }
    }
    issued == block
}
