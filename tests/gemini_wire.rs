//! The Gemini protocol: requests to bodies, errors to faults, and conversations over HTTP.
//! Streams are in `wires.rs`, by the fixtures of `streams/gemini`.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use patchwright_agent::state::{Next, Remarks, State};
use patchwright_journal::Entry;
use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::http::{Deadlines, HttpProvider, client};
use patchwright_provider::item::{
    CallOutput, Content, Item, Message, Native, OutputForm, Payload, Reasoning, Role, StopReason,
    ToolCall, Wire,
};
use patchwright_provider::retry::Policy;
use patchwright_provider::wire::fault::{Fault, FaultKind};
use patchwright_provider::wire::{self, gemini};
use patchwright_provider::{
    OnProgress, Progress, Provider, ProviderError, Reply, Request, ToolChoice, ToolDeclaration,
    ToolForm,
};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::support::tool_desk::ToolDesk;
use crate::wires::{decode, fixtures, name};

fn model(slug: &str) -> Model {
    Catalogue::load(&BTreeMap::new()).unwrap().resolve(slug, None).unwrap()
}

fn tools() -> Vec<ToolDeclaration> {
    let declare = |name: &str, form| ToolDeclaration {
        name: name.to_owned(),
        description: format!("What {name} does"),
        form,
    };
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}, "dir": {"type": ["string", "null"]}}, "required": ["command"], "additionalProperties": false});
    vec![
        declare("run_shell_command", ToolForm::Function { schema, strict: true }),
        declare(
            "apply_patch",
            ToolForm::Freeform { syntax: "lark".to_owned(), definition: "start: \"x\"".to_owned() },
        ),
        declare(
            "list",
            ToolForm::Function {
                schema: json!({"type": "object", "properties": {}}),
                strict: false,
            },
        ),
        declare("local_shell", ToolForm::Native { value: json!({"type": "local_shell"}) }),
        declare("search", ToolForm::Native { value: json!({"googleSearch": {}}) }),
    ]
}

fn encoded(model: &Model, effort: Option<&str>, choice: ToolChoice, history: &[Item]) -> Vec<u8> {
    let request = Request {
        model,
        instructions: "You fix issues.",
        tools: &tools(),
        history,
        effort,
        tool_choice: choice,
        output: None,
        has_alternative: false,
        cache_key: "run-1",
        previous: None,
    };
    wire::encode(Wire::Gemini, &request)
}

fn body(slug: &str, history: &[Item]) -> Value {
    let model = model(slug);
    let effort = model.default_effort.clone();
    let bytes = encoded(&model, effort.as_deref(), ToolChoice::Auto, history);
    serde_json::from_slice(&bytes).unwrap()
}

fn contents(slug: &str, history: &[Item]) -> Value {
    body(slug, history)["contents"].take()
}

fn said(role: Role, text: &str) -> Item {
    Item::Message(Message { role, content: vec![Content::text(text)], native: None })
}

fn user(text: &str) -> Item {
    said(Role::User, text)
}

#[expect(clippy::unnecessary_wraps, reason = "items take an option")]
fn native(parts: Value) -> Option<Native> {
    let fields = serde_json::Map::from_iter([("parts".to_owned(), parts)]);
    Some(Native { wire: Wire::Gemini, value: Value::Object(fields) })
}

fn call(id: &str, name: &str, arguments: &str, native: Option<Native>) -> Item {
    let payload = Payload::Json(arguments.to_owned());
    Item::Call(ToolCall { id: id.to_owned(), name: name.to_owned(), payload, native })
}

fn output(id: &str, name: &str, content: Vec<Content>, success: bool) -> Item {
    let (id, name, form) = (id.to_owned(), name.to_owned(), OutputForm::Function);
    Item::Output(CallOutput { id, name, content, success, ran: false, goes_on: false, form })
}

fn answer(id: &str, text: &str) -> Item {
    output(id, "tool", vec![Content::text(text)], true)
}

fn picture(media_type: &str) -> Content {
    Content::Image { media_type: media_type.to_owned(), data: "iVBO".to_owned() }
}

