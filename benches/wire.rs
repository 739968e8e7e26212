//! What a turn costs in CPU beside the network: the next request of a 100-turn conversation, and a
//! streamed answer of 1 MB.
//!
//! `cargo bench --bench wire` prints the mean of many runs. Targets: under 1 ms and under 10 ms.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its figures")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use patchwright_provider::catalogue::Catalogue;
use patchwright_provider::item::{
    CallOutput, Content, Item, Message, Native, OutputForm, Payload, Reasoning, Role, ToolCall,
    Wire,
};
use patchwright_provider::wire::{self, Stream};
use patchwright_provider::{Request, ToolChoice, ToolDeclaration, ToolForm};
use serde_json::{Value, json};

fn main() {
    measure("gpt-5.3-codex", "medium", &stream(1 << 20));
    measure("chat/any", "medium", &chat_stream(1 << 20));
    measure("claude-sonnet-5", "high", &messages_stream(1 << 20));
    measure("gemini-3.5-flash", "high", &gemini_stream(1 << 20));
}

fn measure(slug: &str, effort: &str, stream: &[u8]) {
    let model = Catalogue::load(&BTreeMap::new()).unwrap().resolve(slug, None).unwrap();
    let wire = model.wire;
    let mut history = conversation(100, wire);
    if wire == Wire::Gemini {
        sign_for_gemini(&mut history);
    }
    let tools = tools();
    let request = Request {
        model: &model,
        instructions: &"You fix issues in repositories. ".repeat(200),
        tools: &tools,
        history: &history,
        effort: Some(effort),
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "bench",
        previous: None,
    };
    let size = wire::encode(wire, &request).len();
    let encoding = cpu(1000, || {
        black_box(wire::encode(wire, black_box(&request)));
    });
    let word = wire::word(wire);
    println!("{word}: encode, 100 turns, {} KB: {encoding:?}", size / 1024);

    let decoding = cpu(200, || {
        let mut decoder = Stream::new(wire);
        for chunk in stream.chunks(16 << 10) {
            decoder.push(black_box(chunk), &|_| {}).unwrap();
        }
        black_box(decoder.finish(&|_| {}).unwrap());
    });
    println!("{word}: decode, stream of {} KB: {decoding:?}", stream.len() / 1024);
}

/// Calls as Gemini signs them.
fn sign_for_gemini(items: &mut [Item]) {
    for item in items {
        match item {
            Item::Call(call) => {
                let args = json!({"command": "sed -n 1,80p src/main.rs"});
                let part = json!({"functionCall": {"name": "shell_command", "args": args}, "thoughtSignature": "c".repeat(1200)});
                call.native = Some(Native { wire: Wire::Gemini, value: json!({"parts": [part]}) });
            }
            Item::Reasoning(thought) => thought.native = None,
            Item::Message(_) | Item::Output(_) | Item::Opaque(_) => {}
        }
    }
}

/// Text in chunks of Chat Completions.
fn chat_stream(bytes: usize) -> Vec<u8> {
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
    };
    let mut stream = String::new();
    while stream.len() < bytes {
        let delta = json!({"content": "fn main() {\n    println!(\"héllo\");\n}\n"});
        write!(stream, "data: {}\n\n", chunk(delta, None)).unwrap();
    }
    write!(stream, "data: {}\n\ndata: [DONE]\n\n", chunk(json!({}), Some("stop"))).unwrap();
    stream.into_bytes()
}

/// Text in chunks that are whole responses, as the API sends them.
fn gemini_stream(bytes: usize) -> Vec<u8> {
    let mut stream = String::new();
    let chunk = |text: &str, finish: Option<&str>| {
        let mut candidate =
            json!({"content": {"parts": [{"text": text}], "role": "model"}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        let usage = json!({"promptTokenCount": 1200, "candidatesTokenCount": 10, "totalTokenCount": 1210, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1200}]});
        json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"})
    };
    while stream.len() < bytes {
        let text = "fn main() {\n    println!(\"héllo\");\n}\n";
        write!(stream, "data: {}\r\n\r\n", chunk(text, None)).unwrap();
    }
    write!(stream, "data: {}\r\n\r\n", chunk("", Some("STOP"))).unwrap();
    stream.into_bytes()
}

