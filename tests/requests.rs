//! The wires, without a network: requests to bodies.

use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::item::{
    CallOutput, Content, Item, Message, Native, OutputForm, Payload, Reasoning, Role, ToolCall,
    Wire,
};
use patchwright_provider::wire;
use patchwright_provider::{Reply, Request, ToolChoice, ToolDeclaration, ToolForm};
use serde_json::{Value, json};

use crate::wires::{decode, fixtures, name};

fn model(slug: &str) -> Model {
    Catalogue::load(&std::collections::BTreeMap::new()).unwrap().resolve(slug, None).unwrap()
}

fn tools() -> Vec<ToolDeclaration> {
    let declare = |name: &str, form| ToolDeclaration {
        name: name.to_owned(),
        description: format!("What {name} does"),
        form,
    };
    vec![
        declare(
            "shell_command",
            ToolForm::Function {
                schema: json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"], "additionalProperties": false}),
                strict: false,
            },
        ),
        declare(
            "apply_patch",
            ToolForm::Freeform { syntax: "lark".to_owned(), definition: "start: \"x\"".to_owned() },
        ),
        declare("local_shell", ToolForm::Native { value: json!({"type": "local_shell"}) }),
    ]
}

#[expect(clippy::unnecessary_wraps, reason = "items take an option")]
fn native(value: Value) -> Option<Native> {
    Some(Native { wire: Wire::Responses, value })
}

fn body(slug: &str, tools: &[ToolDeclaration], history: &[Item]) -> Vec<u8> {
    let model = model(slug);
    let request = Request {
        model: &model,
        instructions: "You fix issues.",
        tools,
        history,
        effort: model.default_effort.as_deref(),
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "run-1",
        previous: None,
    };
    wire::encode(Wire::Responses, &request)
}

fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

#[test]
fn requests_responses_body_has_the_documented_fields() {
    let user = Item::Message(Message {
        role: Role::User,
        content: vec![Content::text("Fix it")],
        native: None,
    });
    let body = parsed(&body("gpt-5.3-codex", &tools(), &[user]));
    assert_eq!(
        body,
        json!({
            "model": "gpt-5.3-codex",
            "instructions": "You fix issues.",
            "tools": [
                {"type": "function", "name": "shell_command", "description": "What shell_command does", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"], "additionalProperties": false}, "strict": false},
                {"type": "custom", "name": "apply_patch", "description": "What apply_patch does", "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"x\""}},
                {"type": "local_shell"},
            ],
            "tool_choice": "auto",
            "parallel_tool_calls": true,
            "reasoning": {"effort": "medium", "summary": "auto"},
            "text": {"verbosity": "low"},
            "store": false,
            "stream": true,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "run-1",
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it"}]}],
        })
    );
}

#[test]
fn requests_responses_asks_models_without_reasoning_for_none() {
    let body = parsed(&body("gpt-4.1", &[], &[]));
    let fields: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["model", "instructions", "store", "stream", "prompt_cache_key", "input"]);
}