#[test]
fn gemini_body_has_the_documented_fields() {
    let body = body("gemini-3.5-flash", &[user("Fix it")]);
    let keys: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["systemInstruction", "tools", "generationConfig", "contents"]);
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}, "dir": {"type": ["string", "null"]}}, "required": ["command"], "additionalProperties": false});
    let input = json!({"type": "object", "properties": {"input": {"type": "string", "description": "The whole text of the call"}}, "required": ["input"], "additionalProperties": false});
    assert_eq!(
        body,
        json!({
            "systemInstruction": {"parts": [{"text": "You fix issues."}]},
            "tools": [
                {"functionDeclarations": [
                    {"name": "run_shell_command", "description": "What run_shell_command does", "parametersJsonSchema": schema},
                    {"name": "apply_patch", "description": "What apply_patch does", "parametersJsonSchema": input},
                    {"name": "list", "description": "What list does"},
                ]},
                {"googleSearch": {}},
            ],
            "generationConfig": {"maxOutputTokens": 65536, "thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": true}},
            "contents": [{"role": "user", "parts": [{"text": "Fix it"}]}],
        })
    );
}

#[test]
fn gemini_thinking_is_asked_for_as_the_model_knows_it() {
    let level = |level: &str| json!({"thinkingLevel": level, "includeThoughts": true});
    let rows = [
        ("gemini-3.5-flash", Some("minimal"), level("MINIMAL")),
        ("gemini-3.1-pro-preview", Some("low"), level("LOW")),
        ("gemini-3.5-flash", None, json!({"includeThoughts": true})),
        ("gemini-2.5-pro", None, json!({"thinkingBudget": -1, "includeThoughts": true})),
        ("gemini-2.5-flash", Some("low"), json!({"thinkingBudget": 1024, "includeThoughts": true})),
        (
            "gemini-2.5-flash-lite",
            Some("high"),
            json!({"thinkingBudget": 24576, "includeThoughts": true}),
        ),
        ("gemini-2.5-flash", Some("none"), json!({"thinkingBudget": 0})),
        ("gemini-2.0-flash", None, Value::Null),
    ];
    for (slug, effort, expected) in rows {
        let bytes = encoded(&model(slug), effort, ToolChoice::Auto, &[user("x")]);
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(body["generationConfig"]["thinkingConfig"], expected, "{slug} {effort:?}");
    }
    // What an unknown model can write is the endpoint's to say.
    let unknown = body("gemini-9-ultra", &[user("x")]);
    assert_eq!(unknown["generationConfig"]["maxOutputTokens"], Value::Null);
    assert_eq!(body("gemini-2.0-flash", &[user("x")])["generationConfig"], Value::Null);
}

#[test]
fn gemini_tool_choice_is_a_mode() {
    let model = model("gemini-3.5-flash");
    for (choice, mode) in [
        (ToolChoice::Auto, None),
        (ToolChoice::None, Some("NONE")),
        (ToolChoice::Required, Some("ANY")),
    ] {
        let body: Value = serde_json::from_slice(&encoded(&model, None, choice, &[])).unwrap();
        let expected =
            mode.map_or(Value::Null, |mode| json!({"functionCallingConfig": {"mode": mode}}));
        assert_eq!(body["toolConfig"], expected);
    }
}