/// Time on a processor that the work takes, on average.
fn cpu(runs: u32, mut work: impl FnMut()) -> Duration {
    work();
    let began = cpu_time();
    for _ in 0..runs {
        work();
    }
    cpu_time().saturating_sub(began) / runs
}

/// Time on a processor so far; the kernel brings it up to date every few milliseconds.
fn cpu_time() -> Duration {
    let stat = fs_err::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Turns of reasoning, a call and an output of 2 KB, as the models of this wire have them.
fn conversation(turns: usize, wire: Wire) -> Vec<Item> {
    let native = |value| Some(Native { wire, value });
    let mut items = vec![Item::Message(Message {
        role: Role::User,
        content: vec![Content::text("Fix the failing test.")],
        native: None,
    })];
    for turn in 0..turns {
        let id = format!("call_{turn}");
        items.push(Item::Reasoning(Reasoning {
            summary: vec!["**Looking at the next file**".to_owned()],
            native: native(thinking(turn, wire)),
        }));
        items.push(Item::Call(ToolCall {
            id: id.clone(),
            name: "shell_command".to_owned(),
            payload: Payload::Json(r#"{"command":"sed -n 1,80p src/main.rs"}"#.to_owned()),
            native: native(json!({"id": format!("fc_{turn}"), "status": "completed"})),
        }));
        items.push(Item::Output(CallOutput {
            id,
            name: "shell_command".to_owned(),
            content: vec![Content::text("let x = \"a\";\n\tfoo(x);\n".repeat(90))],
            success: true,
            ran: false,
            goes_on: false,
            form: OutputForm::Function,
        }));
    }
    items
}

fn thinking(turn: usize, wire: Wire) -> Value {
    let seal = "g".repeat(1200);
    if wire == Wire::Messages {
        json!({"type": "thinking", "thinking": "Looking at the next file", "signature": seal})
    } else {
        json!({"id": format!("rs_{turn}"), "encrypted_content": seal})
    }
}

fn tools() -> Vec<ToolDeclaration> {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    (0..6)
        .map(|number| ToolDeclaration {
            name: format!("tool_{number}"),
            description: "What the tool does, in a few sentences. ".repeat(10),
            form: ToolForm::Function { schema: schema.clone(), strict: false },
        })
        .collect()
}

/// Small text deltas with their padding, then the whole message and the final event.
fn stream(bytes: usize) -> Vec<u8> {
    let mut stream = String::new();
    let mut text = String::new();
    while stream.len() < bytes {
        let delta = "fn main() {\n    println!(\"héllo\");\n}\n";
        text.push_str(delta);
        let event = json!({"type": "response.output_text.delta", "sequence_number": 1, "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": delta, "logprobs": [], "obfuscation": "abcdefgh"});
        write!(stream, "event: response.output_text.delta\ndata: {event}\n\n").unwrap();
    }
    let item = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "annotations": [], "text": text}]});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let response = json!({"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [item], "usage": {"input_tokens": 1, "output_tokens": 1}});
    let completed = json!({"type": "response.completed", "response": response});
    write!(stream, "data: {done}\n\ndata: {completed}\n\n").unwrap();
    stream.into_bytes()
}

/// Small text deltas between the events that a message has.
fn messages_stream(bytes: usize) -> Vec<u8> {
    let mut stream = String::new();
    let mut send = |kind: &str, mut event: Value| {
        event["type"] = json!(kind);
        write!(stream, "event: {kind}\ndata: {event}\n\n").unwrap();
        stream.len()
    };
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let message = json!({"id": "msg_1", "model": "m", "content": [], "usage": usage});
    send("message_start", json!({"message": message}));
    send("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}}));
    let delta = json!({"type": "text_delta", "text": "fn main() {\n    println!(\"héllo\");\n}\n"});
    while send("content_block_delta", json!({"index": 0, "delta": delta})) < bytes {}
    send("content_block_stop", json!({"index": 0}));
    let end = json!({"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}});
    send("message_delta", end);
    send("message_stop", json!({}));
    stream.into_bytes()
}
