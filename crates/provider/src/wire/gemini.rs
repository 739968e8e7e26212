//! Gemini `generateContent`, `POST /v1beta/models/MODEL:streamGenerateContent?alt=sse`.
//!
//! Shapes are those of Google's API reference and SDK types. Field names are written in `camelCase`
//! and read in `snake_case` too, because proxies send both. What the model said goes back part by part
//! as it came: a `thoughtSignature` is only valid on the very part that brought it.

mod contents;
mod decode;
mod encode;
mod errors;
mod partial;
mod parts;
mod plain;

use serde_json::Value;

pub use self::decode::{Decoder, decode_whole};
pub use self::encode::encode;
pub use self::errors::{error_fault, fault as object_fault, is_googles};

/// A field by its name in JSON and in protocol buffers.
type Name = (&'static str, &'static str);

const FUNCTION_CALL: Name = ("functionCall", "function_call");
const SIGNATURE: Name = ("thoughtSignature", "thought_signature");

/// The field under either name; `null` is as good as absent.
fn field(value: &Value, (camel, snake): Name) -> Option<&Value> {
    let found = value.get(camel).or_else(|| value.get(snake));
    found.filter(|value| !value.is_null())
}

/// The field, taken out of its place.
fn taken(value: &mut Value, (camel, snake): Name) -> Option<Value> {
    let name = if value.get(camel).is_some() { camel } else { snake };
    value.get_mut(name).map(Value::take).filter(|value| !value.is_null())
}

/// The field as text, where it is a text that is not empty.
fn text_field(value: &Value, name: Name) -> Option<&str> {
    field(value, name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Arguments of a call as the object that the API wants, whatever was written.
fn object_of(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        _ if arguments.trim().is_empty() => serde_json::json!({}),
        _ => serde_json::json!({"input": arguments}),
    }
}
