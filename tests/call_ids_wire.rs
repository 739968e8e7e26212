//! Ids of calls, from servers that give each call the same one, count from the start with every reply,
//! or give none: every call is run, and from then on goes by an id of its own.

use patchwright_provider::catalogue::Model;
use patchwright_provider::item::{CallOutput, Content, Item, Wire};
use patchwright_provider::{Reply, Request, ToolChoice, wire};
use serde_json::{Value, json};

use crate::exec::project;
use crate::providers::{catalogue, user};
use crate::support::model::{Turn, fail, raw_stream, say};
use crate::support::world::{KEY, TestWorld};
use crate::wires::{decode, fixtures, name};

/// A reply with these calls of the shell: ids, and commands.
fn stream(wire: Wire, calls: &[(&str, &str)]) -> String {
    let written = |command: &str| json!({"command": command}).to_string();
    let events: Vec<Value> = match wire {
        Wire::Responses => {
            let items = calls.iter().enumerate().map(|(at, (id, command))| {
                json!({"type": "response.output_item.done", "output_index": at, "item": {
                    "type": "function_call", "status": "completed", "call_id": id,
                    "name": "shell_command", "arguments": written(command),
                }})
            });
            let end = json!({"type": "response.completed", "response": {
                "id": "resp_x", "object": "response", "status": "completed", "output": [],
                "model": "gpt-5.3-codex", "usage": {"input_tokens": 10, "output_tokens": 5},
            }});
            items.chain([end]).collect()
        }
        Wire::Chat => {
            let calls = calls.iter().enumerate().map(|(at, (id, command))| {
                json!({"index": at, "id": id, "type": "function", "function": {
                    "name": "shell_command", "arguments": written(command),
                }})
            });
            vec![json!({
                "id": "x", "object": "chat.completion.chunk", "model": "some-model",
                "choices": [{
                    "index": 0, "delta": {"role": "assistant", "tool_calls": calls.collect::<Vec<_>>()},
                    "finish_reason": "tool_calls",
                }],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5},
            })]
        }
        Wire::Messages => {
            let begin = json!({"type": "message_start", "message": {
                "id": "msg_x", "type": "message", "role": "assistant", "content": [],
                "model": "claude-sonnet-5", "usage": {"input_tokens": 10, "output_tokens": 1},
            }});
            let blocks = calls.iter().enumerate().flat_map(|(at, (id, command))| {
                [
                    json!({"type": "content_block_start", "index": at, "content_block": {
                        "type": "tool_use", "id": id, "name": "shell_command", "input": {},
                    }}),
                    json!({"type": "content_block_delta", "index": at, "delta": {
                        "type": "input_json_delta", "partial_json": written(command),
                    }}),
                    json!({"type": "content_block_stop", "index": at}),
                ]
            });
            let end = [
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}),
                json!({"type": "message_stop"}),
            ];
            [begin].into_iter().chain(blocks).chain(end).collect()
        }
        Wire::Gemini => panic!("its ids are ours, see `gemini_wire`"),
    };
    let event = |event: &Value| match event["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    events.iter().map(event).collect()
}

fn turn(wire: Wire, calls: &[(&str, &str)]) -> Turn {
    raw_stream([stream(wire, calls)])
}

/// The ids of calls and of answers in a request, each in their order.
fn ids(wire: Wire, body: &Value) -> (Vec<String>, Vec<String>) {
    fn collect(
        value: &Value,
        is_call: &dyn Fn(&Value) -> bool,
        key: &str,
        found: &mut Vec<String>,
    ) {
        match value {
            Value::Array(values) => values.iter().for_each(|it| collect(it, is_call, key, found)),
            Value::Object(fields) => {
                if is_call(value) {
                    found.push(value[key].as_str().unwrap().to_owned());
                }
                fields.values().for_each(|it| collect(it, is_call, key, found));
            }
            _ => {}
        }
    }
    let kind = |value: &Value| value["type"].as_str().unwrap_or_default().to_owned();
    let (mut calls, mut answers) = (Vec::new(), Vec::new());
    match wire {
        Wire::Responses => {
            collect(body, &|it| kind(it).ends_with("_call"), "call_id", &mut calls);
            collect(body, &|it| kind(it).ends_with("_call_output"), "call_id", &mut answers);
        }
        Wire::Chat => {
            let is_call = |it: &Value| kind(it) == "function" && it["id"].is_string();
            collect(body, &is_call, "id", &mut calls);
            collect(body, &|it| it["role"] == "tool", "tool_call_id", &mut answers);
        }
        Wire::Messages => {
            collect(body, &|it| kind(it) == "tool_use", "id", &mut calls);
            collect(body, &|it| kind(it) == "tool_result", "tool_use_id", &mut answers);
        }
        Wire::Gemini => panic!("its ids are ours, see `gemini_wire`"),
    }
    (calls, answers)
}

