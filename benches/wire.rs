//! What a turn costs in CPU beside the network: the next request of a 100-turn conversation, and a
//! streamed answer of 1 MB.
//!
//! `cargo bench --bench wire` prints the median of many runs. Targets: under 1 ms and under 10 ms.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its figures")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use patchwright::provider::catalogue::Catalogue;
use patchwright::provider::item::{
    CallOutput, Content, Item, Message, Native, OutputForm, Payload, Reasoning, Role, ToolCall,
    Wire,
};
use patchwright::provider::wire::{self, Stream};
use patchwright::provider::{Request, ToolChoice, ToolDeclaration, ToolForm};
use serde_json::json;

fn main() {
    let history = conversation(100);
    let model = Catalogue::load(&BTreeMap::new()).unwrap().resolve("gpt-5.3-codex", None).unwrap();
    let tools = tools();
    let request = Request {
        model: &model,
        instructions: &"You fix issues in repositories. ".repeat(200),
        tools: &tools,
        history: &history,
        effort: Some("medium"),
        tool_choice: ToolChoice::Auto,
        cache_key: "bench",
    };
    let size = wire::encode(Wire::Responses, &request).unwrap().len();
    let encoding = median(200, || {
        black_box(wire::encode(Wire::Responses, black_box(&request)));
    });
    println!("encode, 100 turns, {} KB: {encoding:?}", size / 1024);

    let stream = stream(1 << 20);
    let decoding = median(50, || {
        let mut decoder = Stream::new(Wire::Responses).unwrap();
        for chunk in stream.chunks(16 << 10) {
            decoder.push(black_box(chunk), &|_| {}).unwrap();
        }
        black_box(decoder.finish(&|_| {}).unwrap());
    });
    println!("decode, stream of {} KB: {decoding:?}", stream.len() / 1024);
    gemini(&request);
}

/// The same on the Gemini wire.
fn gemini(request: &Request<'_>) {
    let model = Catalogue::load(&BTreeMap::new()).unwrap().resolve("gemini-3.5-flash", None);
    let history = gemini_conversation(100);
    let request = Request { model: &model.unwrap(), history: &history, ..request.clone() };
    let size = wire::encode(Wire::Gemini, &request).unwrap().len();
    let encoding = median(200, || {
        black_box(wire::encode(Wire::Gemini, black_box(&request)));
    });
    println!("gemini: encode, 100 turns, {} KB: {encoding:?}", size / 1024);

    let stream = gemini_stream(1 << 20);
    let decoding = median(50, || {
        let mut decoder = Stream::new(Wire::Gemini).unwrap();
        for chunk in stream.chunks(16 << 10) {
            decoder.push(black_box(chunk), &|_| {}).unwrap();
        }
        black_box(decoder.finish(&|_| {}).unwrap());
    });
    println!("gemini: decode, stream of {} KB: {decoding:?}", stream.len() / 1024);
}

/// The same turns with calls as Gemini signs them.
fn gemini_conversation(turns: usize) -> Vec<Item> {
    let mut items = conversation(turns);
    for item in &mut items {
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
    items
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

fn median(runs: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let began = Instant::now();
            work();
            began.elapsed()
        })
        .collect();
    times.sort();
    times[runs / 2]
}

/// Turns of reasoning, a call and an output of 2 KB, as codex models have them.
fn conversation(turns: usize) -> Vec<Item> {
    let native = |value| Some(Native { wire: Wire::Responses, value });
    let mut items = vec![Item::Message(Message {
        role: Role::User,
        content: vec![Content::text("Fix the failing test.")],
        native: None,
    })];
    for turn in 0..turns {
        let id = format!("call_{turn}");
        items.push(Item::Reasoning(Reasoning {
            summary: vec!["**Looking at the next file**".to_owned()],
            native: native(
                json!({"id": format!("rs_{turn}"), "encrypted_content": "g".repeat(1200)}),
            ),
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
            form: OutputForm::Function,
        }));
    }
    items
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
