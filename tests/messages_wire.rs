//! The Messages wire without a network: requests to bodies; and its headers and errors over HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::http::{Deadlines, HttpProvider, client};
use patchwright_provider::item::{
    CallOutput, Content, Item, Message, Native, OutputForm, Payload, Reasoning, Role, StopReason,
    ToolCall, Wire,
};
use patchwright_provider::retry::{Policy, with_headers};
use patchwright_provider::wire::fault::{Fault, FaultKind};
use patchwright_provider::wire::{self, decode_whole};
use patchwright_provider::{
    OutputFormat, Provider, ProviderError, Reply, Request, ToolChoice, ToolDeclaration, ToolForm,
};
use proptest::prelude::*;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::providers::word;
use crate::support::model::{ModelServer, Turn, fail_raw, raw_stream};
use crate::wires::{decode, fixtures, name};

fn model(slug: &str) -> Model {
    Catalogue::load(&BTreeMap::new()).unwrap().resolve(slug, None).unwrap()
}

fn function(name: &str, schema: Value, strict: bool) -> ToolDeclaration {
    ToolDeclaration {
        name: name.to_owned(),
        description: format!("What {name} does"),
        form: ToolForm::Function { schema, strict },
    }
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"], "additionalProperties": false})
}

fn tools() -> Vec<ToolDeclaration> {
    let native = |value: Value| ToolDeclaration {
        name: "native".to_owned(),
        description: String::new(),
        form: ToolForm::Native { value },
    };
    vec![
        function("read_file", schema(), true),
        native(json!({"type": "bash_20250124", "name": "bash"})),
        native(json!({"type": "local_shell"})),
        ToolDeclaration {
            name: "apply_patch".to_owned(),
            description: "Edits".to_owned(),
            form: ToolForm::Freeform {
                syntax: "lark".to_owned(),
                definition: "s: \"x\"".to_owned(),
            },
        },
    ]
}

struct Ask<'a> {
    model: Model,
    instructions: &'a str,
    tools: Vec<ToolDeclaration>,
    effort: Option<&'a str>,
    tool_choice: ToolChoice<'a>,
    output: Option<OutputFormat<'a>>,
}

fn ask(slug: &str) -> Ask<'static> {
    Ask {
        model: model(slug),
        instructions: "You fix issues.",
        tools: tools(),
        effort: None,
        tool_choice: ToolChoice::Auto,
        output: None,
    }
}

impl Ask<'_> {
    fn request<'a>(&'a self, history: &'a [Item]) -> Request<'a> {
        Request {
            model: &self.model,
            instructions: self.instructions,
            tools: &self.tools,
            history,
            effort: self.effort,
            tool_choice: self.tool_choice,
            output: self.output,
            has_alternative: false,
            cache_key: "run-1",
            previous: None,
        }
    }

    fn body(&self, history: &[Item]) -> Value {
        let bytes = wire::encode(Wire::Messages, &self.request(history));
        serde_json::from_slice(&bytes).unwrap()
    }
}

fn said(role: Role, text: &str) -> Item {
    Item::Message(Message { role, content: vec![Content::text(text)], native: None })
}

fn user(text: &str) -> Item {
    said(Role::User, text)
}

fn ours(value: Value) -> Native {
    Native { wire: Wire::Messages, value }
}

fn thought(value: Value) -> Item {
    Item::Reasoning(Reasoning { summary: vec![], native: Some(ours(value)) })
}

fn call(id: &str, payload: Payload) -> Item {
    Item::Call(ToolCall { id: id.to_owned(), name: "bash".to_owned(), payload, native: None })
}

fn json_call(id: &str, arguments: &str) -> Item {
    call(id, Payload::Json(arguments.to_owned()))
}

fn output(id: &str, content: Vec<Content>, success: bool) -> Item {
    Item::Output(CallOutput {
        id: id.to_owned(),
        name: "bash".to_owned(),
        content,
        success,
        ran: false,
        goes_on: false,
        form: OutputForm::Function,
    })
}

fn answer(id: &str) -> Item {
    output(id, vec![Content::text("out")], true)
}

fn picture(media_type: &str) -> Content {
    Content::Image { media_type: media_type.to_owned(), data: "iVBO".to_owned() }
}

fn without_marks(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| *key != "cache_control")
            .map(|(key, value)| (key.clone(), without_marks(value)))
            .collect(),
        Value::Array(values) => values.iter().map(without_marks).collect(),
        other => other.clone(),
    }
}

