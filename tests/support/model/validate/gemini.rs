//! Gemini: as many answers as calls, right behind them and in their order; signatures where they
//! came from; one thing in each part.

use serde_json::Value;

use super::super::gemini::needs_signatures;
use super::super::{Asked, Recorded};
use super::{Problems, Reply, list, text, tools};

/// Stands for the signature of a call that the model did not make; documented.
const FOREIGN: &[&str] =
    &["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

pub(super) fn check(
    problems: &mut Problems,
    recorded: &Recorded,
    asked: &Asked,
    replies: &[&Reply],
) {
    let has_key = !recorded.header("x-goog-api-key").is_empty() || recorded.path.contains("key=");
    problems.must(has_key, || "no API key".to_owned());
    let body = &asked.body;
    nulls(problems, "", body);
    declared(problems, body);
    thinking(problems, &asked.model, body);
    let contents = list(body, "contents");
    for part in list(&body["systemInstruction"], "parts") {
        let says = !text(part, "text").is_empty();
        problems.must(says, || "a part of systemInstruction has no text".to_owned());
    }
    for (index, content) in contents.iter().enumerate() {
        self::content(problems, index, content);
    }
    let roles = |content: &Value| text(content, "role").to_owned();
    problems.refuse_if(contents.first().is_some_and(|first| roles(first) == "model"), || {
        "Please ensure that multiturn requests start with a user turn.".to_owned()
    });
    problems.refuse_if(contents.last().is_some_and(|last| roles(last) == "model"), || {
        "Please ensure that multiturn requests end with a user turn.".to_owned()
    });
    answers(problems, contents);
    if needs_signatures(&asked.model) {
        signed(problems, contents);
    }
    unchanged(problems, contents, replies);
}

fn nulls(problems: &mut Problems, at: &str, value: &Value) {
    for (key, inner) in value.as_object().into_iter().flatten() {
        problems.must(!inner.is_null(), || format!("`{at}{key}` is null"));
    }
}

fn declared(problems: &mut Problems, body: &Value) {
    let functions: Vec<&Value> =
        list(body, "tools").iter().flat_map(|tool| list(tool, "functionDeclarations")).collect();
    tools::unique(problems, functions.iter().map(|function| text(function, "name")));
    for function in &functions {
        let name = text(function, "name");
        problems.refuse_if(!is_function_name(name), || {
            "* GenerateContentRequest.tools[0].function_declarations[0].name: [FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 128.".to_owned()
        });
        let both =
            function.get("parameters").is_some() && function.get("parametersJsonSchema").is_some();
        problems.refuse_if(both, || {
            format!("Function declaration {name} sets both parameters and parameters_json_schema.")
        });
    }
    let calling = &body["toolConfig"]["functionCallingConfig"];
    problems.refuse_if(calling.is_object() && functions.is_empty(), || {
        "Function calling config is set without function_declarations.".to_owned()
    });
    let restricts = calling.get("allowedFunctionNames").is_some();
    let may = matches!(text(calling, "mode"), "ANY" | "VALIDATED");
    problems.refuse_if(restricts && !may, || {
        "Allowed function names should only be set when function calling mode is ANY or VALIDATED.".to_owned()
    });
    let cached = body.get("cachedContent").is_some();
    let repeats =
        ["systemInstruction", "tools", "toolConfig"].iter().any(|key| body.get(*key).is_some());
    problems.refuse_if(cached && repeats, || {
        "CachedContent can not be used with GenerateContent request setting system_instruction, tools or tool_config.".to_owned()
    });
}

fn is_function_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    starts && name.len() <= 128 && name.chars().all(fits)
}

fn thinking(problems: &mut Problems, model: &str, body: &Value) {
    let config = &body["generationConfig"]["thinkingConfig"];
    let (level, budget) =
        (config.get("thinkingLevel").is_some(), config.get("thinkingBudget").is_some());
    problems.refuse_if(level && budget, || {
        "You can only set only one of thinking budget and thinking level.".to_owned()
    });
    problems.refuse_if(level && !needs_signatures(model), || {
        "Thinking level is not supported for this model.".to_owned()
    });
    let outdated = budget && needs_signatures(model);
    problems.must(!outdated, || "a thinking budget for a model that has levels".to_owned());
}