#[track_caller]
fn are_told_apart(wire: Wire, body: &Value, count: usize) {
    let (mut calls, answers) = ids(wire, body);
    assert_eq!((calls.len(), &calls), (count, &answers), "{wire:?}");
    assert!(calls.iter().all(|id| !id.is_empty()), "{wire:?}: {calls:?}");
    calls.sort();
    calls.dedup();
    assert_eq!(calls.len(), count, "{wire:?}: {calls:?}");
}

/// A whole run, interrupted once, and its replay.
fn runs_all(wire: Wire, model: &str) {
    let world = TestWorld::local([
        turn(wire, &[("call_0", "echo one; echo 1 > one.txt")]),
        turn(wire, &[("call_0", "echo two; echo 2 > two.txt")]),
        fail(401, "invalid_api_key", "no such key"),
    ]);
    let root = world.model.root();
    let world = world
        .set("PATCHWRIGHT_MODEL", model)
        .set("ANTHROPIC_BASE_URL", root)
        .set("ANTHROPIC_API_KEY", KEY);
    project(&world);
    fs_err::write(world.path("config.yml"), "verify: ['true']\n").unwrap();
    let command = ["exec", "Count", "--repo", "project", "--config", "config.yml", "--out", "out"];
    world.run(&command).expect(50);
    world.model.add([
        turn(
            wire,
            &[
                ("call_0", "echo three; echo 3 > three.txt"),
                ("call_0", "echo four; cat one.txt two.txt three.txt"),
            ],
        ),
        turn(wire, &[("", "echo five; echo 5 > five.txt")]),
        say("All there."),
    ]);
    world.run(&command).expect(0);
    let asked = world.model.requests();
    assert_eq!(asked.len(), 6);
    let body = &asked[5].body;
    are_told_apart(wire, body, 5);
    // What the first process wrote was done again in the second one's sandbox.
    let said = body.to_string();
    for word in ["one", "two", "three", "four\\n1\\n2\\n3", "five"] {
        assert!(said.contains(&format!("\\n{word}")), "{wire:?}: no answer `{word}` in {said}");
    }
    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
    for file in ["one", "two", "three", "five"] {
        assert!(patch.contains(&format!("+++ b/{file}.txt")), "{wire:?}: {patch}");
    }
    let output = world.run(&["replay", "out"]).expect(0);
    assert!(output.stdout.starts_with("same tree after 5 turns"), "{}", output.text());
}

#[test]
fn calls_of_one_id_are_all_run_and_told_apart() {
    runs_all(Wire::Responses, "gpt-5.3-codex");
    runs_all(Wire::Chat, "chat/some-model");
    runs_all(Wire::Messages, "claude-sonnet-5");
}

fn model(wire: Wire) -> Model {
    let name = match wire {
        Wire::Responses => "gpt-5.3-codex",
        Wire::Chat => "chat/some-model",
        Wire::Messages => "claude-sonnet-5",
        Wire::Gemini => "gemini-3.5-flash",
    };
    catalogue().resolve(name, None).unwrap()
}

/// The reply as a provider hands it over behind this history.
fn settled(wire: Wire, stream: &[u8], history: &[Item]) -> Reply {
    let mut reply = decode(wire, &[stream]).outcome.unwrap();
    wire::settle(wire, &mut reply, history);
    reply
}

fn take(history: &mut Vec<Item>, reply: &Reply) {
    history.extend(reply.items.iter().cloned());
    for item in &reply.items {
        if let Item::Call(call) = item {
            history.push(Item::Output(CallOutput {
                id: call.id.clone(),
                name: call.name.clone(),
                content: vec![Content::text("done")],
                success: true,
                ran: false,
                goes_on: false,
                form: call.output_form(),
            }));
        }
    }
}

