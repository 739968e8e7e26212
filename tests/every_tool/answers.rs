//! What a request says about the calls of the reply before it, on each wire.
//!
//! Sources: the published references of the four protocols, as `tests/fixtures/schemas` has them.

use patchwright_provider::ToolForm;
use patchwright_provider::item::Wire;
use serde_json::Value;

/// The answer to one call.
#[derive(Debug)]
pub(super) struct Answer {
    /// The type of the item, where the protocol has several.
    pub(super) kind: Option<String>,
    /// It has the id (or the name) of a call of the reply.
    pub(super) is_matched: bool,
    /// Whether it says that the call failed, where the protocol has a word for that.
    pub(super) failed: Option<bool>,
    /// All of it.
    pub(super) text: String,
}

/// The type of item that answers a call of a tool that is declared like this, on Responses.
pub(super) fn kind(form: &ToolForm) -> &'static str {
    match form {
        ToolForm::Function { .. } => "function_call_output",
        ToolForm::Freeform { .. } => "custom_tool_call_output",
        ToolForm::Native { value } => match value["type"].as_str().unwrap() {
            "local_shell" => "local_shell_call_output",
            "shell" => "shell_call_output",
            "apply_patch" => "apply_patch_call_output",
            other => panic!("what answers a call of `{other}`?"),
        },
    }
}

/// The answers at the end of a request.
pub(super) fn answers(wire: Wire, body: &Value) -> Vec<Answer> {
    match wire {
        Wire::Responses => responses(list(body, "input")),
        Wire::Chat => chat(list(body, "messages")),
        Wire::Messages => messages(list(body, "messages")),
        Wire::Gemini => gemini(list(body, "contents")),
    }
}

fn list<'b>(body: &'b Value, key: &str) -> &'b [Value] {
    body[key].as_array().unwrap()
}

/// What stands behind the last entry for which `is_models` is true, and the entries up to it.
fn split(entries: &[Value], is_models: impl Fn(&Value) -> bool) -> (&[Value], &[Value]) {
    let last = entries.iter().rposition(is_models).expect("the model has spoken");
    entries.split_at(last + 1)
}

fn responses(input: &[Value]) -> Vec<Answer> {
    let kind = |item: &Value| item["type"].as_str().unwrap_or_default().to_owned();
    let (before, after) = split(input, |item| kind(item).ends_with("_call"));
    let call = before.last().unwrap();
    let outputs = after.iter().filter(|item| kind(item).ends_with("_call_output"));
    outputs
        .map(|item| {
            let failed = match kind(item).as_str() {
                "apply_patch_call_output" => {
                    let status = item["status"].as_str().unwrap();
                    assert!(matches!(status, "completed" | "failed"), "{item}");
                    Some(status == "failed")
                }
                "shell_call_output" => {
                    let chunks = item["output"].as_array().unwrap();
                    assert!(!chunks.is_empty(), "{item}");
                    let failed = chunks.iter().any(|chunk| {
                        assert!(chunk["stdout"].is_string() && chunk["stderr"].is_string());
                        let outcome = &chunk["outcome"];
                        match outcome["type"].as_str().unwrap() {
                            "exit" => outcome["exit_code"].as_i64().unwrap() != 0,
                            "timeout" => true,
                            other => panic!("no outcome: {other}"),
                        }
                    });
                    Some(failed)
                }
                _ => {
                    assert!(item["output"].is_string() || item["output"].is_array(), "{item}");
                    None
                }
            };
            Answer {
                kind: Some(kind(item)),
                is_matched: item["call_id"].is_string() && item["call_id"] == call["call_id"],
                failed,
                text: item.to_string(),
            }
        })
        .collect()
}

fn chat(messages: &[Value]) -> Vec<Answer> {
    // A few words of ours may stand between an output and the picture behind it.
    let calls =
        |message: &Value| message["role"] == "assistant" && message["tool_calls"].is_array();
    let (before, after) = split(messages, calls);
    let call = &before.last().unwrap()["tool_calls"][0];
    let results = after.iter().filter(|message| message["role"] == "tool");
    // Pictures cannot be in a tool message; they come behind it.
    let behind: String = after.iter().map(Value::to_string).collect();
    results
        .map(|message| {
            assert!(message["content"].is_string(), "{message}");
            Answer {
                kind: None,
                is_matched: call["id"].is_string() && message["tool_call_id"] == call["id"],
                failed: None,
                text: behind.clone(),
            }
        })
        .collect()
}

fn messages(messages: &[Value]) -> Vec<Answer> {
    let (before, after) = split(messages, |message| message["role"] == "assistant");
    let blocks = before.last().unwrap()["content"].as_array().unwrap();
    let call = blocks.iter().find(|block| block["type"] == "tool_use").unwrap();
    assert_eq!(after[0]["role"], "user");
    let content = after[0]["content"].as_array().unwrap();
    let results = content.iter().filter(|block| block["type"] == "tool_result");
    results
        .map(|block| Answer {
            kind: None,
            is_matched: call["id"].is_string() && block["tool_use_id"] == call["id"],
            failed: Some(block["is_error"].as_bool().unwrap_or(false)),
            text: block.to_string(),
        })
        .collect()
}

fn gemini(contents: &[Value]) -> Vec<Answer> {
    let (before, after) = split(contents, |content| content["role"] == "model");
    let parts = before.last().unwrap()["parts"].as_array().unwrap();
    let call = parts.iter().find(|part| part["functionCall"].is_object()).unwrap();
    let call = &call["functionCall"];
    assert_eq!(after[0]["role"], "user");
    let parts = after[0]["parts"].as_array().unwrap();
    // Pictures stand in the response or beside it.
    let beside: String = parts.iter().map(Value::to_string).collect();
    let responses = parts.iter().filter(|part| part["functionResponse"].is_object());
    responses
        .map(|part| {
            let answer = &part["functionResponse"];
            let response = answer["response"].as_object().unwrap();
            assert!(response.contains_key("output") != response.contains_key("error"), "{part}");
            // How a command ended is its result, in its family's words.
            let result = response.get("output").map(Value::to_string).unwrap_or_default();
            let words = ["Exit Code: ", "Exit code: ", "Exit code ", "exited with code "];
            let ended_badly = words.iter().any(|words| {
                let code = result.split(words).nth(1).and_then(|rest| rest.chars().next());
                code.is_some_and(|first| first.is_ascii_digit() && first != '0')
            });
            Answer {
                kind: None,
                is_matched: answer["name"] == call["name"] && answer["id"] == call["id"],
                failed: Some(response.contains_key("error") || ended_badly),
                text: beside.clone(),
            }
        })
        .collect()
}
