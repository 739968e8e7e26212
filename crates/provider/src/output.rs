//! Schemas of results, as providers take them: which ones a provider can bind a reply to.
//!
//! Sources: `OpenAI`'s guide to structured outputs and Anthropic's on the same, which differ in what they take.
//! What is decided here is what both take. Pure.

use serde_json::Value;

use super::catalogue::{Model, StructuredOutput};
use super::item::Wire;

/// The keywords that both providers take and keep to.
const PLAIN: &[&str] = &[
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "title",
    "description",
    "$ref",
    "$defs",
    "definitions",
];

/// Levels of a schema that both take.
const MAX_DEPTH: usize = 10;

impl Model {
    /// How this model is asked for a result by this schema.
    pub fn output_mode(&self, schema: &Value) -> StructuredOutput {
        match self.structured_output() {
            // Anthropic refuses what it cannot keep to, where others take it as a wish.
            StructuredOutput::Schema if self.wire == Wire::Messages && !is_plain(schema) => {
                StructuredOutput::Tool
            }
            mode => mode,
        }
    }
}

/// Providers can bind a reply to this schema to the letter: only their keywords, and every object with all of
/// its properties required and no others.
pub fn is_plain(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object") && is_plain_below(schema, MAX_DEPTH)
}

fn is_plain_below(schema: &Value, left: usize) -> bool {
    let Value::Object(fields) = schema else { return false };
    if left == 0 || !fields.keys().all(|key| PLAIN.contains(&key.as_str())) {
        return false;
    }
    let below = |schema: &Value| is_plain_below(schema, left - 1);
    let in_map = |key: &str| {
        fields.get(key).is_none_or(|map| map.as_object().is_some_and(|map| map.values().all(below)))
    };
    let in_list = |key: &str| {
        fields.get(key).is_none_or(|list| list.as_array().is_some_and(|all| all.iter().all(below)))
    };
    let is_object =
        fields.contains_key("properties") || fields.get("type") == Some(&"object".into());
    (!is_object || is_closed(schema))
        && ["properties", "$defs", "definitions"].into_iter().all(in_map)
        && in_list("anyOf")
        && fields.get("items").is_none_or(below)
}

/// An object with all of its properties required, and no others.
fn is_closed(schema: &Value) -> bool {
    let names = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &String| {
        required.is_some_and(|required| required.iter().any(|it| it == name.as_str()))
    };
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && names.is_some_and(|names| names.keys().all(is_required))
}

/// The schema without what only says where it comes from, which some providers refuse.
pub fn as_sent(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        for key in ["$schema", "$id", "$comment"] {
            fields.remove(key);
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::output::is_plain;

    #[test]
    fn a_schema_is_plain_when_every_provider_can_keep_to_it() {
        let closed = json!({
            "type": "object", "additionalProperties": false, "required": ["a"],
            "properties": {"a": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/b"}]}}},
            "$defs": {"b": {"type": "object", "properties": {}, "required": [], "additionalProperties": false}},
        });
        assert!(is_plain(&closed));
        let mut rows =
            vec![json!(true), json!({}), json!({"type": "array"}), json!({"type": "object"})];
        for (pointer, value) in [
            ("/additionalProperties", json!(true)),
            ("/required", json!([])),
            ("/properties/a/items/anyOf/0", json!({"type": "string", "maxLength": 3})),
            ("/$defs/b/additionalProperties", json!({"type": "string"})),
            ("/properties/a/items", json!(true)),
        ] {
            let mut row = closed.clone();
            *row.pointer_mut(pointer).unwrap() = value;
            rows.push(row);
        }
        for row in rows {
            assert!(!is_plain(&row), "{row}");
        }
    }
}