/// A reply with everything in it, as it came, and the answers to its calls.
fn conversation() -> Vec<Item> {
    let signed = json!([{"functionCall": {"id": "g1", "name": "run_shell_command", "args": {"command": "ls"}}, "thoughtSignature": "c2ln"}]);
    let second = json!([{"functionCall": {"name": "read_file", "args": {"path": "a"}}}]);
    vec![
        user("Fix it"),
        said(Role::Developer, "Today is Friday."),
        Item::Reasoning(Reasoning { summary: vec!["Look".to_owned()], native: None }),
        said(Role::Assistant, "Looking."),
        call("g1", "run_shell_command", r#"{"command":"ls"}"#, native(signed)),
        call("call_r1_1", "read_file", r#"{"path":"a"}"#, native(second)),
        // In the order in which they ended.
        output("call_r1_1", "read_file", vec![Content::text("no such file")], false),
        output("g1", "run_shell_command", vec![Content::text("a\nb"), picture("image/png")], true),
        said(Role::Developer, "The checks fail."),
        said(Role::User, ""),
        Item::Message(Message {
            role: Role::Assistant,
            content: vec![Content::text("Done.")],
            native: native(
                json!([{"text": "Do"}, {"text": "ne.", "thoughtSignature": "c2lnMg=="}]),
            ),
        }),
        Item::Opaque(Native {
            wire: Wire::Gemini,
            value: json!({"parts": [{"text": "", "thoughtSignature": "c2lnMw=="}]}),
        }),
        Item::Opaque(Native { wire: Wire::Gemini, value: json!({"groundingMetadata": {"x": 1}}) }),
        Item::Opaque(Native { wire: Wire::Responses, value: json!({"type": "web_search_call"}) }),
        user("More."),
    ]
}

#[test]
fn gemini_history_goes_back_part_by_part() {
    let png = json!({"inlineData": {"mimeType": "image/png", "data": "iVBO"}});
    let expected = json!([
        {"role": "user", "parts": [{"text": "Fix it"}, {"text": "Today is Friday."}]},
        {"role": "model", "parts": [
            {"text": "Looking."},
            {"functionCall": {"id": "g1", "name": "run_shell_command", "args": {"command": "ls"}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "read_file", "args": {"path": "a"}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"id": "g1", "name": "run_shell_command", "response": {"output": "a\nb"}, "parts": [png]}},
            {"functionResponse": {"name": "read_file", "response": {"error": "no such file"}}},
        ]},
        {"role": "user", "parts": [{"text": "The checks fail."}]},
        {"role": "model", "parts": [
            {"text": "Do"}, {"text": "ne.", "thoughtSignature": "c2lnMg=="}, {"text": "", "thoughtSignature": "c2lnMw=="},
        ]},
        {"role": "user", "parts": [{"text": "More."}]},
    ]);
    assert_eq!(contents("gemini-3.5-flash", &conversation()), expected);
    // Before Gemini 3 pictures stand beside the answers.
    let mut older = expected;
    let answers = older[2]["parts"].as_array_mut().unwrap();
    answers[0]["functionResponse"].as_object_mut().unwrap().shift_remove("parts");
    answers.push(png);
    assert_eq!(contents("gemini-2.5-pro", &conversation()), older);
}

#[test]
fn gemini_how_a_command_ended_is_a_result_and_no_error() {
    let failed = |ran: bool| {
        let text = "Output: no\nExit Code: 3".to_owned();
        Item::Output(CallOutput {
            id: "a".to_owned(),
            name: "run_shell_command".to_owned(),
            content: vec![Content::Text { text }],
            success: false,
            ran,
            goes_on: false,
            form: OutputForm::Function,
        })
    };
    for (ran, key) in [(true, "output"), (false, "error")] {
        let history = [user("x"), call("a", "run_shell_command", "{}", None), failed(ran)];
        let answers = &contents("gemini-3.5-flash", &history)[2]["parts"];
        let response = &answers[0]["functionResponse"]["response"];
        assert_eq!(*response, json!({key: "Output: no\nExit Code: 3"}));
    }
}

#[tokio::test]
async fn gemini_a_command_that_fails_is_answered_with_its_exit_code() {
    let desk = ToolDesk::new("gemini-3.5-flash").await;
    let ran = desk.json("run_shell_command", json!({"command": "echo no; exit 3"})).await;
    let missing = desk.json("read_file", json!({"file_path": "nowhere.txt"})).await;
    let fine = desk.json("run_shell_command", json!({"command": "true"})).await;
    let kinds = [&ran, &missing, &fine].map(|output| (output.success, output.ran));
    assert_eq!(kinds, [(false, true), (false, false), (true, false)]);
    let [Content::Text { text }] = ran.content.as_slice() else { panic!("{ran:?}") };
    assert_eq!(text, "Output: no\nExit Code: 3");
}

#[test]
fn gemini_pictures_of_other_kinds_stand_beside_the_output() {
    let history = [
        user("x"),
        call("a", "view", "{}", None),
        output("a", "view", vec![picture("image/heic"), picture("image/jpeg")], true),
    ];
    let answers = &contents("gemini-3.5-flash", &history)[2]["parts"];
    assert_eq!(answers[0]["functionResponse"]["parts"][0]["inlineData"]["mimeType"], "image/jpeg");
    assert_eq!(answers[1]["inlineData"]["mimeType"], "image/heic");
    assert_eq!(answers.as_array().unwrap().len(), 2);
}

#[test]
fn gemini_calls_from_elsewhere_carry_the_documented_stand_in() {
    let foreign = Some(Native { wire: Wire::Responses, value: json!({"id": "fc_1"}) });
    let patch = ToolCall {
        id: "c2".to_owned(),
        name: "apply patch/2".to_owned(),
        payload: Payload::Freeform("*** x".to_owned()),
        native: None,
    };
    let unsigned = json!([{"functionCall": {"name": "list", "args": {}}}]);
    let history = [
        user("x"),
        Item::Reasoning(Reasoning {
            summary: vec![],
            native: Some(Native { wire: Wire::Messages, value: json!({"signature": "no"}) }),
        }),
        call("c1", "run_shell_command", "{bad", foreign),
        Item::Call(patch),
        answer("c1", "1"),
        answer("c2", "2"),
        call("c3", "list", "[1]", None),
        answer("c3", "3"),
        call("c4", "list", "{}", native(unsigned)),
        call("c5", "list", "", None),
        answer("c4", "4"),
        answer("c5", "5"),
    ];
    let skip = "skip_thought_signature_validator";
    let expected = json!([
        {"role": "user", "parts": [{"text": "x"}]},
        {"role": "model", "parts": [
            {"functionCall": {"name": "run_shell_command", "args": {"input": "{bad"}}, "thoughtSignature": skip},
            {"functionCall": {"name": "apply_patch_2", "args": {"input": "*** x"}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "run_shell_command", "response": {"output": "1"}}},
            {"functionResponse": {"name": "apply_patch_2", "response": {"output": "2"}}},
        ]},
        {"role": "model", "parts": [{"functionCall": {"name": "list", "args": {"input": "[1]"}}, "thoughtSignature": skip}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "list", "response": {"output": "3"}}}]},
        // What the API made goes back as it came, but for a signature that was lost on the way.
        {"role": "model", "parts": [{"functionCall": {"name": "list", "args": {}}, "thoughtSignature": skip}, {"functionCall": {"name": "list", "args": {}}}]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "list", "response": {"output": "4"}}},
            {"functionResponse": {"name": "list", "response": {"output": "5"}}},
        ]},
    ]);
    assert_eq!(contents("gemini-3.5-flash", &history), expected);
    let older = contents("gemini-2.5-pro", &history).to_string();
    assert!(!older.contains(skip), "signatures are not checked before Gemini 3: {older}");
}

