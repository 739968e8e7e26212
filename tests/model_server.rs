//! The model server that other tests trust: it takes a right conversation on each wire without a
//! word, and says about a wrong one what the provider says.

mod conversations;

use patchwright_provider::http::client;
use patchwright_provider::item::Wire;
use serde_json::{Value, json};

use crate::support::model::{ModelServer, call, limited, overflow, overloaded, say, unauthorized};

const WIRES: [Wire; 4] = [Wire::Responses, Wire::Chat, Wire::Messages, Wire::Gemini];

fn model(wire: Wire) -> &'static str {
    match wire {
        Wire::Responses => "gpt-5.3-codex",
        Wire::Chat => "gpt-4.1",
        Wire::Messages => "claude-sonnet-5",
        Wire::Gemini => "gemini-3.5-flash",
    }
}

/// Sends a body; the status and the text of the answer.
async fn send(server: &ModelServer, wire: Wire, body: &Value) -> (u16, String) {
    let path = match wire {
        Wire::Responses => "/v1/responses",
        Wire::Chat => "/v1/chat/completions",
        Wire::Messages => "/v1/messages",
        Wire::Gemini => "/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse",
    };
    let request = client().unwrap().post(format!("{}{path}", server.root()));
    let request = match wire {
        Wire::Responses | Wire::Chat => request.bearer_auth("k"),
        Wire::Messages => {
            request.header("x-api-key", "k").header("anthropic-version", "2026-10-21")
        }
        Wire::Gemini => request.header("x-goog-api-key", "k"),
    };
    let request = request.header("content-type", "application/json").body(body.to_string());
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// The first request of a conversation, and the second one with the call and its result.
#[expect(clippy::too_many_lines, reason = "a table")]
fn conversation(wire: Wire) -> (Value, Value) {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"], "additionalProperties": false});
    let (mut body, list, more) = match wire {
        Wire::Responses => (
            json!({
                "model": model(wire), "stream": true, "store": false, "tool_choice": "auto",
                "tools": [{"type": "function", "name": "run", "parameters": schema, "strict": true}],
                "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
            }),
            "input",
            json!([
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "**Thinking**"}], "encrypted_content": "gAAAAAB1-sealed-thought"},
                {"type": "function_call", "id": "fc_1_1", "call_id": "call_1_1", "name": "run", "arguments": "{\"command\":\"ls\"}", "status": "completed"},
                {"type": "function_call_output", "call_id": "call_1_1", "output": "a"},
            ]),
        ),
        Wire::Chat => (
            json!({
                "model": model(wire), "stream": true, "stream_options": {"include_usage": true},
                "tools": [{"type": "function", "function": {"name": "run", "parameters": schema}}],
                "messages": [{"role": "system", "content": "Fix."}, {"role": "user", "content": "Hi"}],
            }),
            "messages",
            json!([
                {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1_0", "type": "function", "function": {"name": "run", "arguments": "{\"command\":\"ls\"}"}}]},
                {"role": "tool", "tool_call_id": "call_1_0", "content": "a"},
            ]),
        ),
        Wire::Messages => (
            json!({
                "model": model(wire), "stream": true, "max_tokens": 64000,
                "thinking": {"type": "adaptive", "display": "summarized"},
                "system": [{"type": "text", "text": "Fix.", "cache_control": {"type": "ephemeral"}}],
                "tools": [{"name": "run", "input_schema": schema}, {"type": "bash_20250124", "name": "bash"}],
                "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}],
            }),
            "messages",
            json!([
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "**Thinking**", "signature": "EqQBCkYIBhgCKkD0001c2VhbGVk"},
                    {"type": "tool_use", "id": "toolu_01_01", "name": "run", "input": {"command": "ls"}},
                ]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01_01", "content": "a", "cache_control": {"type": "ephemeral"}}]},
            ]),
        ),
        Wire::Gemini => (
            json!({
                "systemInstruction": {"parts": [{"text": "Fix."}]},
                "generationConfig": {"thinkingConfig": {"includeThoughts": true, "thinkingLevel": "LOW"}},
                "tools": [{"functionDeclarations": [{"name": "run", "description": "Runs", "parametersJsonSchema": schema}]}],
                "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            }),
            "contents",
            json!([
                {"role": "model", "parts": [{"functionCall": {"name": "run", "args": {"command": "ls"}, "id": "fc1x1"}, "thoughtSignature": "Z2VtaW5pLTMuNS1mbGFzaCBzZWFsZWQgdGhvdWdodCAx"}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "run", "id": "fc1x1", "response": {"output": "a"}}}]},
            ]),
        ),
    };
    let first = body.clone();
    body[list].as_array_mut().unwrap().extend(more.as_array().unwrap().iter().cloned());
    (first, body)
}

