//! The Responses wire beyond the plain turn: every call and its answer, pictures, stored replies.

use std::collections::BTreeMap;

use patchwright_provider::catalogue::{Catalogue, Fields, Model};
use patchwright_provider::item::{CallOutput, Content, Item, OutputForm, ToolCall, Wire};
use patchwright_provider::{
    Previous, Provider, Reply, Request, ToolChoice, ToolDeclaration, ToolForm, wire,
};
use serde_json::{Value, json};

use crate::exec::project;
use crate::providers::{provider, user};
use crate::support::model::{ModelServer, fail, say};
use crate::support::world::{TestWorld, fix};
use crate::wires::{decode, fixtures, name};

fn model(fields: Fields) -> Model {
    let overrides = BTreeMap::from([("gpt-5.3-codex".to_owned(), fields)]);
    Catalogue::load(&overrides).unwrap().resolve("gpt-5.3-codex", None).unwrap()
}

fn stateful() -> Model {
    model(Fields { stateful: Some(true), ..Fields::default() })
}

fn body(
    model: &Model,
    tools: &[ToolDeclaration],
    history: &[Item],
    previous: Option<Previous<'_>>,
) -> Value {
    let request = Request {
        model,
        instructions: "You fix issues.",
        tools,
        history,
        effort: None,
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "run-1",
        previous,
    };
    serde_json::from_slice(&wire::encode(Wire::Responses, &request)).unwrap()
}

fn reply(fixture: &str) -> Reply {
    let path = fixtures(Wire::Responses).into_iter().find(|path| name(path) == fixture).unwrap();
    decode(Wire::Responses, &[&fs_err::read(path).unwrap()]).outcome.unwrap()
}

/// The reply, and an answer to each of its calls.
fn answered(reply: &Reply, content: &[Content]) -> Vec<Item> {
    let calls = reply.items.iter().filter_map(|item| match item {
        Item::Call(call) => Some(Item::Output(CallOutput {
            id: call.id.clone(),
            name: call.name.clone(),
            content: content.to_vec(),
            success: false,
            ran: false,
            goes_on: false,
            form: call.output_form(),
        })),
        _ => None,
    });
    reply.items.iter().cloned().chain(calls).collect()
}

#[test]
fn every_call_goes_back_as_it_came_and_has_an_answer_of_its_own_kind() {
    let reply = reply("calls_for_answers_of_every_kind");
    let history = answered(&reply, &[Content::text("no")]);
    let body = body(&model(Fields::default()), &[], &history, None);
    let input = body["input"].as_array().unwrap();
    let kinds: Vec<&str> = input.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "reasoning",
            "computer_call",
            "mcp_approval_request",
            "tool_search_call",
            "tool_search_call",
            "tool_search_output",
            "program",
            "function_call",
            "computer_call_output",
            "message",
            "mcp_approval_response",
            "tool_search_output",
            "function_call_output",
        ]
    );
    let checks = json!([{"id": "cu_sc_1", "code": "malicious_instructions", "message": "Careful"}]);
    assert_eq!(input[1]["pending_safety_checks"], checks);
    assert_eq!(
        input[2],
        json!({"id": "mcpr_1", "type": "mcp_approval_request", "server_label": "docs", "name": "delete_all", "arguments": "{\"sure\":true}"})
    );
    assert_eq!(input[7]["caller"], json!({"type": "program", "caller_id": "call_p"}));
    assert_eq!(input[7]["namespace"], "crm");
    assert_eq!(input[8]["call_id"], "call_cu");
    assert_eq!(input[8]["acknowledged_safety_checks"], checks);
    assert_eq!(input[8]["output"]["type"], "computer_screenshot");
    let url = input[8]["output"]["image_url"].as_str().unwrap();
    assert!(url.starts_with("data:image/png;base64,iVBOR"), "{url}");
    assert_eq!(
        input[9],
        json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "no"}]})
    );
    assert_eq!(
        input[10],
        json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": false, "reason": "no"})
    );
    assert_eq!(
        input[11],
        json!({"type": "tool_search_output", "call_id": "call_ts", "execution": "client", "status": "completed", "tools": []})
    );
    assert_eq!(
        input[12],
        json!({"type": "function_call_output", "call_id": "call_f", "output": "no", "caller": {"type": "program", "caller_id": "call_p"}})
    );
}

#[test]
fn a_tool_search_answers_with_the_declarations_it_found() {
    let found = json!([{"type": "function", "name": "deploy", "parameters": {"type": "object"}}]);
    let output = Item::Output(CallOutput {
        id: "call_ts".to_owned(),
        name: "tool_search".to_owned(),
        content: vec![Content::text(found.to_string())],
        success: true,
        ran: false,
        goes_on: false,
        form: OutputForm::ToolSearch,
    });
    let body = body(&model(Fields::default()), &[], &[output], None);
    assert_eq!(body["input"][0]["tools"], found);
}