#[test]
fn gemini_every_call_is_answered_and_the_user_has_the_last_word() {
    let history = [
        user("x"),
        call("a", "list", "{}", None),
        call("b", "list", "{}", None),
        answer("b", "2"),
        answer("z", "?"),
    ];
    let told = contents("gemini-3.5-flash", &history);
    assert_eq!(
        told[2]["parts"],
        json!([
            {"functionResponse": {"name": "list", "response": {"error": "The call was not run."}}},
            {"functionResponse": {"name": "list", "response": {"output": "2"}}},
        ])
    );
    assert_eq!(told[3]["parts"], json!([{"text": "Output of `tool`:\n?"}]));
    let ends = contents("gemini-3.5-flash", &[user("x"), said(Role::Assistant, "Hm.")]);
    assert_eq!(ends[2]["role"], "user");
}

#[test]
fn gemini_names_are_ones_that_the_api_takes_back() {
    for (given, sent) in [
        ("read_file", "read_file"),
        ("_a.b:c-d", "_a.b:c-d"),
        ("7zip", "_7zip"),
        ("", "_"),
        ("naïve tool", "na_ve_tool"),
        (&"x".repeat(100), &"x".repeat(64)),
    ] {
        let history = [user("x"), call("a", given, "{}", None), answer("a", "1")];
        let told = contents("gemini-3.5-flash", &history);
        assert_eq!(told[1]["parts"][0]["functionCall"]["name"], *sent);
        assert_eq!(told[2]["parts"][0]["functionResponse"]["name"], *sent);
    }
}

#[test]
fn gemini_requests_extend_each_other_byte_by_byte() {
    let model = model("gemini-3.5-flash");
    let history = conversation();
    // The lengths at which a request is made: before each reply of the model.
    let bodies = [2, 8, 10, 15]
        .map(|length| encoded(&model, Some("high"), ToolChoice::Auto, &history[..length]));
    assert_eq!(bodies[0], encoded(&model, Some("high"), ToolChoice::Auto, &history[..2]));
    for pair in bodies.windows(2) {
        assert_eq!(&pair[1][..pair[0].len() - 2], &pair[0][..pair[0].len() - 2]);
    }
}

/// The parts of a fixture in the order in which they came.
fn received(bytes: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(bytes);
    let chunks = text.split(['\r', '\n']).filter_map(|line| line.strip_prefix("data:"));
    let chunks = chunks.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
    let parts = chunks.filter_map(|mut chunk| {
        Some(chunk.pointer_mut("/candidates/0/content/parts")?.as_array_mut()?.split_off(0))
    });
    parts.flatten().collect()
}