async fn talk(wire: Wire, change: impl FnOnce(&mut Value)) -> (u16, String, Vec<String>) {
    let server = ModelServer::start([call("run", json!({"command": "ls"})), say("Done.")]);
    let (first, mut second) = conversation(wire);
    let (status, text) = send(&server, wire, &first).await;
    assert_eq!((status, server.take_violations()), (200, vec![]), "{wire:?}: {text}");
    change(&mut second);
    let (status, text) = send(&server, wire, &second).await;
    (status, text, server.take_violations())
}

#[tokio::test]
async fn right_conversations_pass_on_each_wire() {
    for wire in WIRES {
        let (status, text, violations) = talk(wire, |_| {}).await;
        assert_eq!((status, violations), (200, vec![]), "{wire:?}: {text}");
        // In pieces, as models send it.
        assert!(text.contains("Done."), "{wire:?}: {text}");
    }
}

/// A wrong second request: its wire, what is changed, and what is said about it.
type Case = (Wire, fn(&mut Value), &'static str);

/// What the provider refuses.
#[expect(clippy::too_many_lines, reason = "a table")]
fn refused() -> Vec<Case> {
    vec![
        (Wire::Responses, |body| body["tempo"] = json!(1), "Unknown parameter: 'tempo'."),
        (
            Wire::Responses,
            |body| body["input"][2]["name"] = json!(1),
            "Invalid value for 'input[2].name'",
        ),
        (
            Wire::Responses,
            |body| drop(body["input"][1].as_object_mut().unwrap().remove("summary")),
            "Missing required parameter: 'input[1].summary'.",
        ),
        (
            Wire::Responses,
            |body| drop(body["input"].as_array_mut().unwrap().pop()),
            "No tool output found for function call call_1_1.",
        ),
        (
            Wire::Responses,
            |body| drop(body["input"].as_array_mut().unwrap().remove(1)),
            "was provided without its required 'reasoning' item: 'rs_1'.",
        ),
        (
            Wire::Responses,
            |body| drop(body["input"].as_array_mut().unwrap().drain(2..)),
            "of type 'reasoning' was provided without its required following item.",
        ),
        (
            Wire::Responses,
            |body| body["tools"][0]["parameters"]["required"] = json!([]),
            "Invalid schema for function 'run'",
        ),
        (
            Wire::Chat,
            |body| drop(body["messages"].as_array_mut().unwrap().pop()),
            "did not have response messages: call_1_0",
        ),
        (
            Wire::Chat,
            |body| {
                body["messages"]
                    .as_array_mut()
                    .unwrap()
                    .insert(3, json!({"role": "user", "content": "x"}));
            },
            "did not have response messages: call_1_0",
        ),
        (
            Wire::Chat,
            |body| body["messages"][2]["tool_calls"] = json!([]),
            "is too short - 'messages.2.tool_calls'",
        ),
        (
            Wire::Chat,
            |body| body["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!({}),
            "Invalid value for 'messages[2].tool_calls[0].function.arguments'",
        ),
        (
            Wire::Chat,
            |body| {
                body.as_object_mut().unwrap().remove("tools");
                body["tool_choice"] = json!("auto");
            },
            "'tool_choice' is only allowed when 'tools' are specified.",
        ),
        (
            Wire::Messages,
            |body| drop(body["messages"].as_array_mut().unwrap().remove(2)),
            "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_01_01.",
        ),
        (
            Wire::Messages,
            |body| drop(body["messages"].as_array_mut().unwrap().remove(1)),
            "unexpected `tool_use_id` found in `tool_result` blocks: toolu_01_01.",
        ),
        (
            Wire::Messages,
            |body| {
                body["messages"][2]["content"]
                    .as_array_mut()
                    .unwrap()
                    .insert(0, json!({"type": "text", "text": "first"}));
            },
            "`tool_result` blocks must come first",
        ),
        (
            Wire::Messages,
            |body| {
                body["messages"][2]["content"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"type": "text", "text": ""}));
            },
            "text content blocks must be non-empty",
        ),
        (
            Wire::Messages,
            |body| body["messages"][1]["content"][0]["thinking"] = json!("Other"),
            "blocks in the latest assistant message cannot be modified",
        ),
        (
            Wire::Messages,
            |body| body["messages"][1]["content"][0]["signature"] = json!("Other"),
            "Invalid `signature` in `thinking` block",
        ),
        (
            Wire::Messages,
            |body| {
                for index in 0..2 {
                    body["tools"][index]["cache_control"] = json!({"type": "ephemeral"});
                }
                body["messages"][2]["content"].as_array_mut().unwrap().push(
                    json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}),
                );
            },
            "A maximum of 4 blocks with cache_control may be provided. Found 6.",
        ),
        (
            Wire::Messages,
            |body| body["temperature"] = json!(1),
            "temperature: Extra inputs are not permitted",
        ),
        (Wire::Messages, |body| body["max_tokens"] = json!(200_000), "max_tokens: 200000 > 128000"),
        (
            Wire::Messages,
            |body| body["tool_choice"] = json!({"type": "any"}),
            "Thinking may not be enabled when tool_choice forces tool use.",
        ),
        (
            Wire::Messages,
            |body| body["thinking"] = json!({"type": "enabled", "budget_tokens": 4096}),
            "is not supported for this model",
        ),
        (
            Wire::Messages,
            |body| body["messages"][1]["content"][1]["id"] = json!("no id!"),
            "String should match pattern",
        ),
        (Wire::Messages, |body| body["tools"] = json!([]), "must define tools."),
        (
            Wire::Messages,
            |body| body["messages"][2]["content"][0] = json!({"type": "tool_result", "tool_use_id": "toolu_01_01", "is_error": true, "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}]}),
            "all content must be type text if is_error is true",
        ),
        (
            Wire::Gemini,
            |body| body["contents"][1]["parts"][0]["extra"] = json!(1),
            "Unknown name \\\"extra\\\" at 'contents[1].parts[0]': Cannot find field.",
        ),
        (
            Wire::Gemini,
            |body| body["contents"][2]["parts"] = json!([{"text": "x"}]),
            "the number of function response parts is equal to the number of function call parts",
        ),
        (
            Wire::Gemini,
            |body| drop(body["contents"].as_array_mut().unwrap().remove(1)),
            "function response turn comes immediately after a function call turn.",
        ),
        (
            Wire::Gemini,
            |body| {
                drop(
                    body["contents"][1]["parts"][0]
                        .as_object_mut()
                        .unwrap()
                        .remove("thoughtSignature"),
                );
            },
            "Function call is missing a thought_signature in functionCall parts.",
        ),
        (
            Wire::Gemini,
            |body| body["contents"][1]["parts"][0]["thoughtSignature"] = json!("b3RoZXI="),
            "Corrupted thought signature.",
        ),
        (
            Wire::Gemini,
            |body| {
                body["contents"][0]["parts"][0]["inlineData"] =
                    json!({"mimeType": "image/png", "data": "iVBO"});
            },
            "oneof field 'data' is already set.",
        ),
        (
            Wire::Gemini,
            |body| drop(body["contents"].as_array_mut().unwrap().pop()),
            "multiturn requests end with a user turn.",
        ),
        (
            Wire::Gemini,
            |body| body["generationConfig"]["thinkingConfig"]["thinkingBudget"] = json!(1),
            "You can only set only one of thinking budget and thinking level.",
        ),
    ]
}