#[test]
fn what_a_script_shows_is_a_list_however_short() {
    let head = "Script completed\nWall time 0.1 seconds\nOutput:\n";
    let output = |name: &str, content: &[&str], form| {
        Item::Output(CallOutput {
            id: format!("call_{name}"),
            name: name.to_owned(),
            content: content.iter().map(|text| Content::text(*text)).collect(),
            success: true,
            ran: false,
            goes_on: false,
            form,
        })
    };
    let history = [
        output("exec", &[head], OutputForm::Custom),
        output("exec", &[head, "shown"], OutputForm::Custom),
        output("wait", &[head], OutputForm::Function),
        output("update_plan", &[head], OutputForm::Function),
    ];
    let part = |text: &str| json!({"type": "input_text", "text": text});
    let newest = Catalogue::load(&BTreeMap::new()).unwrap().resolve("gpt-6.1-sol", None).unwrap();
    let sent = body(&newest, &[], &history, None);
    let outputs: Vec<&Value> =
        sent["input"].as_array().unwrap().iter().map(|item| &item["output"]).collect();
    let alone = json!([part(head)]);
    assert_eq!(outputs, [&alone, &json!([part(head), part("shown")]), &alone, &json!(head)]);
    // Others have tools of these names too, and no scripts.
    let sent = body(&model(Fields::default()), &[], &history[2..3], None);
    assert_eq!(sent["input"][0]["output"], head);
}

#[test]
fn strict_functions_and_parallel_calls_are_never_asked_for_together() {
    let tool = |strict: bool| ToolDeclaration {
        name: "list_dir".to_owned(),
        description: "Lists a folder".to_owned(),
        form: ToolForm::Function { schema: json!({"type": "object"}), strict },
    };
    for (strict, parallel) in [(false, true), (true, false)] {
        let tools = [tool(false), tool(strict)];
        let sent = body(&model(Fields::default()), &tools, &[user("Hi")], None);
        assert_eq!(sent["parallel_tool_calls"], json!(parallel));
    }
    // Of the catalogue, none asks for both.
    let catalogue = Catalogue::load(&BTreeMap::new()).unwrap();
    for slug in catalogue.slugs() {
        let model = catalogue.resolve(slug, None).unwrap();
        assert!(!(model.strict && model.parallel_calls), "{slug}");
    }
}

#[test]
fn a_local_shell_call_keeps_its_environment() {
    let item = json!({"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "status": "completed", "action": {
        "type": "exec", "command": ["make"], "env": {"FOO": "bar"}, "working_directory": "src",
    }});
    let end = json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item]}});
    let stream = format!("data: {end}\n\n");
    let reply = decode(Wire::Responses, &[stream.as_bytes()]).outcome.unwrap();
    let [Item::Call(call)] = reply.items.as_slice() else { panic!("{reply:?}") };
    let args: Value = serde_json::from_str(call.payload.as_str()).unwrap();
    assert_eq!(args, json!({"command": ["make"], "workdir": "src", "env": {"FOO": "bar"}}));
    // On its own wire as it came; from elsewhere it is built of the arguments.
    for native in [call.native.clone(), None] {
        let call = Item::Call(ToolCall { native, ..call.clone() });
        let sent = body(&model(Fields::default()), &[], &[call], None);
        assert_eq!(sent["input"][0]["action"]["env"], json!({"FOO": "bar"}));
    }
}

#[test]
fn items_of_hosted_tools_go_back_untouched_and_in_place() {
    let path = fixtures(Wire::Responses)
        .into_iter()
        .find(|path| name(path) == "hosted_items_of_every_kind")
        .unwrap();
    let text = fs_err::read_to_string(path).unwrap();
    let sent: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| event["item"].clone())
        .collect();
    let back =
        body(&model(Fields::default()), &[], &reply("hosted_items_of_every_kind").items, None);
    assert_eq!(back["input"], Value::Array(sent));
}

#[test]
fn models_without_eyes_are_told_that_there_was_a_picture() {
    let picture = Content::Image { media_type: "image/png".to_owned(), data: "iVBO".to_owned() };
    let output = |form| {
        Item::Output(CallOutput {
            id: "call_1".to_owned(),
            name: "view_image".to_owned(),
            content: vec![Content::text("see"), picture.clone()],
            success: true,
            ran: false,
            goes_on: false,
            form,
        })
    };
    let blind = model(Fields { images: Some(false), ..Fields::default() });
    let note = "[a picture, image/png, about 3 bytes: this model cannot be shown pictures]";
    for form in [OutputForm::Function, OutputForm::Custom] {
        let body = body(&blind, &[], &[output(form)], None);
        assert_eq!(
            body["input"][0]["output"],
            json!([{"type": "input_text", "text": "see"}, {"type": "input_text", "text": note}])
        );
    }
}