#[test]
fn gemini_replies_go_back_as_they_came() {
    let mut signatures = 0;
    for path in fixtures(Wire::Gemini) {
        let bytes = fs_err::read(&path).unwrap();
        let Ok(reply) = decode(Wire::Gemini, &[&bytes]).outcome else { continue };
        if reply.stop != StopReason::EndTurn {
            continue;
        }
        // Through the journal and back.
        let stored = serde_json::to_string(&reply).unwrap();
        let reply: Reply = serde_json::from_str(&stored).unwrap();
        let mut history = vec![user("x")];
        let ids: Vec<String> = reply.items.iter().filter_map(id).collect();
        history.extend(reply.items);
        history.extend(ids.iter().map(|id| answer(id, "1")));
        let told = contents("gemini-3.5-flash", &history);
        let none = vec![];
        let parts =
            told[1]["parts"].as_array().filter(|_| told[1]["role"] == "model").unwrap_or(&none);
        let received = received(&bytes);
        for part in &received {
            let signature = part.get("thoughtSignature").or_else(|| part.get("thought_signature"));
            if signature.is_none() {
                continue;
            }
            signatures += 1;
            let same = |sent: &&Value| {
                sent.get("thoughtSignature").or_else(|| sent.get("thought_signature")) == signature
            };
            let sent = parts.iter().find(same).unwrap_or_else(|| panic!("{}", name(&path)));
            // A call in pieces is put together, all else is the very part.
            if !name(&path).starts_with("partial_") {
                assert_eq!(sent, part, "{}", name(&path));
            }
        }
        let calls = parts
            .iter()
            .filter(|part| part.get("functionCall").or(part.get("function_call")).is_some());
        assert_eq!(calls.count(), ids.len(), "{}", name(&path));
        if !ids.is_empty() {
            assert_eq!(told[2]["parts"].as_array().unwrap().len(), ids.len(), "{}", name(&path));
        }
        assert!(
            parts
                .iter()
                .all(|part| part["thought"] != true || part.get("thoughtSignature").is_some())
        );
    }
    assert!(signatures > 15, "{signatures}");
}

fn id(item: &Item) -> Option<String> {
    match item {
        Item::Call(call) => Some(call.id.clone()),
        _ => None,
    }
}

#[test]
fn gemini_answers_without_event_framing_are_read() {
    let chunk = |text: &str, finish: Option<&str>| {
        let mut chunk = json!({"candidates": [{"content": {"parts": [{"text": text}]}}]});
        if let Some(finish) = finish {
            chunk["candidates"][0]["finishReason"] = json!(finish);
        }
        chunk
    };
    let text_of = |reply: &Reply| match &reply.items[..] {
        [Item::Message(message)] => message.content.clone(),
        other => panic!("{other:?}"),
    };
    let list = json!([chunk("Hel", None), chunk("lo", Some("STOP"))]).to_string();
    for whole in [list.as_str(), &chunk("Hello", Some("STOP")).to_string()] {
        let reply = wire::decode_whole(Wire::Gemini, whole).unwrap();
        assert_eq!(text_of(&reply), [Content::text("Hello")]);
    }
    // Early versions said STOP with every chunk.
    let every = json!([chunk("Hel", Some("STOP")), chunk("lo", Some("STOP"))]).to_string();
    assert_eq!(
        text_of(&wire::decode_whole(Wire::Gemini, &every).unwrap()),
        [Content::text("Hello")]
    );
    for end in 1..list.len() {
        let fault = wire::decode_whole(Wire::Gemini, &list[..end]).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Cut, "{}", &list[..end]);
    }
    let limited = r#"[{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}]"#;
    let faults = [
        (limited, FaultKind::RateLimited),
        (r#"[{"candidates":[{"content":{}}]}]"#, FaultKind::Cut),
        (r#"{"object":"list","data":[]}"#, FaultKind::Malformed),
        ("[]", FaultKind::Malformed),
        ("{]", FaultKind::Malformed),
    ];
    for (whole, kind) in faults {
        assert_eq!(wire::decode_whole(Wire::Gemini, whole).unwrap_err().kind, kind, "{whole}");
    }
}

const EXCEEDED: &str =
    "You exceeded your current quota, please check your plan and billing details.";

fn error(code: u16, status: &str, message: &str, details: &Value) -> Value {
    json!({"error": {"code": code, "message": message, "status": status, "details": details}})
}

fn violation(id: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id, "quotaValue": "20"}]})
}