/// Each item beside the element of `input` that it becomes; `null` for none.
#[expect(clippy::too_many_lines, reason = "a table")]
fn elements() -> Vec<(Item, Value)> {
    let said = |role, content, native| Item::Message(Message { role, content, native });
    let called = |name: &str, payload, native| {
        Item::Call(ToolCall { id: "call_1".to_owned(), name: name.to_owned(), payload, native })
    };
    let answered = |form, content, success| {
        Item::Output(CallOutput {
            id: "call_1".to_owned(),
            name: "tool".to_owned(),
            content,
            success,
            ran: false,
            goes_on: false,
            form,
        })
    };
    let text = || vec![Content::text("out")];
    let picture = || {
        vec![
            Content::text("see"),
            Content::Image { media_type: "image/png".to_owned(), data: "iVBO".to_owned() },
        ]
    };
    let shell = json!({"id": "sh_1", "type": "shell_call", "call_id": "call_1", "status": "completed", "action": {"commands": ["ls"], "max_output_length": 4096}});
    let chunks = r#"[{"stdout":"a","stderr":"b","outcome":{"type":"timeout"}}]"#;
    vec![
        (
            said(Role::Developer, text(), None),
            json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "out"}]}),
        ),
        (
            said(Role::User, picture(), None),
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "auto"}]}),
        ),
        (
            said(Role::Assistant, text(), None),
            json!({"type": "message", "role": "assistant", "content": "out"}),
        ),
        (
            said(Role::Assistant, text(), native(json!({"phase": "commentary"}))),
            json!({"type": "message", "phase": "commentary", "role": "assistant", "content": "out"}),
        ),
        (
            said(
                Role::Assistant,
                vec![Content::text("out"), Content::Refusal { text: "no".to_owned() }],
                native(json!({"id": "msg_1", "status": "completed", "phase": "final_answer"})),
            ),
            json!({"type": "message", "id": "msg_1", "status": "completed", "phase": "final_answer", "role": "assistant", "content": [{"type": "output_text", "text": "out", "annotations": [], "logprobs": []}, {"type": "refusal", "refusal": "no"}]}),
        ),
        (
            said(
                Role::Assistant,
                text(),
                Some(Native { wire: Wire::Messages, value: json!({"id": "x"}) }),
            ),
            json!({"type": "message", "role": "assistant", "content": "out"}),
        ),
        (
            Item::Reasoning(Reasoning {
                summary: vec!["why".to_owned()],
                native: native(json!({"id": "rs_1", "encrypted_content": "gAAA"})),
            }),
            json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "summary": [{"type": "summary_text", "text": "why"}]}),
        ),
        (Item::Reasoning(Reasoning { summary: vec!["why".to_owned()], native: None }), Value::Null),
        (
            Item::Reasoning(Reasoning { summary: vec![], native: native(json!({"id": "rs_1"})) }),
            Value::Null,
        ),
        (
            called(
                "shell_command",
                Payload::Json("{bad".to_owned()),
                native(json!({"id": "fc_1", "status": "completed"})),
            ),
            json!({"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "call_1", "name": "shell_command", "arguments": "{bad"}),
        ),
        (
            called("../../x\u{1b}[31m", Payload::Json("{}".to_owned()), None),
            json!({"type": "function_call", "call_id": "call_1", "name": "______x__31m", "arguments": "{}"}),
        ),
        (
            called(
                "apply_patch",
                Payload::Freeform("*** x".to_owned()),
                native(json!({"id": "ctc_1", "status": "completed"})),
            ),
            json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "apply_patch", "input": "*** x"}),
        ),
        (called("shell", Payload::Native("{}".to_owned()), native(shell.clone())), shell),
        (
            called(
                "local_shell",
                Payload::Native(r#"{"command":["ls"],"workdir":"src"}"#.to_owned()),
                None,
            ),
            json!({"type": "local_shell_call", "id": "call_1", "call_id": "call_1", "action": {"type": "exec", "command": ["ls"], "env": {}, "working_directory": "src"}, "status": "completed"}),
        ),
        (
            answered(OutputForm::Function, text(), true),
            json!({"type": "function_call_output", "call_id": "call_1", "output": "out"}),
        ),
        (
            answered(OutputForm::Function, picture(), true),
            json!({"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "auto"}]}),
        ),
        (
            answered(OutputForm::Custom, vec![], true),
            json!({"type": "custom_tool_call_output", "call_id": "call_1", "output": ""}),
        ),
        (
            answered(OutputForm::LocalShell, text(), true),
            json!({"type": "local_shell_call_output", "id": "call_1", "call_id": "call_1", "output": "out"}),
        ),
        (
            answered(OutputForm::Shell, text(), false),
            json!({"type": "shell_call_output", "call_id": "call_1", "output": [{"stdout": "out", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}], "max_output_length": 4096}),
        ),
        (
            answered(OutputForm::Shell, vec![Content::text(chunks)], true),
            json!({"type": "shell_call_output", "call_id": "call_1", "output": [{"stdout": "a", "stderr": "b", "outcome": {"type": "timeout"}}], "max_output_length": 4096}),
        ),
        (
            answered(OutputForm::ApplyPatch, text(), false),
            json!({"type": "apply_patch_call_output", "call_id": "call_1", "status": "failed", "output": "out"}),
        ),
        (
            Item::Opaque(Native {
                wire: Wire::Responses,
                value: json!({"type": "web_search_call", "id": "ws_1"}),
            }),
            json!({"type": "web_search_call", "id": "ws_1"}),
        ),
        (Item::Opaque(Native { wire: Wire::Gemini, value: json!({"x": 1}) }), Value::Null),
    ]
}

#[test]
fn requests_responses_items_become_input_elements() {
    let shell_call = elements()
        .into_iter()
        .find(|(_, element)| element["type"] == "shell_call")
        .map(|(item, _)| item)
        .unwrap();
    for (item, element) in elements() {
        // The call that an output answers stands before it.
        let history = [shell_call.clone(), item];
        let body = parsed(&body("gpt-5.3-codex", &tools(), &history));
        let input = body["input"].as_array().unwrap();
        assert_eq!(input.get(1).unwrap_or(&Value::Null), &element);
    }
}

#[test]
fn requests_responses_requests_extend_each_other_byte_by_byte() {
    let history: Vec<Item> = elements().into_iter().map(|(item, _)| item).collect();
    let mut last: Option<Vec<u8>> = None;
    for length in 0..=history.len() {
        let now = body("gpt-5.3-codex", &tools(), &history[..length]);
        assert_eq!(now, body("gpt-5.3-codex", &tools(), &history[..length]));
        if let Some(last) = last {
            assert_eq!(&now[..last.len() - 2], &last[..last.len() - 2]);
        }
        last = Some(now);
    }
}

#[test]
fn requests_responses_replies_go_back_as_they_came() {
    for path in fixtures(Wire::Responses) {
        let bytes = fs_err::read(&path).unwrap();
        let Ok(reply) = decode(Wire::Responses, &[&bytes]).outcome else { continue };
        // Through the journal and back.
        let stored = serde_json::to_string(&reply).unwrap();
        let reply: Reply = serde_json::from_str(&stored).unwrap();
        let body = parsed(&body("gpt-5.3-codex", &[], &reply.items));
        for element in body["input"].as_array().unwrap() {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            for key in ["id", "call_id", "encrypted_content", "phase"] {
                if let Some(value) = element[key].as_str() {
                    assert!(text.contains(value), "{}: {key} {value}", name(&path));
                }
            }
        }
    }
}

fn chat_body(slug: &str, history: &[Item]) -> Vec<u8> {
    let model = Catalogue::load(&std::collections::BTreeMap::new())
        .unwrap()
        .resolve(slug, Some(Wire::Chat))
        .unwrap();
    let request = Request {
        model: &model,
        instructions: "You fix issues.",
        tools: &tools(),
        history,
        effort: model.default_effort.as_deref(),
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "run-1",
        previous: None,
    };
    wire::encode(Wire::Chat, &request)
}

/// A conversation with everything that Chat has to say in its own way.
fn conversation() -> Vec<Item> {
    let said = |role, text: &str| {
        Item::Message(Message { role, content: vec![Content::text(text)], native: None })
    };
    let call = |id: &str, name: &str, payload, native| {
        Item::Call(ToolCall { id: id.to_owned(), name: name.to_owned(), payload, native })
    };
    let output = |id: &str, content, form| {
        Item::Output(CallOutput {
            id: id.to_owned(),
            name: "tool".to_owned(),
            content,
            success: true,
            ran: false,
            goes_on: false,
            form,
        })
    };
    let chat = |value| Some(Native { wire: Wire::Chat, value });
    let picture = Content::Image { media_type: "image/png".to_owned(), data: "iVBO".to_owned() };
    vec![
        said(Role::User, "Fix it"),
        Item::Reasoning(Reasoning {
            summary: vec!["Look".to_owned()],
            native: chat(json!({"reasoning_content": "Look"})),
        }),
        said(Role::Assistant, "Looking."),
        call(
            "a",
            "shell_command",
            Payload::Json("{}".to_owned()),
            chat(json!({"extra_content": {"google": {"thought_signature": "s"}}})),
        ),
        call("b", "apply_patch", Payload::Freeform("*** x".to_owned()), None),
        output("a", vec![Content::text("out"), picture], OutputForm::Function),
        output("b", vec![Content::text("done")], OutputForm::Custom),
        said(Role::Developer, "The checks fail."),
        Item::Opaque(Native { wire: Wire::Responses, value: json!({"type": "web_search_call"}) }),
        said(Role::Assistant, "Done."),
    ]
}

#[test]
fn requests_chat_says_to_openai_what_openai_knows() {
    let custom = json!({"name": "apply_patch", "description": "What apply_patch does", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: \"x\""}}});
    let body = parsed(&chat_body("gpt-5.5", &conversation()));
    assert_eq!(body["tools"][1], json!({"type": "custom", "custom": custom}));
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
    let settings: Vec<(&str, Value)> = vec![
        ("stream_options", json!({"include_usage": true})),
        ("tool_choice", json!("auto")),
        ("parallel_tool_calls", json!(true)),
        ("reasoning_effort", json!("medium")),
        ("verbosity", json!("low")),
        ("store", json!(false)),
        ("prompt_cache_key", json!("run-1")),
    ];
    for (key, value) in settings {
        assert_eq!(body[key], value, "{key}");
    }
    assert_eq!(body["messages"][6]["role"], "developer");
}

