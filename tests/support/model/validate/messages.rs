//! Anthropic Messages: results in the very next message, nothing empty, at most four cache marks, and
//! what differs between models and versions of the API.

use serde_json::Value;

use super::super::{Asked, Recorded};
use super::messages_history::{pairs, unchanged};
use super::{Problems, Reply, is_name, list, text, tools};

/// A message after neighbours of one role have been joined.
pub(super) struct Joined<'a> {
    pub(super) role: &'a str,
    pub(super) blocks: Vec<&'a Value>,
}

pub(super) fn check(
    problems: &mut Problems,
    recorded: &Recorded,
    asked: &Asked,
    replies: &[&Reply],
) {
    let version = headers(problems, recorded);
    let body = &asked.body;
    for (key, value) in body.as_object().into_iter().flatten() {
        problems.must(!value.is_null(), || format!("`{key}` is null"));
    }
    of_model(problems, &asked.model, body);
    banned_by_version(problems, version, body);
    declared(problems, body);
    cache_marks(problems, body);
    for (index, message) in list(body, "messages").iter().enumerate() {
        self::message(problems, index, message);
    }
    system_messages(problems, &asked.model, list(body, "messages"));
    let joined = join(list(body, "messages"));
    problems.refuse_if(joined.first().is_none_or(|first| first.role != "user"), || {
        "messages: first message must use the \"user\" role".to_owned()
    });
    problems.refuse_if(joined.last().is_some_and(|last| last.role == "assistant"), || {
        "This model does not support assistant message prefill. The conversation must end with a user message.".to_owned()
    });
    let is_about_tools = |block: &Value| matches!(text(block, "type"), "tool_use" | "tool_result");
    let uses = joined.iter().flat_map(|message| &message.blocks).any(|block| is_about_tools(block));
    problems.refuse_if(uses && list(body, "tools").is_empty(), || {
        "Requests which include `tool_use` or `tool_result` blocks must define tools.".to_owned()
    });
    pairs(problems, &joined);
    unchanged(problems, &joined, replies);
}

fn headers<'a>(problems: &mut Problems, recorded: &'a Recorded) -> &'a str {
    let version = recorded.header("anthropic-version");
    problems.refuse_if(!["2023-06-01", "2026-10-21"].contains(&version), || {
        "anthropic-version: header is required".to_owned()
    });
    let (key, bearer) = (recorded.header("x-api-key"), recorded.header("authorization"));
    problems.must(key.is_empty() != bearer.is_empty(), || {
        "there is not exactly one of x-api-key and authorization".to_owned()
    });
    let is_bearer = bearer.is_empty() || bearer.starts_with("Bearer ");
    problems.must(is_bearer, || "the key is no bearer token".to_owned());
    version
}

/// Models before adaptive thinking.
fn is_budgeted(model: &str) -> bool {
    model.contains("-4-5")
}

/// Models that take neither sampling nor a thinking budget.
fn is_modern(model: &str) -> bool {
    let is_old = ["-4-5", "-4-6"].iter().any(|age| model.contains(age));
    model.starts_with("claude-") && !is_old
}

fn of_model(problems: &mut Problems, model: &str, body: &Value) {
    let limit = if is_budgeted(model) { 64_000 } else { 128_000 };
    let max = body["max_tokens"].as_u64().unwrap_or(0);
    problems.refuse_if(max > limit, || {
        format!("max_tokens: {max} > {limit}, which is the maximum allowed number of output tokens for {model}")
    });
    let thinking = text(&body["thinking"], "type");
    match thinking {
        "enabled" => {
            let budget = body["thinking"]["budget_tokens"].as_u64().unwrap_or(0);
            problems.refuse_if(is_modern(model), || {
                format!("\"thinking.type.enabled\" is not supported for this model ({model}). Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.")
            });
            problems.refuse_if(budget < 1024, || {
                "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
                    .to_owned()
            });
            problems.refuse_if(budget >= max, || {
                "`max_tokens` must be greater than `thinking.budget_tokens`.".to_owned()
            });
        }
        "adaptive" => problems.refuse_if(is_budgeted(model), || {
            "adaptive thinking is not supported on this model".to_owned()
        }),
        "disabled" => problems.refuse_if(model.contains("fable"), || {
            "\"thinking.type.disabled\" is not supported for this model.".to_owned()
        }),
        _ => {}
    }
    let has_effort = body["output_config"].get("effort").is_some();
    problems.refuse_if(has_effort && is_budgeted(model), || {
        "This model does not support the effort parameter.".to_owned()
    });
    let forced = matches!(text(&body["tool_choice"], "type"), "any" | "tool");
    problems.refuse_if(forced && matches!(thinking, "enabled" | "adaptive"), || {
        "Thinking may not be enabled when tool_choice forces tool use.".to_owned()
    });
    for word in ["temperature", "top_p", "top_k"] {
        let is_sent = body.get(word).is_some();
        problems.refuse_if(is_sent && is_modern(model), || {
            format!("{word}: Extra inputs are not permitted")
        });
    }
}

