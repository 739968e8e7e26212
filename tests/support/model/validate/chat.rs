//! Chat Completions: calls answered at once, nothing empty, and toward compatible servers nothing
//! that only OpenAI knows.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::chat::is_openai;
use super::super::{Asked, Recorded};
use super::{Problems, Reply, is_name, list, text, tools};

pub(super) fn check(
    problems: &mut Problems,
    recorded: &Recorded,
    asked: &Asked,
    replies: &[&Reply],
) {
    let authorization = recorded.header("authorization");
    let is_bearer = authorization.is_empty() || authorization.starts_with("Bearer ");
    problems.must(is_bearer, || "the key is no bearer token".to_owned());
    let body = &asked.body;
    let at_openai = is_openai(&asked.model);
    top_level(problems, body, at_openai);
    declared(problems, body, at_openai);
    let messages = list(body, "messages");
    problems.refuse_if(messages.is_empty(), || {
        "Invalid 'messages': empty array. Expected an array with minimum length 1.".to_owned()
    });
    for (index, message) in messages.iter().enumerate() {
        self::message(problems, index, message, at_openai);
    }
    answers(problems, messages);
    if !at_openai {
        alternate(problems, messages);
    }
    unchanged(problems, messages, replies);
}

fn top_level(problems: &mut Problems, body: &Value, at_openai: bool) {
    for (key, value) in body.as_object().into_iter().flatten() {
        problems.must(!value.is_null(), || format!("`{key}` is null"));
    }
    for word in ["temperature", "top_p", "max_tokens", "user", "seed"] {
        problems.must(body.get(word).is_none(), || format!("`{word}` is set"));
    }
    if body.get("tools").is_none() {
        for word in ["tool_choice", "parallel_tool_calls"] {
            problems.refuse_if(body.get(word).is_some(), || {
                format!("'{word}' is only allowed when 'tools' are specified.")
            });
        }
    }
    problems.must(body["stream_options"]["include_usage"] == true, || {
        "`stream_options.include_usage` is not set".to_owned()
    });
    if !at_openai {
        for word in ["store", "prompt_cache_key", "verbosity", "metadata", "service_tier"] {
            let is_sent = body.get(word).is_some();
            problems.must(!is_sent, || format!("`{word}` is known to OpenAI only"));
        }
    }
}

fn declared(problems: &mut Problems, body: &Value, at_openai: bool) {
    let declared = list(body, "tools");
    problems.refuse_if(body.get("tools").is_some() && declared.is_empty(), || {
        "[] is too short - 'tools'".to_owned()
    });
    let name = |tool: &'_ Value| -> String {
        let kind = text(tool, "type");
        text(&tool[kind], "name").to_owned()
    };
    let names: Vec<String> = declared.iter().map(name).collect();
    tools::unique(problems, names.iter().map(String::as_str));
    for (tool, name) in declared.iter().zip(&names) {
        problems.refuse_if(!is_name(name, 64), || {
            format!("Invalid 'tools[].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$': '{name}'.")
        });
        if tool["function"]["strict"] == true {
            tools::strict(problems, name, &tool["function"]["parameters"]);
        }
        let is_known = at_openai || tool["type"] == "function";
        problems.must(is_known, || format!("`{name}`: free-text tools are OpenAI's alone"));
    }
}

fn message(problems: &mut Problems, index: usize, message: &Value, at_openai: bool) {
    let calls = message.get("tool_calls");
    problems.refuse_if(calls.is_some_and(|calls| calls == &Value::Array(Vec::new())), || {
        format!("[] is too short - 'messages.{index}.tool_calls'")
    });
    let content = &message["content"];
    if message["role"] == "assistant" {
        let says = !content.is_null() || message["refusal"].is_string() || calls.is_some();
        problems.refuse_if(!says, || {
            format!("Invalid value for 'content': expected a string, got null. messages.[{index}].content")
        });
    }
    problems.refuse_if(content.as_array().is_some_and(Vec::is_empty), || {
        format!("Invalid 'messages[{index}].content': empty array.")
    });
    let is_known = at_openai || message["role"] != "developer";
    problems.must(is_known, || format!("messages[{index}]: role developer is OpenAI's alone"));
    for call in list(message, "tool_calls") {
        let name = text(&call[text(call, "type")], "name");
        // vLLM reads them for the chat template, and so does llama.cpp.
        problems.refuse_if(!at_openai && !has_object(call), || {
            let arguments = text(&call["function"], "arguments");
            format!("messages[{index}]: Expecting a JSON object in `arguments`: {arguments}")
        });
        problems.refuse_if(!is_name(name, 64), || {
            format!("Invalid 'messages[{index}].tool_calls[].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
        });
    }
    for part in list(message, "content").iter().filter(|part| part["type"] == "image_url") {
        let fits = text(&part["image_url"], "url").starts_with("data:image/");
        problems.must(fits, || format!("messages[{index}]: the image is no data URL"));
    }
}

/// Every call is answered by a tool message before anything else is said.
fn answers(problems: &mut Problems, messages: &[Value]) {
    let mut open: Vec<&str> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = text(message, "tool_call_id");
            problems.refuse_if(!open.contains(&id), || {
                format!("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'. messages.[{index}].role")
            });
            open.retain(|other| *other != id);
            continue;
        }
        unanswered(problems, &mut open);
        for call in list(message, "tool_calls") {
            let id = text(call, "id");
            problems.refuse_if(seen.contains(&id), || {
                format!("Duplicate value for 'tool_call_id' of '{id}' in message[{index}]")
            });
            open.push(id);
            seen.push(id);
        }
    }
    unanswered(problems, &mut open);
}