#[tokio::test]
async fn what_the_provider_refuses_is_refused_in_its_words() {
    for (wire, change, words) in refused() {
        let (status, text, violations) = talk(wire, change).await;
        let whole = format!("{text}\n{}", violations.join("\n"));
        assert_eq!(status, 400, "{wire:?}: nothing like `{words}` in {whole}");
        assert!(whole.contains(words), "{wire:?}: no `{words}` in {whole}");
        assert!(!violations.is_empty(), "{wire:?}: `{words}` does not fail the test");
    }
}

/// What only this project asks of itself.
#[tokio::test]
async fn what_only_we_forbid_is_remembered() {
    let cases: Vec<Case> = vec![
        (Wire::Responses, |body| body["store"] = json!(true), "`store` is not false"),
        (
            Wire::Responses,
            |body| body["input"][2]["arguments"] = json!("{}"),
            "input[2].arguments is not what the server had sent",
        ),
        (
            Wire::Chat,
            |body| body["messages"][1]["content"] = json!("Hello"),
            "`messages` does not extend the request before, from item 1 on",
        ),
        (
            Wire::Messages,
            |body| body["messages"][0]["content"][0]["text"] = json!("Hello"),
            "`messages` does not extend the request before, from item 0 on",
        ),
        (
            Wire::Messages,
            |body| body["messages"][1]["content"][1]["input"] = json!({}),
            "the `tool_use` block of reply 1 is not as the server had sent it",
        ),
        (
            Wire::Messages,
            |body| drop(body["messages"][1]["content"].as_array_mut().unwrap().remove(0)),
            "the `thinking` block of reply 1 is not sent back",
        ),
        (
            Wire::Messages,
            |body| body["max_tokens"] = json!(1000),
            "`max_tokens` differs from the request before",
        ),
        (
            Wire::Gemini,
            |body| body["contents"][1]["parts"][0]["functionCall"]["args"] = json!({}),
            "a signed part is not as the server had sent it",
        ),
        (
            Wire::Gemini,
            |body| body["contents"][2]["parts"][0]["functionResponse"]["id"] = json!("x"),
            "a response has another `id` than its call",
        ),
        (
            Wire::Gemini,
            |body| body["tools"][0]["functionDeclarations"][0]["description"] = json!("Other"),
            "`tools` differs from the request before",
        ),
    ];
    for (wire, change, words) in cases {
        let (status, text, violations) = talk(wire, change).await;
        assert_eq!(status, 200, "{wire:?}: {text}");
        let all = violations.join("\n");
        assert!(all.contains(words), "{wire:?}: no `{words}` in {all}");
    }
}

