//! Outputs of provider-defined tools in the provider's own shapes.
//!
//! Called by [`super::input`] alone.

use serde_json::{Value, json};

use crate::item::{CallOutput, Content};

/// One white pixel. A computer call can be answered by a picture only, and there is no screen.
const NO_SCREEN: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg==";

/// The chunks of a hosted shell's output: as the tool made them, or one chunk around its text.
pub(super) fn shell(answer: &CallOutput) -> Value {
    let text = Content::texts(&answer.content);
    if let Ok(Value::Array(chunks)) = serde_json::from_str(&text)
        && !chunks.is_empty()
        && chunks.iter().all(is_chunk)
    {
        return Value::Array(chunks);
    }
    let exit_code = i32::from(!answer.success);
    json!([{"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": exit_code}}])
}

fn is_chunk(chunk: &Value) -> bool {
    let text = |key: &str| chunk.get(key).is_some_and(Value::is_string);
    text("stdout") && text("stderr") && chunk.get("outcome").is_some_and(Value::is_object)
}

/// The first picture of an output, as a screenshot.
pub(super) fn screenshot(content: &[Content]) -> Value {
    let picture = content.iter().find_map(|part| match part {
        Content::Image { media_type, data } => Some(format!("data:{media_type};base64,{data}")),
        Content::Text { .. } | Content::Refusal { .. } => None,
    });
    let url = picture.unwrap_or_else(|| NO_SCREEN.to_owned());
    json!({"type": "computer_screenshot", "image_url": url})
}

/// The declarations that a tool search found; none when its output is only words.
pub(super) fn tools(text: &str) -> Value {
    let is_tool = |tool: &Value| tool.get("type").is_some_and(Value::is_string);
    match serde_json::from_str(text) {
        Ok(Value::Array(tools)) if tools.iter().all(is_tool) => Value::Array(tools),
        _ => json!([]),
    }
}
