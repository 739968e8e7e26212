//! What must hold for every stream of bytes, on every wire:
//!
//! - decoding ends, without a panic, in a reply or in a typed fault;
//! - where the bytes are cut makes no difference;
//! - a reply is bounded, and can be sent back: the request that has it in its history is JSON.

use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::item::{CallOutput, Content, Item, Message, Role, Wire};
use patchwright_provider::wire::fault::Fault;
use patchwright_provider::wire::{self, MAX_ITEMS, Stream};
use patchwright_provider::{Reply, Request, ToolChoice};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Checks all of it for one input.
pub fn check(wire: Wire, data: &[u8]) {
    let whole = decode(wire, [data]);
    assert_eq!(decode(wire, pieces(data)), whole, "the cuts made a difference");
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(reply) = wire::decode_whole(wire, text)
    {
        goes_back(wire, reply);
    }
    if let Ok(reply) = whole {
        goes_back(wire, reply);
    }
}

fn decode<'a>(wire: Wire, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Reply, Fault> {
    let mut stream = Stream::new(wire);
    for piece in pieces {
        stream.push(piece, &|_| {})?;
    }
    stream.finish(&|_| {})
}

/// The bytes in pieces of 0 to 7, which lengths follows from the bytes themselves.
fn pieces(mut data: &[u8]) -> Vec<&[u8]> {
    let mut state = data.iter().take(64).fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut pieces = Vec::new();
    while !data.is_empty() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let length = usize::try_from(state >> 61).unwrap_or(1).min(data.len());
        let (piece, rest) = data.split_at(length);
        pieces.push(piece);
        data = rest;
    }
    pieces
}

/// The next request after this reply, its calls answered.
fn goes_back(wire: Wire, reply: Reply) {
    static MODELS: LazyLock<Vec<Model>> = LazyLock::new(|| {
        let catalogue = Catalogue::load(&BTreeMap::new()).expect("the catalogue is built in");
        let names = ["gpt-5.3-codex", "chat/any", "claude-sonnet-5", "gemini-3.5-flash"];
        let model = |name: &&str| catalogue.resolve(name, None).expect("a known model");
        names.iter().map(model).collect()
    });
    assert!(reply.items.len() <= MAX_ITEMS, "{} items", reply.items.len());
    let outputs = reply.items.iter().filter_map(|item| match item {
        Item::Call(call) => Some(Item::Output(CallOutput {
            id: call.id.clone(),
            name: call.name.clone(),
            content: vec![Content::text("done")],
            success: true,
            ran: false,
            goes_on: false,
            form: call.output_form(),
        })),
        _ => None,
    });
    let outputs: Vec<Item> = outputs.collect();
    let content = vec![Content::text("Go.")];
    let opening = Item::Message(Message { role: Role::User, content, native: None });
    let mut history = vec![opening];
    history.extend(reply.items);
    history.extend(outputs);
    // A reply may be sent back on another wire than its own: a run can be resumed with another model.
    for model in MODELS.iter() {
        let request = Request {
            model,
            instructions: "",
            tools: &[],
            history: &history,
            effort: None,
            tool_choice: ToolChoice::Auto,
            output: None,
            has_alternative: false,
            cache_key: "",
            previous: None,
        };
        let body = wire::encode(model.wire, &request);
        let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&body);
        assert!(parsed.is_ok_and(|body| body.is_object()), "not JSON, from {wire:?}");
    }
}