fn body(wire: Wire, history: &[Item]) -> Value {
    let model = model(wire);
    let request = Request {
        model: &model,
        instructions: "You fix issues.",
        tools: &[],
        history,
        effort: None,
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "run-1",
        previous: None,
    };
    serde_json::from_slice(&wire::encode(wire, &request)).unwrap()
}

#[test]
fn ids_are_new_in_the_conversation_on_every_wire() {
    for wire in [Wire::Responses, Wire::Chat, Wire::Messages] {
        let fixture = |wanted: &str| {
            let path = fixtures(wire).into_iter().find(|path| name(path) == wanted);
            path.map(|path| fs_err::read(path).unwrap())
        };
        let same = fixture("calls_with_one_id").unwrap();
        let mut history = vec![user("Hi")];
        for _ in 0..2 {
            let reply = settled(wire, &same, &history);
            // What the provider has stored has other ids, so it is not named.
            assert_eq!(reply.id.is_none(), wire == Wire::Responses);
            take(&mut history, &reply);
        }
        let anonymous = fixture("call_without_id");
        let count = 4 + usize::from(anonymous.is_some());
        if let Some(anonymous) = anonymous {
            let reply = settled(wire, &anonymous, &history);
            take(&mut history, &reply);
        }
        are_told_apart(wire, &body(wire, &history), count);
        // What is already fine stays as it is, and a stored reply keeps its name.
        let fine = stream(wire, &[("call_9", "ls"), ("call_10", "pwd")]);
        let reply = settled(wire, fine.as_bytes(), &history);
        assert!(reply.id.is_some());
        take(&mut history, &reply);
        let (calls, _) = ids(wire, &body(wire, &history));
        assert_eq!(calls[count..], ["call_9", "call_10"], "{wire:?}");
    }
}

/// Items of tools that the provider defines are sent back as they came, but for the id.
#[test]
fn items_of_provider_defined_tools_go_back_under_their_new_ids() {
    let item = |at: usize, item: &Value| {
        format!(
            "data: {}\n\n",
            json!({"type": "response.output_item.done", "output_index": at, "item": item})
        )
    };
    let items = [
        json!({"type": "shell_call", "id": "sh_1", "call_id": "c", "status": "completed", "action": {"commands": ["ls"]}}),
        json!({"type": "shell_call", "id": "sh_2", "call_id": "c", "status": "completed", "action": {"commands": ["pwd"]}}),
        json!({"type": "apply_patch_call", "id": "ap_1", "call_id": "c", "status": "completed", "operation": {"type": "delete_file", "path": "a"}}),
        json!({"type": "local_shell_call", "id": "ls_1", "call_id": "c", "status": "completed", "action": {"type": "exec", "command": ["ls"], "env": {}}}),
        json!({"type": "mcp_approval_request", "id": "c", "server_label": "s", "name": "n", "arguments": "{}"}),
    ];
    let mut stream: String = items.iter().enumerate().map(|(at, it)| item(at, it)).collect();
    let end = json!({"type": "response.completed", "response": {"id": "r", "status": "completed"}});
    stream.push_str(&format!("data: {end}\n\n"));
    let mut history = vec![user("Hi")];
    let reply = settled(Wire::Responses, stream.as_bytes(), &history);
    take(&mut history, &reply);
    let body = body(Wire::Responses, &history);
    let input = body["input"].as_array().unwrap();
    let sent = &input[1..=items.len()];
    for (at, (sent, received)) in sent.iter().zip(&items).enumerate() {
        let key = if received["type"] == "mcp_approval_request" { "id" } else { "call_id" };
        let expected = if at == 0 { "c".to_owned() } else { format!("c_{}", at + 1) };
        let mut renamed = received.clone();
        renamed[key] = json!(expected);
        assert_eq!(*sent, renamed);
        let answer = &input[1 + items.len() + at];
        let answers = if key == "id" { "approval_request_id" } else { "call_id" };
        assert_eq!(answer[answers], json!(expected), "{answer}");
    }
}
