//! Responses: calls and outputs, reasoning and the item behind it, items as they were sent, and what
//! this project asks of itself (no state on the server, no sampling).

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::{Asked, Recorded};
use super::{Problems, Reply, is_name, list, text, tools};

pub(super) fn check(
    problems: &mut Problems,
    recorded: &Recorded,
    asked: &Asked,
    replies: &[&Reply],
) {
    let bearer = recorded.header("authorization").starts_with("Bearer ");
    problems.must(bearer, || "no bearer token".to_owned());
    top_level(problems, &asked.body);
    let input = list(&asked.body, "input");
    let added = input.iter().filter(|item| item["type"] == "additional_tools");
    let declared: Vec<&Value> = list(&asked.body, "tools")
        .iter()
        .chain(added.flat_map(|item| list(item, "tools")))
        .flat_map(|tool| {
            let inner = list(tool, "tools");
            if tool["type"] == "namespace" { inner.iter().collect() } else { vec![tool] }
        })
        .collect();
    tools::unique(problems, declared.iter().map(|tool| text(tool, "name")));
    for tool in &declared {
        self::tool(problems, tool);
    }
    for (index, item) in input.iter().enumerate() {
        self::item(problems, index, item);
    }
    unchanged(problems, input, replies);
    pairs(problems, input);
    reasoning_is_followed(problems, input);
    reasoning_is_there(problems, input, replies);
}

fn top_level(problems: &mut Problems, body: &Value) {
    for (key, value) in body.as_object().into_iter().flatten() {
        problems.must(!value.is_null(), || format!("`{key}` is null"));
    }
    problems.must(body["input"].is_array(), || "`input` is no list".to_owned());
    problems.must(body["store"] == false, || "`store` is not false".to_owned());
    for word in ["temperature", "top_p", "max_output_tokens", "previous_response_id"] {
        problems.must(body.get(word).is_none(), || format!("`{word}` is set"));
    }
    let is_added = |item: &Value| item["type"] == "additional_tools";
    if body.get("tools").is_none() && !list(body, "input").iter().any(is_added) {
        let choice = body.get("tool_choice").is_none();
        problems.must(choice, || "`tool_choice` without tools".to_owned());
    }
}

fn tool(problems: &mut Problems, tool: &Value) {
    let name = text(tool, "name");
    if matches!(text(tool, "type"), "function" | "custom") {
        problems.refuse_if(!is_name(name, 64), || {
            format!("Invalid 'tools[].name': string does not match pattern '^[a-zA-Z0-9_-]+$': '{name}'.")
        });
    }
    if tool["type"] == "function" {
        problems.must(tool["strict"].is_boolean(), || format!("`{name}` has no `strict`"));
        if tool["strict"] == true {
            tools::strict(problems, name, &tool["parameters"]);
        }
    }
    if tool["type"] == "custom" {
        let is_grammar = tool["format"]["type"] == "grammar";
        problems.must(is_grammar, || format!("`{name}` has no grammar"));
    }
}

fn item(problems: &mut Problems, index: usize, item: &Value) {
    let kind = text(item, "type");
    problems.must(!kind.is_empty(), || format!("input[{index}] has no type"));
    match kind {
        "message" if item["role"] == "assistant" && item.get("id").is_none() => {
            let plain = item["content"].is_string();
            problems.must(plain, || format!("input[{index}]: assistant parts without id"));
        }
        "function_call" | "custom_tool_call" => {
            let name = text(item, "name");
            problems.refuse_if(!is_name(name, 64), || {
                format!("Invalid 'input[{index}].name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
            });
        }
        "reasoning" => {
            let sealed = item["encrypted_content"].is_string() || item["content"].is_array();
            let id = text(item, "id");
            problems.refuse_if(!sealed, || {
                format!("Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.")
            });
        }
        _ => {}
    }
    for field in ["content", "output"] {
        for part in list(item, field).iter().filter(|part| part["type"] == "input_image") {
            let fits = text(part, "image_url").starts_with("data:image/");
            problems.must(fits, || format!("input[{index}]: the image is no data URL"));
        }
    }
}

/// What the server sent comes back as it was.
fn unchanged(problems: &mut Problems, input: &[Value], replies: &[&Reply]) {
    let keys =
        ["type", "phase", "encrypted_content", "arguments", "input", "call_id", "name", "action"];
    let issued: BTreeMap<&str, &Value> = replies
        .iter()
        .flat_map(|reply| &reply.items)
        .filter_map(|item| Some((item["id"].as_str()?, item)))
        .collect();
    for (index, item) in input.iter().enumerate() {
        let Some(issued) = issued.get(text(item, "id")) else { continue };
        for key in keys {
            problems.must(issued.get(key) == item.get(key), || {
                format!("input[{index}].{key} is not what the server had sent")
            });
        }
    }
}

/// Each call has one output of its own kind, after it.
fn pairs(problems: &mut Problems, input: &[Value]) {
    let mut open: BTreeMap<&str, &str> = BTreeMap::new();
    let mut closed: Vec<&str> = Vec::new();
    for (index, item) in input.iter().enumerate() {
        let kind = text(item, "type");
        let Some(id) = item["call_id"].as_str() else {
            let is_output = kind.ends_with("_output");
            problems.must(!is_output, || format!("input[{index}]: `{kind}` without `call_id`"));
            continue;
        };
        if kind.ends_with("_call") {
            problems.refuse_if(open.contains_key(id) || closed.contains(&id), || {
                format!("Duplicate item found with call_id '{id}' at input[{index}].")
            });
            open.insert(id, kind);
        } else if let Some(call) = open.remove(id) {
            let fits = match call {
                "tool_search_call" => kind == "tool_search_output",
                call => kind.strip_suffix("_output") == Some(call),
            };
            problems.must(fits, || format!("input[{index}]: `{kind}` answers a `{call}`"));
            closed.push(id);
        } else {
            problems
                .refuse(format!("No tool call found for function call output with call_id {id}."));
        }
    }
    for (id, kind) in open {
        let kind = kind.replace('_', " ");
        problems.refuse(format!("No tool output found for {kind} {id}."));
    }
}

fn reasoning_is_followed(problems: &mut Problems, input: &[Value]) {
    for (index, item) in input.iter().enumerate().filter(|(_, item)| item["type"] == "reasoning") {
        let next = input.get(index + 1);
        let kind = next.map(|next| text(next, "type")).unwrap_or_default();
        let is_asked =
            next.is_some_and(|next| next["role"] == "user" || next["role"] == "developer");
        problems.refuse_if(kind.is_empty() || kind.ends_with("_output") || is_asked, || {
            let id = text(item, "id");
            format!(
                "Item '{id}' of type 'reasoning' was provided without its required following item."
            )
        });
    }
}

/// The item behind reasoning does not come back without it.
fn reasoning_is_there(problems: &mut Problems, input: &[Value], replies: &[&Reply]) {
    let is_sent = |id: &str| !id.is_empty() && input.iter().any(|item| item["id"] == id);
    for reply in replies {
        for pair in reply.items.windows(2).filter(|pair| pair[0]["type"] == "reasoning") {
            let (thought, item) = (text(&pair[0], "id"), text(&pair[1], "id"));
            problems.refuse_if(is_sent(item) && !is_sent(thought), || {
                let kind = text(&pair[1], "type");
                format!("Item '{item}' of type '{kind}' was provided without its required 'reasoning' item: '{thought}'.")
            });
        }
    }
}