#[tokio::test]
async fn errors_have_each_protocols_own_shape() {
    for wire in WIRES {
        let server = ModelServer::start([limited(2), overloaded(), overflow(), unauthorized()]);
        let (body, _) = conversation(wire);
        let mut seen = Vec::new();
        for _ in 0..4 {
            let (status, text) = send(&server, wire, &body).await;
            let error: Value = serde_json::from_str(&text).unwrap();
            assert!(error["error"]["message"].is_string(), "{text}");
            let word = match wire {
                Wire::Responses | Wire::Chat => &error["error"]["code"],
                Wire::Messages => &error["error"]["type"],
                Wire::Gemini => &error["error"]["status"],
            };
            seen.push(format!("{status} {}", word.as_str().unwrap()));
        }
        let expected = match wire {
            Wire::Responses | Wire::Chat => [
                "429 rate_limit_exceeded",
                "503 server_error",
                "400 context_length_exceeded",
                "401 invalid_api_key",
            ],
            Wire::Messages => [
                "429 rate_limit_error",
                "529 overloaded_error",
                "400 invalid_request_error",
                "401 authentication_error",
            ],
            Wire::Gemini => [
                "429 RESOURCE_EXHAUSTED",
                "503 UNAVAILABLE",
                "400 INVALID_ARGUMENT",
                "400 INVALID_ARGUMENT",
            ],
        };
        assert_eq!(seen, expected, "{wire:?}");
    }
}