#[test]
fn what_the_server_would_forget_is_asked_for() {
    let hosted = |kind: &str| ToolDeclaration {
        name: kind.to_owned(),
        description: String::new(),
        form: ToolForm::Native { value: json!({"type": kind}) },
    };
    let tools = ["web_search", "file_search", "code_interpreter"].map(hosted);
    let body = body(&model(Fields::default()), &tools, &[], None);
    assert_eq!(
        body["include"],
        json!([
            "reasoning.encrypted_content",
            "file_search_call.results",
            "code_interpreter_call.outputs"
        ])
    );
    assert_eq!(body["tools"][0], json!({"type": "web_search"}));
}

#[test]
fn stored_replies_are_named_and_only_what_is_new_is_sent() {
    let history = [user("one"), user("two"), user("three")];
    let previous = Some(Previous { id: "resp_1", known: 2 });
    let sent = body(&stateful(), &[], &history, previous);
    assert_eq!((&sent["store"], &sent["previous_response_id"]), (&json!(true), &json!("resp_1")));
    assert_eq!(sent["input"].as_array().unwrap().len(), 1);
    assert_eq!(sent["input"][0]["content"][0]["text"], "three");
    // A history that was put together anew is shorter than what was known.
    let shorter = body(&stateful(), &[], &history[..1], previous);
    assert!(shorter.get("previous_response_id").is_none());
    assert_eq!(shorter["input"].as_array().unwrap().len(), 1);
    // Other models are always told everything.
    let stateless = body(&model(Fields::default()), &[], &history, previous);
    assert_eq!(stateless["store"], false);
    assert!(stateless.get("previous_response_id").is_none());
    assert_eq!(stateless["input"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_stored_reply_that_is_gone_is_replaced_by_the_whole_conversation_once() {
    // The server knows of no such reply; in the end it does not even know what it is about.
    let gone = fail(400, "previous_response_not_found", "Previous response not found.");
    let server = ModelServer::start([say("Hello"), gone]).allow_stored();
    let (provider, model) = (provider(&server.url()), stateful());
    let history = [user("one"), user("two")];
    let request = Request {
        model: &model,
        instructions: "Be brief.",
        tools: &[],
        history: &history,
        effort: None,
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "run-1",
        previous: Some(Previous { id: "resp_9", known: 1 }),
    };
    provider.reply(&request, &|_| {}).await.unwrap();
    let asked = server.requests();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].body["previous_response_id"], "resp_9");
    assert_eq!(asked[0].body["input"].as_array().unwrap().len(), 1);
    assert!(asked[1].body.get("previous_response_id").is_none());
    assert_eq!(asked[1].body["input"].as_array().unwrap().len(), 2);
    // Never more than once.
    let err = provider.reply(&request, &|_| {}).await.unwrap_err().to_string();
    assert!(err.contains("not found"), "{err}");
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn a_stateful_run_names_each_reply_and_goes_on_after_a_failure() {
    let mut turns: Vec<_> = fix().into_iter().take(2).collect();
    turns.push(fail(401, "invalid_api_key", "no such key"));
    let mut world = TestWorld::local(turns);
    world.model = world.model.allow_stored();
    project(&world);
    fs_err::write(world.path("config.yml"), "stateful: true\n").unwrap();
    let command =
        ["exec", "Make add add", "--repo", "project", "--config", "config.yml", "--out", "out"];
    world.run(&command).expect(50);
    world.model.add(fix().into_iter().skip(2));
    world.run(&command).expect(0);
    let asked = world.model.requests();
    assert_eq!(asked.len(), 6);
    let last = |at: usize| asked[at].body["previous_response_id"].as_str();
    // Request 3 failed; the resumed run names the same reply again.
    let named: Vec<Option<&str>> = (0..6).map(last).collect();
    let expected =
        [None, Some("resp_1"), Some("resp_2"), Some("resp_2"), Some("resp_4"), Some("resp_5")];
    assert_eq!(named, expected);
    for request in &asked[1..] {
        assert_eq!(request.body["store"], true);
        let input = request.body["input"].as_array().unwrap();
        let is_new = |item: &Value| {
            item["type"].as_str().is_some_and(|kind| kind.ends_with("_output"))
                // A resumed run says what is gone.
                || item["role"] == "developer"
        };
        assert!(!input.is_empty() && input.iter().all(is_new), "{input:?}");
    }
}