/// The messages without the marks for the cache.
fn messages(history: &[Item]) -> Value {
    let body = ask("claude-sonnet-5").body(history);
    check_rules(&body, "a history");
    without_marks(&body["messages"])
}

fn is_name(text: &Value) -> bool {
    let text = text.as_str().unwrap();
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// The rules of the API that a body must keep whatever the history was.
fn check_rules(body: &Value, what: &str) {
    for gone in ["temperature", "top_p", "top_k", "stop_sequences"] {
        assert!(body.get(gone).is_none(), "{what}: {gone}");
    }
    let text = body.to_string();
    assert!(text.matches(r#""cache_control""#).count() <= 4, "{what}: {text}");
    let turns = body["messages"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (number, turn) in turns.iter().enumerate() {
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        assert_eq!(turn["role"], role, "{what}: {text}");
        let blocks = turn["content"].as_array().unwrap();
        assert!(!blocks.is_empty(), "{what}: an empty turn");
        let mut is_past_results = false;
        for block in blocks {
            match block["type"].as_str().unwrap() {
                "text" => assert!(!block["text"].as_str().unwrap().trim().is_empty(), "{what}"),
                "thinking" | "redacted_thinking" => {
                    assert!(block.get("cache_control").is_none(), "{what}");
                }
                "tool_use" => {
                    assert!(is_name(&block["id"]) && is_name(&block["name"]), "{what}: {block}");
                    assert!(block["input"].is_object(), "{what}: {block}");
                    let id = block["id"].as_str().unwrap();
                    assert!(ids.insert(id.to_owned()), "{what}: {id} twice");
                    open.insert(id.to_owned());
                }
                "tool_result" => {
                    assert!(!is_past_results, "{what}: a result after something else");
                    let id = block["tool_use_id"].as_str().unwrap();
                    assert!(open.remove(id), "{what}: {id} was not called: {text}");
                    if block["is_error"] == true {
                        assert!(block["content"].is_string(), "{what}: {block}");
                    }
                }
                _ => {}
            }
            is_past_results |= block["type"] != "tool_result";
        }
        assert!(role == "assistant" || open.is_empty(), "{what}: unanswered {open:?}: {text}");
    }
    assert!(open.is_empty(), "{what}: unanswered {open:?}");
}

#[test]
fn messages_body_has_the_documented_fields() {
    let body = Ask { effort: Some("high"), ..ask("claude-sonnet-5") }.body(&[user("Fix it")]);
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        body,
        json!({
            "model": "claude-sonnet-5",
            "max_tokens": 128_000,
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": "high"},
            "tools": [
                {"name": "read_file", "description": "What read_file does", "input_schema": schema(), "strict": true},
                {"type": "bash_20250124", "name": "bash"},
                {"name": "apply_patch", "description": "Edits", "input_schema": {"type": "object", "properties": {"input": {"type": "string", "description": "The whole text of the call"}}, "required": ["input"], "additionalProperties": false}},
            ],
            "tool_choice": {"type": "auto"},
            "system": [{"type": "text", "text": "You fix issues.", "cache_control": mark}],
            "stream": true,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Fix it", "cache_control": mark}]}],
        })
    );
    let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(keys.last().unwrap().as_str(), "messages");
}

#[test]
fn messages_thinking_is_asked_for_as_the_model_takes_it() {
    let budget = |tokens: u64| json!({"type": "enabled", "budget_tokens": tokens});
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    let rows = [
        ("claude-opus-5-5", Some("max"), adaptive.clone(), json!("max"), 128_000),
        ("claude-opus-4-6", None, adaptive.clone(), Value::Null, 128_000),
        ("claude-haiku-4-5", None, budget(12_288), Value::Null, 64_000),
        ("claude-haiku-4-5", Some("low"), budget(4096), Value::Null, 64_000),
        ("claude-sonnet-4-5", Some("high"), budget(24_576), Value::Null, 64_000),
        ("claude-sonnet-4-5", Some("max"), budget(48_000), Value::Null, 64_000),
        ("claude-sonnet-4-5", Some("none"), Value::Null, Value::Null, 64_000),
        ("claude-haiku-4-5-20251001", Some("max"), budget(48_000), Value::Null, 64_000),
        // Not in the catalogue: no more output than every model has.
        ("claude-next", Some("high"), adaptive, json!("high"), 32_000),
    ];
    for (slug, effort, thinking, level, max_tokens) in rows {
        let body = Ask { effort, ..ask(slug) }.body(&[user("Fix it")]);
        let of = |key: &str| body.get(key).cloned().unwrap_or_default();
        assert_eq!(of("thinking"), thinking, "{slug} {effort:?}");
        assert_eq!(of("output_config")["effort"], level, "{slug} {effort:?}");
        assert_eq!(body["max_tokens"], max_tokens, "{slug}");
        let budget = thinking["budget_tokens"].as_u64().unwrap_or(1024);
        assert!((1024..max_tokens).contains(&budget), "{slug}");
    }
    // Too small a model for any budget.
    let small = Model { max_output: 1000, ..model("claude-haiku-4-5") };
    let body = Ask { model: small, ..ask("claude-haiku-4-5") }.body(&[user("Fix it")]);
    assert!(body.get("thinking").is_none());
}

#[test]
fn messages_tool_choice_is_what_may_be_asked_for() {
    let alone = Model { parallel_calls: false, ..model("claude-sonnet-5") };
    let quiet = |parallel_calls| Model {
        thinking: patchwright_provider::catalogue::Thinking::Level,
        parallel_calls,
        ..model("claude-sonnet-5")
    };
    let rows = [
        (model("claude-sonnet-5"), ToolChoice::Auto, json!({"type": "auto"})),
        (model("claude-sonnet-5"), ToolChoice::None, json!({"type": "none"})),
        // Thinking and a forced call exclude each other.
        (model("claude-sonnet-5"), ToolChoice::Required, json!({"type": "auto"})),
        (quiet(true), ToolChoice::Required, json!({"type": "any"})),
        (alone, ToolChoice::Auto, json!({"type": "auto", "disable_parallel_tool_use": true})),
        (
            quiet(false),
            ToolChoice::Required,
            json!({"type": "any", "disable_parallel_tool_use": true}),
        ),
        (quiet(false), ToolChoice::None, json!({"type": "none"})),
    ];
    for (model, tool_choice, expected) in rows {
        let body = Ask { model, tool_choice, ..ask("claude-sonnet-5") }.body(&[user("Fix it")]);
        assert_eq!(body["tool_choice"], expected);
    }
    // Without tools there is nothing to choose.
    let body = Ask { tools: vec![], ..ask("claude-sonnet-5") }.body(&[user("Hi")]);
    assert!(body.get("tools").is_none() && body.get("tool_choice").is_none());
    // Calls of the past need a declaration, and get no company.
    let history = [user("Hi"), json_call("a", "{}"), answer("a")];
    let body = Ask { tools: vec![], ..ask("claude-sonnet-5") }.body(&history);
    assert_eq!(body["tools"], json!([{"name": "bash", "input_schema": {"type": "object"}}]));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    // Without a system prompt the mark is on the tools.
    let body = Ask { instructions: " ", ..ask("claude-sonnet-5") }.body(&[user("Hi")]);
    assert!(body.get("system").is_none());
    assert_eq!(body["tools"][2]["cache_control"], json!({"type": "ephemeral"}));
}

#[test]
fn messages_schemas_are_objects_without_alternatives_at_the_root() {
    let odd = json!({"description": "x", "anyOf": [
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"properties": {"a": {"type": "integer"}, "b": {"anyOf": [{"type": "null"}]}}},
    ]});
    let tools = vec![function("odd", odd, false), function("empty", json!({}), false)];
    let body = Ask { tools, ..ask("claude-sonnet-5") }.body(&[user("Hi")]);
    assert_eq!(
        body["tools"][0]["input_schema"],
        json!({"description": "x", "type": "object", "properties": {"a": {"type": "string"}, "b": {"anyOf": [{"type": "null"}]}}})
    );
    assert_eq!(body["tools"][1]["input_schema"], json!({"type": "object", "properties": {}}));
    assert!(body["tools"][0].get("strict").is_none());
}

#[test]
fn messages_a_conversation_becomes_turns() {
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    let redacted = json!({"type": "redacted_thinking", "data": "ZGF0YQ=="});
    let cited = json!({"type": "text", "text": "As it says.", "citations": [{"type": "web_search_result_location", "url": "https://example.com", "title": "A", "encrypted_index": "E", "cited_text": "x"}]});
    let history = [
        said(Role::Developer, "The workspace is /w.\n"),
        user("Fix it"),
        thought(thinking.clone()),
        thought(redacted.clone()),
        said(Role::Assistant, "Looking."),
        json_call("toolu_1", r#"{"command": "ls"}"#),
        json_call("toolu_2", "{}"),
        output("toolu_1", vec![Content::text("see"), picture("image/png")], true),
        output("toolu_2", vec![picture("image/png")], false),
        said(Role::Developer, "The checks fail."),
        Item::Message(Message {
            role: Role::Assistant,
            content: vec![Content::text("As it says.")],
            native: Some(ours(json!({"content": [cited]}))),
        }),
        Item::Message(Message {
            role: Role::User,
            content: vec![Content::text(" "), picture("image/jpg"), picture("image/svg+xml")],
            native: None,
        }),
    ];
    let image = |media_type: &str| json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": "iVBO"}});
    assert_eq!(
        messages(&history),
        json!([
            {"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>\nThe workspace is /w.\n</system-reminder>"},
                {"type": "text", "text": "Fix it"},
            ]},
            {"role": "assistant", "content": [
                thinking,
                redacted,
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "see"}, image("image/png")]},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "The tool failed without a message.", "is_error": true},
                {"type": "text", "text": "<system-reminder>\nThe checks fail.\n</system-reminder>"},
            ]},
            {"role": "assistant", "content": [cited]},
            {"role": "user", "content": [
                image("image/jpeg"),
                {"type": "text", "text": "[a picture of type `image/svg+xml`, which cannot be shown]"},
            ]},
        ])
    );
}