fn retry_info(delay: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn gemini_errors_are_what_the_details_say() {
    let minute = violation("GenerateRequestsPerMinutePerProjectPerModel-FreeTier");
    let day = violation("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
    let limited = |details: Value| error(429, "RESOURCE_EXHAUSTED", EXCEEDED, &details);
    let reason = |reason: &str| json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]);
    let none = json!([]);
    let rows = [
        (limited(json!([minute, retry_info("34.5s")])), FaultKind::RateLimited, Some(34_500)),
        (json!([limited(json!([retry_info("2s")]))]), FaultKind::RateLimited, Some(2000)),
        (limited(json!([day, retry_info("34s")])), FaultKind::Quota, None),
        (limited(json!([minute, day])), FaultKind::Quota, None),
        (limited(reason("QUOTA_EXHAUSTED")), FaultKind::Quota, None),
        (limited(none.clone()), FaultKind::RateLimited, None),
        (
            error(429, "RESOURCE_EXHAUSTED", "Please retry in 7.25s.", &none),
            FaultKind::RateLimited,
            Some(7250),
        ),
        (
            error(
                429,
                "RESOURCE_EXHAUSTED",
                "Quota exceeded for metric: x, limit: 0, model: y",
                &none,
            ),
            FaultKind::Quota,
            None,
        ),
        (
            error(
                429,
                "RESOURCE_EXHAUSTED",
                "Quota exceeded for metric: x, limit: 20, model: y",
                &none,
            ),
            FaultKind::RateLimited,
            None,
        ),
        (
            error(
                429,
                "RESOURCE_EXHAUSTED",
                "Your project has exceeded its monthly spending cap.",
                &none,
            ),
            FaultKind::Quota,
            None,
        ),
        (
            error(400, "INVALID_ARGUMENT", "API key not valid.", &reason("API_KEY_INVALID")),
            FaultKind::Authentication,
            None,
        ),
        (
            error(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key.", &none),
            FaultKind::Authentication,
            None,
        ),
        (error(403, "PERMISSION_DENIED", "no", &none), FaultKind::Authentication, None),
        (
            error(
                400,
                "INVALID_ARGUMENT",
                "The input token count (9) exceeds the maximum number of tokens allowed (8).",
                &none,
            ),
            FaultKind::ContextOverflow,
            None,
        ),
        (
            error(
                400,
                "INVALID_ARGUMENT",
                "Request payload size exceeds the limit: 20971520 bytes.",
                &none,
            ),
            FaultKind::ContextOverflow,
            None,
        ),
        (
            error(
                400,
                "INVALID_ARGUMENT",
                "Thinking level is not supported for this model.",
                &none,
            ),
            FaultKind::Rejected(400),
            None,
        ),
        (
            error(
                400,
                "FAILED_PRECONDITION",
                "User location is not supported for the API use.",
                &none,
            ),
            FaultKind::Rejected(400),
            None,
        ),
        (error(404, "NOT_FOUND", "models/x is not found", &none), FaultKind::Rejected(404), None),
        (error(499, "CANCELLED", "cancelled", &none), FaultKind::Unavailable, None),
        (
            error(500, "INTERNAL", "The input token count of the model", &none),
            FaultKind::Unavailable,
            None,
        ),
        (
            error(503, "UNAVAILABLE", "overloaded", &json!([retry_info("3s")])),
            FaultKind::Unavailable,
            Some(3000),
        ),
        (error(504, "DEADLINE_EXCEEDED", "late", &none), FaultKind::Unavailable, None),
    ];
    for (body, kind, wait) in rows {
        let error = body.get("error").or_else(|| body[0].get("error")).unwrap();
        let status = u16::try_from(error["code"].as_u64().unwrap()).unwrap();
        let fault = gemini::error_fault(status, &body.to_string()).unwrap();
        let waits = fault.wait.map(|wait| wait.as_millis());
        assert_eq!((fault.kind, waits), (kind, wait), "{body}");
        // The same inside a stream, where the status of the answer was 200.
        let event = format!("data: {body}\r\n\r\n");
        let inside: Fault = decode(Wire::Gemini, &[event.as_bytes()]).outcome.unwrap_err();
        assert_eq!(inside, fault, "{body}");
    }
    for body in ["", "upstream down", "[]", "{}", r#"{"error":"text"}"#] {
        assert_eq!(gemini::error_fault(502, body), None, "{body}");
    }
}

#[test]
fn gemini_an_unreadable_call_is_told_and_bounded() {
    let path =
        fixtures(Wire::Gemini).into_iter().find(|path| name(path) == "malformed_function_call");
    let bytes = fs_err::read(path.unwrap()).unwrap();
    let reply = decode(Wire::Gemini, &[&bytes]).outcome.unwrap();
    let text = String::new;
    let remarks = Remarks {
        nudge: text(),
        edits: text(),
        empty: text(),
        cut: text(),
        unfinished: text(),
        unchanged: text(),
        tools: text(),
    };
    let mut state = State::default();
    state.apply(&Entry::Prompted {
        instructions: String::new(),
        tools: serde_json::to_value(tools()).unwrap(),
        items: vec![user("Fix it")],
        profile: None,
    });
    for turn in 1..=3 {
        state.apply(&Entry::Replied { turn, reply: reply.clone(), cost_usd: 0.0 });
        let next = state.next(&remarks);
        if turn == 3 {
            let text = format!("{next:?}");
            assert!(text.contains("FormatErrors"), "{text}");
            break;
        }
        let Next::Add(items) = next else { panic!("{next:?}") };
        let told = format!("{items:?}");
        assert!(told.contains("print(default_api.run_shell_command(command='ls'))"), "{told}");
        state.apply(&Entry::Added { items });
        assert!(matches!(state.next(&remarks), Next::Ask));
    }
    // Its words stay, the call that could not be read does not.
    let told = contents("gemini-3.5-flash", state.history.items());
    assert_eq!(told[1], json!({"role": "model", "parts": [{"text": "Let me run it."}]}));
    assert!(!told.to_string().contains("functionCall\""), "{told}");
}

/// What a server was asked.
struct Asked {
    uri: Uri,
    headers: HeaderMap,
    body: Value,
}

/// A server that gives the same answers in turn, whatever it is asked.
async fn serve(answers: Vec<(u16, &'static str, String)>) -> (String, Arc<Mutex<Vec<Asked>>>) {
    let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
    let seen = asked.clone();
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let app = Router::new().fallback(move |uri: Uri, headers: HeaderMap, body: Bytes| {
        let body = serde_json::from_slice(&body).unwrap_or_default();
        seen.lock().push(Asked { uri, headers, body });
        let (status, kind, text) = answers.lock().next().unwrap();
        async move {
            Response::builder()
                .status(status)
                .header("content-type", kind)
                .body(Body::from(text))
                .unwrap()
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, asked)
}

fn provider(url: &str) -> HttpProvider {
    HttpProvider::new(url, Some(SecretString::from("AIza-key")), client().unwrap())
        .unwrap()
        .with_policy(Policy { scale: 0.001, ..Policy::default() })
        .with_deadlines(Deadlines { idle: Duration::from_secs(20), turn: Duration::from_secs(40) })
}

async fn ask(provider: &HttpProvider, history: &[Item]) -> Result<Reply, ProviderError> {
    ask_and_tell(provider, history, &|_| {}).await
}

async fn ask_and_tell(
    provider: &HttpProvider,
    history: &[Item],
    progress: OnProgress<'_>,
) -> Result<Reply, ProviderError> {
    let model = model("gemini-3.5-flash");
    let request = Request {
        model: &model,
        instructions: "You fix issues.",
        tools: &tools(),
        history,
        effort: Some("high"),
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "run-1",
        previous: None,
    };
    provider.reply(&request, progress).await
}

fn stream(chunk: &Value) -> (u16, &'static str, String) {
    (200, "text/event-stream", format!("data: {chunk}\r\n\r\n"))
}

#[tokio::test]
async fn gemini_calls_get_ids_that_are_new_in_the_conversation() {
    // No ids and always the same response id, then an id that was used before.
    let anonymous = json!({"candidates": [{"content": {"parts": [
        {"functionCall": {"name": "list", "args": {}}, "thoughtSignature": "c2ln"}, {"functionCall": {"name": "list"}},
    ]}, "finishReason": "STOP"}], "responseId": "r"});
    let named = json!({"candidates": [{"content": {"parts": [
        {"functionCall": {"id": "call_r_1", "name": "list", "args": {}}, "thoughtSignature": "c2ln"},
    ]}, "finishReason": "STOP"}]});
    let script = [&anonymous, &anonymous, &named, &named].map(stream).to_vec();
    let (url, asked) = serve(script).await;
    let provider = provider(&url);
    let mut history = vec![user("x")];
    for _ in 0..4 {
        let reply = ask(&provider, &history).await.unwrap();
        let ids: Vec<String> = reply.items.iter().filter_map(id).collect();
        history.extend(reply.items);
        history.extend(ids.iter().map(|id| answer(id, id)));
    }
    let ids: Vec<String> = history.iter().filter_map(id).collect();
    assert_eq!(
        ids,
        ["call_r_0", "call_r_1", "call_r_0_2", "call_r_1_2", "call_r_1_3", "call_r_1_4"]
    );
    // What the API gave goes back, and nothing else.
    let asked = asked.lock();
    let told = &asked[3].body["contents"];
    assert_eq!(
        told[2]["parts"][0],
        json!({"functionResponse": {"name": "list", "response": {"output": "call_r_0"}}})
    );
    assert_eq!(
        told[6]["parts"][0],
        json!({"functionResponse": {"id": "call_r_1", "name": "list", "response": {"output": "call_r_1_3"}}})
    );
    for asked in asked.iter() {
        assert_eq!(
            asked.uri.to_string(),
            "/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse"
        );
        assert_eq!(asked.headers["x-goog-api-key"], "AIza-key");
        assert!(asked.headers.get("authorization").is_none());
    }
}

/// What is billed for a prompt that was blocked is what the API says, not what the request looks like.
#[tokio::test]
async fn gemini_a_blocked_prompt_costs_what_the_api_says() {
    let feedback = json!({"blockReason": "PROHIBITED_CONTENT"});
    let named = json!({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}});
    let unnamed = json!({"promptFeedback": feedback});
    for (chunk, expected) in [(named, Some(9)), (unnamed, None)] {
        let (url, _) = serve(vec![stream(&chunk)]).await;
        let lost = Mutex::new(Vec::new());
        let tell = |what: Progress<'_>| {
            if let Progress::Lost { usage } = what {
                lost.lock().push(usage);
            }
        };
        let outcome = ask_and_tell(&provider(&url), &[user("x")], &tell).await;
        assert_eq!(crate::providers::word(&outcome), "Filtered");
        let lost = lost.into_inner();
        let [usage] = lost[..] else { panic!("{lost:?}") };
        assert_eq!((!usage.estimated).then_some(usage.input), expected, "{usage:?}");
    }
}

#[tokio::test]
async fn gemini_addresses_name_the_version_once() {
    let done = json!({"candidates": [{"content": {"parts": [{"text": "Done."}]}, "finishReason": "STOP"}]});
    let rest = "models/gemini-3.5-flash:streamGenerateContent?alt=sse";
    for (base, path) in [
        ("", "/v1beta/"),
        ("/", "/v1beta/"),
        ("/gemini", "/gemini/v1beta/"),
        ("/v1beta/", "/v1beta/"),
        ("/v1/publishers/google", "/v1/publishers/google/"),
    ] {
        let (url, asked) = serve(vec![stream(&done)]).await;
        ask(&provider(&format!("{url}{base}")), &[user("x")]).await.unwrap();
        assert_eq!(asked.lock()[0].uri.to_string(), format!("{path}{rest}"));
    }
}

#[tokio::test]
async fn gemini_waits_retries_and_gives_up_as_the_api_asks() {
    let done = json!([{"candidates": [{"content": {"parts": [{"text": "Done."}]}, "finishReason": "STOP"}]}]);
    let minute = error(429, "RESOURCE_EXHAUSTED", EXCEEDED, &json!([retry_info("1s")]));
    let day = error(429, "RESOURCE_EXHAUSTED", EXCEEDED, &json!([violation("RequestsPerDay")]));
    let bad_key = error(400, "INVALID_ARGUMENT", "API key not valid. AIza-key", &json!([]));
    let json_of = |status, body: &Value| (status, "application/json", body.to_string());
    let rows = [
        (vec![json_of(429, &json!([minute])), json_of(200, &done)], "EndTurn", 2),
        (vec![stream(&json!({"candidates": []})), json_of(200, &done)], "EndTurn", 2),
        (vec![stream(&minute), json_of(200, &done)], "EndTurn", 2),
        (vec![json_of(429, &day)], "Quota", 1),
        (vec![json_of(400, &bad_key)], "Authentication", 1),
        (
            vec![json_of(503, &error(503, "UNAVAILABLE", "no", &json!([]))), json_of(200, &done)],
            "EndTurn",
            2,
        ),
        (
            vec![(502, "text/html", "<html>bad gateway</html>".to_owned()), json_of(200, &done)],
            "EndTurn",
            2,
        ),
    ];
    for (script, ends, requests) in rows {
        let (url, asked) = serve(script).await;
        let outcome = ask(&provider(&url), &[user("x")]).await;
        assert_eq!(crate::providers::word(&outcome), ends, "{outcome:?}");
        assert_eq!(asked.lock().len(), requests, "{outcome:?}");
        assert!(!format!("{outcome:?}").contains("AIza-key"));
    }
}