/// What the chat templates of Mistral, Devstral and Gemma take, and the API of Mistral: servers refuse
/// with the words of the template, vLLM with 400 and llama.cpp with 500.
fn alternate(problems: &mut Problems, messages: &[Value]) {
    let role = |message: &Value| text(message, "role").to_owned();
    let loop_messages = match messages.first() {
        Some(first) if role(first) == "system" => &messages[1..],
        _ => messages,
    };
    let is_late = loop_messages.iter().any(|message| role(message) == "system");
    problems.refuse_if(is_late, || "System role not supported".to_owned());
    // Outputs of tools and the replies that called for them do not count.
    let counts = |message: &&Value| {
        role(message) == "user"
            || (role(message) == "assistant" && list(message, "tool_calls").is_empty())
    };
    for (index, message) in loop_messages.iter().filter(counts).enumerate() {
        problems.refuse_if((role(message) == "user") != (index % 2 == 0), || {
            "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...".to_owned()
        });
    }
    for pair in loop_messages.windows(2) {
        problems.refuse_if(role(&pair[0]) == "tool" && role(&pair[1]) == "user", || {
            "Unexpected role 'user' after role 'tool'".to_owned()
        });
    }
}

fn unanswered(problems: &mut Problems, open: &mut Vec<&str>) {
    if !open.is_empty() {
        let ids = open.join(", ");
        problems.refuse(format!("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {ids}"));
        open.clear();
    }
}

/// Calls, words and thoughts come back as the server sent them.
fn unchanged(problems: &mut Problems, messages: &[Value], replies: &[&Reply]) {
    let issued: BTreeMap<&str, &Value> = replies
        .iter()
        .flat_map(|reply| &reply.items)
        .flat_map(|message| {
            list(message, "tool_calls").iter().map(move |call| (text(call, "id"), message))
        })
        .collect();
    let thoughts: Vec<&str> = replies
        .iter()
        .flat_map(|reply| &reply.items)
        .filter_map(|message| message["reasoning_content"].as_str())
        .collect();
    for (index, message) in messages.iter().enumerate() {
        if let Some(thought) = message["reasoning_content"].as_str() {
            problems.must(thoughts.is_empty() || thoughts.contains(&thought), || {
                format!("messages[{index}].reasoning_content is not what the server had sent")
            });
        }
        let first = list(message, "tool_calls").first().map(|call| text(call, "id"));
        let Some(sent) = first.and_then(|id| issued.get(id)) else { continue };
        let mut sent = (*sent).clone();
        as_objects(&mut sent, message);
        for key in ["content", "reasoning_content", "tool_calls"] {
            problems.must(message.get(key) == sent.get(key), || {
                format!("messages[{index}].{key} is not what the server had sent")
            });
        }
    }
}

fn has_object(call: &Value) -> bool {
    let arguments = call["function"]["arguments"].as_str();
    arguments.is_none_or(|text| serde_json::from_str(text).is_ok_and(|it: Value| it.is_object()))
}

/// Arguments that are no object come back as whatever object says so.
fn as_objects(sent: &mut Value, message: &Value) {
    let came_back = list(message, "tool_calls");
    let calls = sent["tool_calls"].as_array_mut().into_iter().flatten();
    for (call, back) in calls.zip(came_back) {
        if !has_object(call) && has_object(back) {
            call["function"]["arguments"] = back["function"]["arguments"].clone();
        }
    }
}