#[test]
fn messages_inputs_are_objects_whatever_the_model_wrote() {
    let json = |text: &str| Payload::Json(text.to_owned());
    let rows = [
        (json(r#"{"b":1,"a":[]}"#), json!({"b": 1, "a": []})),
        (json(""), json!({})),
        (json("{\"a\": \"x"), json!({"INVALID_JSON": "{\"a\": \"x"})),
        (json("[1]"), json!({"INVALID_JSON": "[1]"})),
        (json(r#"{"a":"\ud800"}"#), json!({"INVALID_JSON": r#"{"a":"\ud800"}"#})),
        (json(r#"{"a":1e999}"#), json!({"INVALID_JSON": r#"{"a":1e999}"#})),
        (Payload::Freeform("*** x".to_owned()), json!({"input": "*** x"})),
        (Payload::Native(r#"{"command":["ls"]}"#.to_owned()), json!({"command": ["ls"]})),
    ];
    for (payload, input) in rows {
        let seen = messages(&[user("Hi"), call("a", payload), answer("a")]);
        assert_eq!(seen[1]["content"][0]["input"], input);
    }
}

#[test]
fn messages_takes_histories_of_other_wires() {
    let foreign = |value: Value| Native { wire: Wire::Responses, value };
    let history = [
        user("Hi"),
        Item::Reasoning(Reasoning {
            summary: vec!["why".to_owned()],
            native: Some(foreign(json!({"id": "rs_1", "encrypted_content": "gAAA"}))),
        }),
        Item::Opaque(foreign(json!({"type": "web_search_call", "id": "ws_1"}))),
        Item::Call(ToolCall {
            id: "call|1.x".to_owned(),
            name: "functions.shell é".to_owned(),
            payload: Payload::Json("{}".to_owned()),
            native: Some(foreign(json!({"id": "fc_1"}))),
        }),
        json_call("call_1_x", "{}"),
        json_call("", "{}"),
        answer("call_1_x"),
        answer("call|1.x"),
        answer(""),
        Item::Message(Message {
            role: Role::Assistant,
            content: vec![Content::Refusal { text: "No.".to_owned() }],
            native: Some(foreign(json!({"id": "msg_1"}))),
        }),
        user("Go"),
    ];
    let call =
        |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "out"});
    assert_eq!(
        messages(&history),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": [
                call("call_1_x", "functions_shell__"), call("call_1_x_2", "bash"), call("call", "bash"),
            ]},
            {"role": "user", "content": [result("call_1_x_2"), result("call_1_x"), result("call")]},
            {"role": "assistant", "content": [{"type": "text", "text": "No."}]},
            {"role": "user", "content": [{"type": "text", "text": "Go"}]},
        ])
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn messages_mends_histories_that_the_api_would_refuse() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let turn = |role: &str, content: Vec<Value>| json!({"role": role, "content": content});
    let used = |id: &str| json!({"type": "tool_use", "id": id, "name": "bash", "input": {}});
    let lost = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "This call has no output: it was not run.", "is_error": true});
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    let search =
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let opaque = |value: &Value| Item::Opaque(ours(value.clone()));
    let paused = Item::Message(Message {
        role: Role::Assistant,
        content: vec![Content::text("Still")],
        native: Some(ours(json!({"paused": true}))),
    });
    let hi = || turn("user", vec![text("Hi")]);
    let rows: Vec<(Vec<Item>, Vec<Value>)> = vec![
        (vec![], vec![]),
        // A call without its output, at the end and in the middle.
        (
            vec![user("Hi"), json_call("a", "")],
            vec![hi(), turn("assistant", vec![used("a")]), turn("user", vec![lost("a")])],
        ),
        (
            vec![user("Hi"), json_call("a", ""), json_call("b", ""), answer("b"), user("So?")],
            vec![
                hi(),
                turn("assistant", vec![used("a"), used("b")]),
                turn(
                    "user",
                    vec![
                        json!({"type": "tool_result", "tool_use_id": "b", "content": "out"}),
                        lost("a"),
                        text("So?"),
                    ],
                ),
            ],
        ),
        // An output without its call.
        (
            vec![user("Hi"), answer("z")],
            vec![turn("user", vec![text("Hi"), text("Output of `bash`:\nout")])],
        ),
        // No prefill, and none of thinking.
        (
            vec![user("Hi"), said(Role::Assistant, "Yes")],
            vec![hi(), turn("assistant", vec![text("Yes")]), turn("user", vec![text("Go on.")])],
        ),
        (vec![user("Hi"), thought(thinking.clone())], vec![hi()]),
        (
            vec![user("Hi"), thought(thinking.clone()), user("You?")],
            vec![turn("user", vec![text("Hi"), text("You?")])],
        ),
        // A turn that the API paused is sent as it is.
        (vec![user("Hi"), paused.clone()], vec![hi(), turn("assistant", vec![text("Still")])]),
        (
            vec![user("Hi"), said(Role::Assistant, "Let me"), opaque(&search)],
            vec![hi(), turn("assistant", vec![text("Let me"), search.clone()])],
        ),
        (
            vec![user("Hi"), opaque(&search), thought(thinking.clone())],
            vec![hi(), turn("assistant", vec![search.clone(), thinking.clone()])],
        ),
        (
            vec![user("Hi"), paused, said(Role::Assistant, "Done"), user("Ok")],
            vec![
                hi(),
                turn("assistant", vec![text("Still"), text("Done")]),
                turn("user", vec![text("Ok")]),
            ],
        ),
        // The user begins.
        (
            vec![said(Role::Assistant, "Yes"), user("Hi")],
            vec![turn("user", vec![text("Go on.")]), turn("assistant", vec![text("Yes")]), hi()],
        ),
        // Nothing is said without words.
        (
            vec![user("Hi"), said(Role::Assistant, " \n"), user(""), user("You?")],
            vec![turn("user", vec![text("Hi"), text("You?")])],
        ),
    ];
    for (history, expected) in rows {
        assert_eq!(messages(&history), Value::Array(expected), "{history:?}");
    }
    // An output without words is a result without content.
    let seen = messages(&[user("Hi"), json_call("a", ""), output("a", vec![], true)]);
    assert_eq!(seen[2]["content"][0], json!({"type": "tool_result", "tool_use_id": "a"}));
}

/// Turns with many calls each, so that the API's look back over twenty blocks would miss.
fn long_history() -> Vec<Vec<Item>> {
    let mut turns = vec![vec![said(Role::Developer, "Where"), user("Fix it")]];
    for turn in 0..6 {
        let ids: Vec<String> = (0..25).map(|call| format!("toolu_{turn}_{call}")).collect();
        let thinking =
            json!({"type": "thinking", "thinking": "Hm.", "signature": format!("s{turn}")});
        let mut items = vec![thought(thinking), said(Role::Assistant, "Next.")];
        items.extend(ids.iter().map(|id| json_call(id, r#"{"command":"ls"}"#)));
        items.extend(ids.iter().map(|id| answer(id)));
        if turn % 2 == 1 {
            items.push(said(Role::Developer, "Mind the time."));
        }
        turns.push(items);
    }
    turns
}

/// The number of blocks up to and with each marked one.
fn marks(body: &Value) -> Vec<usize> {
    let turns = body["messages"].as_array().unwrap();
    let blocks = turns.iter().flat_map(|turn| turn["content"].as_array().unwrap());
    let marked = |(number, block): (usize, &Value)| block.get("cache_control").map(|_| number + 1);
    blocks.enumerate().filter_map(marked).collect()
}

#[test]
fn messages_requests_extend_each_other_and_find_their_cache() {
    let turns = long_history();
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let mut last: Option<(String, Value)> = None;
    for length in 1..=turns.len() {
        let history = turns[..length].concat();
        let ask = ask("claude-sonnet-5");
        let raw = wire::encode(Wire::Messages, &ask.request(&history));
        assert_eq!(raw, wire::encode(Wire::Messages, &ask.request(&history)));
        let text = String::from_utf8(raw).unwrap();
        let body: Value = serde_json::from_str(&text).unwrap();
        check_rules(&body, "long");
        assert!(text.matches(mark).count() <= 4);
        let plain = text.replace(mark, "");
        if let Some((before, earlier)) = last {
            // Less the closing brackets of the list and of the body.
            assert_eq!(plain.get(..before.len() - 2), before.get(..before.len() - 2));
            // What the request before wrote to the cache is looked up at that very place.
            let written = *marks(&earlier).last().unwrap();
            assert!(marks(&body).contains(&written), "{written} in {:?}", marks(&body));
        }
        last = Some((plain, body));
    }
}

#[test]
fn messages_replies_go_back_as_they_came() {
    for path in fixtures(Wire::Messages) {
        let bytes = fs_err::read(&path).unwrap();
        let Ok(reply) = decode(Wire::Messages, &[&bytes]).outcome else { continue };
        // Ids that the API would not take go back as ours.
        if matches!(name(&path).as_str(), "calls_with_one_id" | "call_without_id") {
            continue;
        }
        // Through the journal and back.
        let stored = serde_json::to_string(&reply).unwrap();
        let reply: Reply = serde_json::from_str(&stored).unwrap();
        let mut history = vec![user("Hi")];
        history.extend(reply.items.iter().cloned());
        for item in &reply.items {
            if let Item::Call(call) = item {
                history.push(answer(&call.id));
            }
        }
        let body = ask("claude-sonnet-5").body(&history);
        check_rules(&body, &name(&path));
        let turns = body["messages"].as_array().unwrap();
        let has_calls = reply.items.iter().any(|item| matches!(item, Item::Call(_)));
        if reply.stop == StopReason::Pause && !has_calls {
            assert_eq!(turns.len(), 2, "{}: a paused turn is sent as it is", name(&path));
        } else {
            assert_eq!(turns.last().unwrap()["role"], "user", "{}", name(&path));
        }
        // Every block that stays is one that was received, with nothing added.
        let received = String::from_utf8_lossy(&bytes).into_owned();
        for block in turns
            .iter()
            .filter(|it| it["role"] == "assistant")
            .flat_map(|it| it["content"].as_array().unwrap())
        {
            for key in
                ["type", "id", "name", "signature", "data", "encrypted_content", "tool_use_id"]
            {
                if let Some(value) = block[key].as_str() {
                    assert!(received.contains(value), "{}: {key} {value}", name(&path));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever items a history has, and in whatever order, the body keeps the rules.
    #[test]
    fn messages_any_history_makes_a_valid_body(picks in prop::collection::vec((0_usize..14, 0_usize..4), 0..24)) {
        let ids = ["toolu_1", "a b", "a_b", ""];
        let history: Vec<Item> = picks.iter().map(|(kind, id)| match kind {
            0 => user("Hi"),
            1 => user(" "),
            2 => said(Role::Developer, "Note"),
            3 | 4 => said(Role::Assistant, "Yes"),
            5 => thought(json!({"type": "thinking", "thinking": "Hm.", "signature": "s"})),
            6 => Item::Reasoning(Reasoning { summary: vec![], native: None }),
            7 | 8 => json_call(ids[*id], "{"),
            9 | 10 => answer(ids[*id]),
            11 => output(ids[*id], vec![picture("image/png")], false),
            12 => output(ids[*id], vec![], true),
            _ => Item::Message(Message { role: Role::User, content: vec![picture("image/bmp")], native: None }),
        }).collect();
        let body = ask("claude-haiku-4-5").body(&history);
        check_rules(&body, "any");
        let turns = body["messages"].as_array().unwrap();
        prop_assert!(turns.last().is_none_or(|turn| turn["role"] == "user"));
    }
}

#[test]
fn messages_documents_instead_of_streams_are_read() {
    let whole = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "text", "text": "Look.", "citations": null},
            {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 7},
    });
    let reply = decode_whole(Wire::Messages, &whole.to_string()).unwrap();
    assert_eq!(reply.items.len(), 3);
    assert_eq!((reply.usage.input, reply.usage.cached_input, reply.usage.output), (15, 5, 7));
    assert_eq!(reply.stop, StopReason::EndTurn);
    let Item::Message(text) = &reply.items[1] else { panic!("{:?}", reply.items) };
    assert_eq!(text.native, None);
    let error = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"});
    let rows = [
        (error("overloaded_error", "Overloaded"), FaultKind::Unavailable),
        (
            error("invalid_request_error", "prompt is too long: 2 tokens > 1 maximum"),
            FaultKind::ContextOverflow,
        ),
        (json!({"type": "error", "message": "no"}), FaultKind::Unavailable),
        (json!({"object": "list", "data": []}), FaultKind::Malformed),
        (json!({"type": "completion", "content": []}), FaultKind::Malformed),
        (json!({"type": "message", "content": "text"}), FaultKind::Malformed),
        (json!([]), FaultKind::Malformed),
        (json!({"type": "message", "content": [], "stop_reason": null}), FaultKind::Cut),
    ];
    for (body, kind) in rows {
        let fault = decode_whole(Wire::Messages, &body.to_string()).unwrap_err();
        assert_eq!(fault.kind, kind, "{body}");
    }
}

#[test]
fn messages_waits_until_a_used_up_limit_is_filled_again() {
    let at = |text: &str| chrono::DateTime::parse_from_rfc3339(text).unwrap().to_utc();
    let now = at("2026-11-21T12:00:00Z");
    let wait = |kind, pairs: &[(&'static str, &'static str)]| {
        let mut headers = http::HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, http::HeaderValue::from_static(value));
        }
        with_headers(Fault::new(kind, "x"), &headers, now).wait.map(|wait| wait.as_secs())
    };
    let requests = ("anthropic-ratelimit-requests-reset", "2026-11-21T12:00:30Z");
    let requests_gone = ("anthropic-ratelimit-requests-remaining", "0");
    let input = ("anthropic-ratelimit-input-tokens-reset", "2026-11-21T12:00:45+00:00");
    let input_gone = ("anthropic-ratelimit-input-tokens-remaining", "0");
    let limited = FaultKind::RateLimited;
    assert_eq!(wait(limited, &[requests, requests_gone, input, input_gone]), Some(45));
    assert_eq!(wait(limited, &[requests, requests_gone, input]), Some(30));
    assert_eq!(wait(limited, &[requests, input]), Some(30));
    assert_eq!(wait(limited, &[requests, requests_gone, ("retry-after", "7")]), Some(7));
    assert_eq!(wait(limited, &[requests, ("date", "Sat, 21 Nov 2026 12:00:20 GMT")]), Some(10));
    assert_eq!(
        wait(limited, &[("anthropic-ratelimit-requests-reset", "2026-11-21T11:00:00Z")]),
        Some(0)
    );
    assert_eq!(wait(limited, &[("anthropic-ratelimit-requests-reset", "soon")]), None);
    assert_eq!(wait(FaultKind::Unavailable, &[requests, requests_gone]), None);
}

/// What a server of this wire was sent, and how the turn ended.
async fn over_http(
    slug: &str,
    key: &str,
    version: Option<&str>,
    turns: Vec<Turn>,
) -> (Result<Reply, ProviderError>, Vec<BTreeMap<String, String>>) {
    let server = ModelServer::start(turns);
    let base = server.url();
    let base = base.strip_suffix("/v1").unwrap();
    let mut provider = HttpProvider::new(base, Some(SecretString::from(key)), client().unwrap())
        .unwrap()
        .with_policy(Policy { scale: 0.001, ..Policy::default() })
        .with_deadlines(Deadlines { idle: Duration::from_secs(20), turn: Duration::from_secs(40) });
    if let Some(version) = version {
        provider = provider.with_anthropic_version(version).unwrap();
    }
    let history = [user("Hi")];
    let outcome = provider.reply(&ask(slug).request(&history), &|_| {}).await;
    let seen = server.requests();
    assert!(seen.iter().all(|request| request.path == "/v1/messages"), "{seen:?}");
    // That server knows the rules of another API only.
    server.take_violations();
    (outcome, seen.into_iter().map(|request| request.headers).collect())
}

fn hello() -> Turn {
    let streams = fixtures(Wire::Messages);
    let path = streams.iter().find(|path| name(path) == "text").unwrap();
    raw_stream([fs_err::read(path).unwrap()])
}

#[tokio::test]
async fn messages_headers_are_what_the_api_asks_for() {
    let interleaved = "interleaved-thinking-2025-05-14";
    let oauth = "oauth-2025-04-20";
    let both = format!("{interleaved},{oauth}");
    let rows = [
        ("claude-sonnet-5", "sk-ant-api03-secret", None, "2023-06-01", None),
        ("claude-sonnet-5", "sk-ant-api03-secret", Some("2026-10-21"), "2026-10-21", None),
        ("claude-haiku-4-5", "sk-ant-api03-secret", None, "2023-06-01", Some(interleaved)),
        ("claude-sonnet-5", "sk-ant-oat01-secret", None, "2023-06-01", Some(oauth)),
        ("claude-haiku-4-5", "sk-ant-oat01-secret", None, "2023-06-01", Some(both.as_str())),
    ];
    for (slug, key, version, sent, features) in rows {
        let (outcome, headers) = over_http(slug, key, version, vec![hello()]).await;
        assert_eq!(word(&outcome), "EndTurn", "{outcome:?}");
        let of = |name: &str| headers[0].get(name).map(String::as_str);
        assert_eq!(of("anthropic-version"), Some(sent));
        assert_eq!(of("anthropic-beta"), features, "{slug} {key}");
        let bearer = format!("Bearer {key}");
        let expected =
            if key.contains("oat") { (None, Some(bearer.as_str())) } else { (Some(key), None) };
        assert_eq!((of("x-api-key"), of("authorization")), expected);
    }
    let provider = || HttpProvider::new("http://127.0.0.1:1", None, client().unwrap()).unwrap();
    for version in ["", "latest", "2026-1-1", "2026-10-21\n2"] {
        let err = provider().with_anthropic_version(version).unwrap_err().to_string();
        assert!(err.contains("ANTHROPIC_VERSION"), "{err}");
    }
}

#[tokio::test]
async fn messages_errors_are_what_they_mean() {
    let error = |status: u16, kind: &str, message: &str| {
        let body = json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"});
        fail_raw(status, body.to_string()).header("request-id", "req_1")
    };
    let invalid = |message: &str| error(400, "invalid_request_error", message);
    // Status, type and message; how the turn ends when the next answer is a good one.
    let rows = [
        (error(529, "overloaded_error", "Overloaded"), "EndTurn"),
        (error(500, "api_error", "Internal server error"), "EndTurn"),
        (error(504, "timeout_error", "Timed out"), "EndTurn"),
        (error(409, "conflict_error", "Again"), "EndTurn"),
        (error(429, "rate_limit_error", "Too fast").header("retry-after", "3"), "EndTurn"),
        (
            error(429, "rate_limit_error", "Too fast").header("x-should-retry", "false"),
            "RateLimited",
        ),
        (error(401, "authentication_error", "invalid x-api-key"), "Authentication"),
        (error(403, "permission_error", "not for you"), "Authentication"),
        (error(402, "billing_error", "pay"), "Quota"),
        (invalid("Your credit balance is too low to access the Anthropic API."), "Quota"),
        (invalid("You have reached your specified workspace API usage limits."), "Quota"),
        (invalid("prompt is too long: 210000 tokens > 200000 maximum"), "ContextOverflow"),
        (
            invalid("input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000"),
            "ContextOverflow",
        ),
        (invalid("Output blocked by content filtering policy"), "Filtered"),
        (invalid("max_tokens: Field required"), "Rejected 400"),
        (error(404, "not_found_error", "model: claude-x"), "Rejected 404"),
        (error(413, "request_too_large", "Request exceeds the maximum size"), "ContextOverflow"),
        (fail_raw(413, "<html>413 Request Entity Too Large</html>"), "ContextOverflow"),
    ];
    for (turn, ends) in rows {
        let (outcome, seen) =
            over_http("claude-sonnet-5", "sk-ant-api03-x", None, vec![turn, hello()]).await;
        assert_eq!(word(&outcome), ends, "{outcome:?}");
        assert_eq!(seen.len(), if ends == "EndTurn" { 2 } else { 1 });
    }
}