fn content(problems: &mut Problems, index: usize, content: &Value) {
    let role = text(content, "role");
    problems.refuse_if(role.is_empty(), || "Please use a valid role: user, model.".to_owned());
    let parts = list(content, "parts");
    problems.refuse_if(parts.is_empty(), || {
        format!(
            "* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty."
        )
    });
    let data = ["text", "inlineData", "fileData", "functionCall", "functionResponse"];
    for (position, part) in parts.iter().enumerate() {
        let place = format!("contents[{index}].parts[{position}]");
        let set: Vec<&str> = data.into_iter().filter(|field| part.get(*field).is_some()).collect();
        problems.refuse_if(set.is_empty(), || {
            format!("* GenerateContentRequest.{place}.data: required oneof field 'data' must have one initialized field")
        });
        problems.refuse_if(set.len() > 1, || {
            format!("Invalid value at '{place}' (oneof), oneof field 'data' is already set. Cannot set '{}'", set[1])
        });
        let unsigned = part.get("thoughtSignature").is_none();
        problems.must(!(part["text"] == "" && unsigned), || format!("{place} has an empty text"));
        let fits = match set.first() {
            Some(&"functionCall") => role == "model",
            Some(&"functionResponse") => role == "user",
            _ => true,
        };
        problems.refuse_if(!fits, || {
            "Please ensure that function call turns come from the model and function response turns from the user.".to_owned()
        });
        for field in ["functionCall", "functionResponse"] {
            let name = part.get(field).map(|it| text(it, "name"));
            problems.refuse_if(name.is_some_and(|name| !is_function_name(name)), || {
                format!("* GenerateContentRequest.{place}.{field}.name: [FIELD_INVALID] Invalid function name.")
            });
        }
    }
}

fn pieces<'a>(content: &'a Value, field: &str) -> Vec<&'a Value> {
    list(content, "parts").iter().filter_map(|part| part.get(field)).collect()
}

/// The answers to a turn of calls: right behind it, as many, in its order, before anything else.
fn answers(problems: &mut Problems, contents: &[Value]) {
    for (index, content) in contents.iter().enumerate() {
        let calls = pieces(content, "functionCall");
        let before = index.checked_sub(1).and_then(|at| contents.get(at));
        problems.refuse_if(
            !calls.is_empty() && before.is_none_or(|before| before["role"] != "user"),
            || "Please ensure that function call turn comes immediately after a user turn or after a function response turn.".to_owned(),
        );
        let responses = pieces(content, "functionResponse");
        let asked = before.map(|before| pieces(before, "functionCall")).unwrap_or_default();
        problems.refuse_if(!responses.is_empty() && asked.is_empty(), || {
            "Please ensure that function response turn comes immediately after a function call turn.".to_owned()
        });
        problems.refuse_if(responses.len() != asked.len() && !asked.is_empty(), || {
            "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.".to_owned()
        });
        for (call, response) in asked.iter().zip(&responses) {
            for key in ["name", "id"] {
                problems.must(call.get(key) == response.get(key), || {
                    format!("contents[{index}]: a response has another `{key}` than its call: {call} {response}")
                });
            }
        }
    }
}

/// In the current turn the first call of each step has its signature.
fn signed(problems: &mut Problems, contents: &[Value]) {
    let is_turn = |content: &Value| {
        content["role"] == "user" && pieces(content, "functionResponse").is_empty()
    };
    let start = contents.iter().rposition(is_turn).unwrap_or(0);
    for (index, content) in contents.iter().enumerate().skip(start) {
        let first = list(content, "parts").iter().find(|part| part.get("functionCall").is_some());
        let Some(part) = first else { continue };
        problems.refuse_if(text(part, "thoughtSignature").is_empty(), || {
            let name = text(&part["functionCall"], "name");
            format!("Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:{name}` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.", index + 1)
        });
    }
}

/// Signatures come back on the parts that they came with, calls as they were, words in full.
fn unchanged(problems: &mut Problems, contents: &[Value], replies: &[&Reply]) {
    let issued: Vec<(&Reply, &Value)> = replies
        .iter()
        .flat_map(|reply| reply.items.iter().map(move |part| (*reply, part)))
        .filter(|(_, part)| part.get("thoughtSignature").is_some())
        .collect();
    for (index, content) in contents.iter().enumerate() {
        for part in list(content, "parts") {
            let signature = text(part, "thoughtSignature");
            if signature.is_empty() || FOREIGN.contains(&signature) || issued.is_empty() {
                continue;
            }
            let Some((reply, sent)) =
                issued.iter().find(|(_, part)| text(part, "thoughtSignature") == signature)
            else {
                problems.refuse("Corrupted thought signature.");
                continue;
            };
            problems.must(part == *sent, || {
                format!("contents[{index}]: a signed part is not as the server had sent it: {part}")
            });
            whole(problems, index, content, reply);
        }
    }
}

fn whole(problems: &mut Problems, index: usize, content: &Value, reply: &Reply) {
    let calls = |parts: &[Value]| -> Vec<Value> {
        parts.iter().filter(|part| part.get("functionCall").is_some()).cloned().collect()
    };
    let words = |parts: &[Value]| -> String {
        let said = parts.iter().filter(|part| part["thought"] != true);
        said.filter_map(|part| part["text"].as_str()).collect()
    };
    let parts = list(content, "parts");
    problems.must(calls(parts) == calls(&reply.items) || !reply.is_whole, || {
        format!("contents[{index}]: the calls of reply {} are not as sent", reply.number)
    });
    problems.must(words(parts) == words(&reply.items), || {
        format!("contents[{index}]: the words of reply {} are not as sent", reply.number)
    });
}
