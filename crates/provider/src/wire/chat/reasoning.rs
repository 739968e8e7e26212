//! Pieces of structured reasoning that stream in, put together again: OpenRouter's
//! `reasoning_details` and LiteLLM's `thinking_blocks`. Providers check signatures over whole blocks,
//! so that a block must not go back in pieces.

use serde_json::{Map, Value};

/// Fields for thoughts as plain text.
pub(super) const PLAIN_THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];

/// The fields that grow from piece to piece.
const TEXTS: &[&str] = &["text", "summary", "thinking"];

/// Fields that say which block a piece belongs to.
const NAMES: &[&str] = &["type", "index", "id", "format"];

/// Adds a piece: to the last block when it continues that one, else as the next block. Encrypted
/// blocks come whole.
pub(super) fn join(blocks: &mut Vec<Value>, piece: Value) {
    let Value::Object(piece) = piece else { return };
    match blocks.last_mut() {
        Some(Value::Object(block)) if continues(block, &piece) => extend(block, piece),
        _ => blocks.push(Value::Object(piece)),
    }
}

fn continues(block: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let same = NAMES.iter().all(|name| match (set(block, name), set(piece, name)) {
        (Some(one), Some(other)) => one == other,
        (None, _) | (_, None) => true,
    });
    let has_text = TEXTS.iter().any(|text| block.contains_key(*text));
    // A signature ends its block; one that comes alone belongs to the text before it.
    let is_signed = set(block, "signature").is_some_and(|it| it != "");
    let is_whole = block.contains_key("data") || piece.contains_key("data");
    same && has_text && !is_signed && !is_whole
}

fn set<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn extend(block: &mut Map<String, Value>, piece: Map<String, Value>) {
    for (key, value) in piece {
        match (block.get_mut(&key), value) {
            (Some(Value::String(text)), Value::String(more)) if TEXTS.contains(&key.as_str()) => {
                text.push_str(&more);
            }
            (Some(known), Value::Null) if !known.is_null() => {}
            (_, value) => {
                block.insert(key, value);
            }
        }
    }
}