fn banned_by_version(problems: &mut Problems, version: &str, body: &Value) {
    if version != "2026-10-21" {
        return;
    }
    for word in ["temperature", "top_p", "top_k"] {
        problems.refuse_if(body.get(word).is_some(), || {
            format!("{word}: Extra inputs are not permitted")
        });
    }
    for (index, message) in list(body, "messages").iter().enumerate() {
        for block in list(message, "content") {
            let (role, kind) = (text(message, "role"), text(block, "type"));
            problems.refuse_if(role == "assistant" && kind == "document", || {
                format!("messages.{index}.content: `document` blocks are not permitted in assistant messages")
            });
            problems.refuse_if(role == "user" && !list(block, "citations").is_empty(), || {
                format!("messages.{index}.content: `citations` are not permitted in user messages")
            });
        }
    }
}

fn declared(problems: &mut Problems, body: &Value) {
    let declared = list(body, "tools");
    tools::unique(problems, declared.iter().map(|tool| text(tool, "name")));
    for (index, tool) in declared.iter().enumerate() {
        let name = text(tool, "name");
        problems.refuse_if(!is_name(name, 128), || {
            format!(
                "tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            )
        });
        for word in ["oneOf", "allOf", "anyOf"] {
            problems.refuse_if(tool["input_schema"].get(word).is_some(), || {
                format!("tools.{index}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level")
            });
        }
    }
    problems.refuse_if(declared.is_empty() && body.get("tool_choice").is_some(), || {
        "tool_choice may only be specified while providing tools.".to_owned()
    });
}

/// At most four, the longer-lived first, none on an empty text.
fn cache_marks(problems: &mut Problems, body: &Value) {
    let mut marks = Vec::new();
    let mut of = |block: &Value| {
        if let Some(mark) = block.get("cache_control").filter(|mark| mark.is_object()) {
            marks.push(text(mark, "ttl") == "1h");
        }
    };
    list(body, "tools").iter().for_each(&mut of);
    list(body, "system").iter().for_each(&mut of);
    for block in list(body, "messages").iter().flat_map(|message| list(message, "content")) {
        of(block);
        list(block, "content").iter().for_each(&mut of);
    }
    of(body);
    let count = marks.len();
    problems.refuse_if(count > 4, || {
        format!("A maximum of 4 blocks with cache_control may be provided. Found {count}.")
    });
    problems.refuse_if(!marks.is_sorted_by(|one, other| one >= other), || {
        "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
            .to_owned()
    });
}

fn message(problems: &mut Problems, index: usize, message: &Value) {
    let content = &message["content"];
    let is_empty = content.as_str().is_some_and(str::is_empty)
        || content.as_array().is_some_and(Vec::is_empty);
    problems.refuse_if(is_empty, || {
        format!("messages.{index}: all messages must have non-empty content except for the optional final assistant message")
    });
    for block in list(message, "content") {
        self::block(problems, index, block);
        let results = list(block, "content");
        for inner in results {
            self::block(problems, index, inner);
        }
        let all_text = results.iter().all(|inner| inner["type"] == "text");
        problems.refuse_if(block["is_error"] == true && !all_text, || {
            format!("messages.{index}.content: tool_result: all content must be type text if is_error is true")
        });
        let (role, kind) = (text(message, "role"), text(block, "type"));
        let fits = match kind {
            "tool_result" => role == "user",
            "tool_use" | "thinking" | "redacted_thinking" => role == "assistant",
            _ => true,
        };
        problems.refuse_if(!fits, || {
            format!("messages.{index}: `{kind}` blocks are not permitted in `{role}` messages")
        });
    }
}

fn block(problems: &mut Problems, index: usize, block: &Value) {
    use base64::Engine;
    if block["type"] == "text" {
        let said = text(block, "text");
        problems.refuse_if(said.is_empty(), || {
            "messages: text content blocks must be non-empty".to_owned()
        });
        problems.refuse_if(!said.is_empty() && said.trim().is_empty(), || {
            "messages: text content blocks must contain non-whitespace text".to_owned()
        });
    }
    let source = &block["source"];
    if block["type"] == "image" && source["type"] == "base64" {
        let decoded = base64::engine::general_purpose::STANDARD.decode(text(source, "data"));
        problems.refuse_if(decoded.is_err(), || {
            format!("messages.{index}.content.image.source.base64: invalid base64 data")
        });
    }
}

/// Not first, behind a user message, last or before an assistant message, words only, and not for
/// models that do not know them.
fn system_messages(problems: &mut Problems, model: &str, messages: &[Value]) {
    let knows = ["-4-5", "-4-6", "-4-7"].iter().all(|age| !model.contains(age));
    for (index, _) in messages.iter().enumerate().filter(|(_, message)| message["role"] == "system")
    {
        let before = index.checked_sub(1).and_then(|at| messages.get(at));
        let behind_user = before.is_some_and(|message| message["role"] == "user");
        let next = messages.get(index + 1);
        let before_assistant = next.is_none_or(|message| message["role"] == "assistant");
        problems.refuse_if(!(knows && behind_user && before_assistant), || {
            format!("messages.{index}.role: a `system` message is not permitted here")
        });
    }
}

fn join(messages: &[Value]) -> Vec<Joined<'_>> {
    let mut joined: Vec<Joined<'_>> = Vec::new();
    for message in messages.iter().filter(|message| message["role"] != "system") {
        let role = text(message, "role");
        let blocks: Vec<&Value> = list(message, "content").iter().collect();
        match joined.last_mut() {
            Some(last) if last.role == role => last.blocks.extend(blocks),
            _ => joined.push(Joined { role, blocks }),
        }
    }
    joined
}