#[test]
fn requests_chat_keeps_to_what_imitations_understand() {
    let body = parsed(&chat_body("chat/some-model", &conversation()));
    let fields: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["model", "stream", "stream_options", "tools", "tool_choice", "messages"]);
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "You fix issues."},
            {"role": "user", "content": "Fix it"},
            {"role": "assistant", "content": "Looking.", "reasoning_content": "Look", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "shell_command", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "s"}}},
                {"id": "b", "type": "function", "function": {"name": "apply_patch", "arguments": "{\"input\":\"*** x\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "out\n[a picture, image/png, about 3 bytes: this model cannot be shown pictures]"},
            {"role": "tool", "tool_call_id": "b", "content": "done"},
            {"role": "assistant", "content": "I have read the output."},
            {"role": "user", "content": "The checks fail."},
            {"role": "assistant", "content": "Done."},
        ])
    );
}

#[test]
fn requests_chat_requests_extend_each_other_byte_by_byte() {
    let history = conversation();
    // The lengths at which a request is made: before each reply of the model.
    let bodies = [1, 7, 10].map(|length| chat_body("chat/some-model", &history[..length]));
    for pair in bodies.windows(2) {
        assert_eq!(&pair[1][..pair[0].len() - 2], &pair[0][..pair[0].len() - 2]);
    }
}
