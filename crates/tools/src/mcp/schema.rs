//! Foreign schemas of arguments, so that every wire takes them: an object at the root, without what is
//! about the schema itself, without references to elsewhere, bounded in size and depth. Everything else
//! passes through as it is, and the server checks the arguments once more. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::text;

/// Largest schema, in bytes of JSON.
const MAX_BYTES: usize = 16 << 10;
/// How deep it may be nested.
const MAX_DEPTH: usize = 12;
/// Longest description of a field, in bytes.
const MAX_DESCRIPTION: usize = 600;
/// Most values that are looked at, whatever comes of them.
const MAX_VALUES: usize = 20_000;
/// Longest name of an argument that all wires take.
const MAX_KEY: usize = 64;
/// Most arguments.
const MAX_KEYS: usize = 1000;
/// Keywords about the schema, not about arguments.
const DROPPED: &[&str] = &["$schema", "$id", "$comment", "$anchor", "$vocabulary", "examples"];
/// What no wire allows beside the object at the root.
const ALTERNATIVES: &[&str] = &["oneOf", "anyOf", "allOf"];

/// A schema that can be declared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    pub schema: Value,
    /// Arguments that have another name for the model, by that name.
    pub renamed: BTreeMap<String, String>,
}

/// Makes a schema that can be declared of a foreign one.
pub fn declared(foreign: &Map<String, Value>) -> Declared {
    let mut left = MAX_VALUES;
    let mut root = match cleaned(&Value::Object(foreign.clone()), MAX_DEPTH, &mut left) {
        Value::Object(root) if left > 0 => root,
        _ => return Declared { schema: any(), ..Declared::default() },
    };
    inline(&mut root);
    flatten(&mut root);
    let count = |key: &str| match root.get(key) {
        Some(Value::Object(all)) => all.len(),
        Some(Value::Array(all)) => all.len(),
        _ => 0,
    };
    // So many would not fit in any case.
    if count("properties").max(count("required")) > MAX_KEYS {
        return Declared { schema: any(), ..Declared::default() };
    }
    let renamed = rename(&mut root);
    let mut schema = Value::Object(root);
    // What says least goes first.
    for smaller in [without_words, |schema| only_types(&schema), |_: Value| any()] {
        // One schema that is none makes a provider refuse every request.
        if schema.to_string().len() <= MAX_BYTES && jsonschema::draft202012::meta::is_valid(&schema)
        {
            break;
        }
        schema = smaller(schema);
    }
    Declared { schema, renamed }
}

/// A definition that the root refers to takes the place of the reference.
fn inline(root: &mut Map<String, Value>) {
    let Some(Value::String(to)) = root.get("$ref") else { return };
    let mut path = to.trim_start_matches("#/").split('/');
    let (Some(group), Some(name), None) = (path.next(), path.next(), path.next()) else { return };
    let meant = root.get(group).and_then(|group| group.get(name)).and_then(Value::as_object);
    let Some(meant) = meant.cloned() else { return };
    root.shift_remove("$ref");
    for (key, value) in meant {
        root.entry(key).or_insert(value);
    }
}

/// Takes any object: the server says what is wrong with it.
fn any() -> Value {
    json!({"type": "object", "properties": {}})
}

fn cleaned(value: &Value, depth: usize, left: &mut usize) -> Value {
    if *left == 0 || depth == 0 {
        return json!({});
    }
    *left -= 1;
    let Value::Object(fields) = value else { return value.clone() };
    let mut result = Map::new();
    for (key, value) in fields {
        let value = match (key.as_str(), value) {
            (key, _) if DROPPED.contains(&key) => continue,
            ("$ref", Value::String(to)) if !to.starts_with('#') => continue,
            ("description" | "title", Value::String(words)) => {
                json!(text::bounded(words, MAX_DESCRIPTION))
            }
            ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(all)) => {
                let each = |(name, value): (&String, &Value)| {
                    (name.clone(), cleaned(value, depth - 1, left))
                };
                Value::Object(all.iter().map(each).collect())
            }
            ("oneOf" | "anyOf" | "allOf" | "prefixItems", Value::Array(all)) => {
                all.iter().map(|value| cleaned(value, depth - 1, left)).collect()
            }
            ("items" | "additionalProperties" | "not" | "if" | "then" | "else", value) => {
                cleaned(value, depth - 1, left)
            }
            // Constants, numbers, names: as they are.
            (_, value) => value.clone(),
        };
        result.insert(key.clone(), value);
    }
    // Some providers refuse a list without a word about its items.
    if result.get("type") == Some(&json!("array")) && !has_items(&result) {
        result.insert("items".to_owned(), json!({}));
    }
    Value::Object(result)
}

fn has_items(schema: &Map<String, Value>) -> bool {
    schema.contains_key("items") || schema.contains_key("prefixItems")
}

/// Alternatives at the root become one object that may have the properties of each.
fn flatten(root: &mut Map<String, Value>) {
    let alternatives: Vec<Value> =
        ALTERNATIVES.iter().filter_map(|key| root.shift_remove(*key)).collect();
    for keyword in ["not", "enum", "const", "if", "then", "else"] {
        root.shift_remove(keyword);
    }
    let mut properties = match root.shift_remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    for variant in alternatives.iter().filter_map(Value::as_array).flatten() {
        let offered = variant.get("properties").and_then(Value::as_object);
        for (name, property) in offered.into_iter().flatten() {
            properties.entry(name.clone()).or_insert_with(|| property.clone());
        }
    }
    root.insert("type".to_owned(), json!("object"));
    root.insert("properties".to_owned(), Value::Object(properties));
}

/// Names of arguments that not every wire takes get others; returns the old by the new.
fn rename(root: &mut Map<String, Value>) -> BTreeMap<String, String> {
    let mut renamed = BTreeMap::new();
    let Some(Value::Object(properties)) = root.get_mut("properties") else { return renamed };
    if properties.keys().all(|name| is_key(name)) {
        return renamed;
    }
    let old = std::mem::take(properties);
    for (name, value) in &old {
        let mut new = name.clone();
        if !is_key(name) {
            let safe: String =
                name.chars().map(|c| if is_key_char(c) { c } else { '_' }).take(MAX_KEY).collect();
            let mut number = 1;
            new = if safe.is_empty() { "_".to_owned() } else { safe.clone() };
            while old.contains_key(&new) || properties.contains_key(&new) {
                number += 1;
                let head: String = safe.chars().take(MAX_KEY - 6).collect();
                new = format!("{head}_{number}");
            }
            renamed.insert(new.clone(), name.clone());
        }
        properties.insert(new, value.clone());
    }
    if let Some(Value::Array(required)) = root.get_mut("required") {
        for name in required {
            let new = renamed.iter().find(|(_, old)| name.as_str() == Some(old));
            if let Some((new, _)) = new {
                *name = json!(new);
            }
        }
    }
    renamed
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

fn is_key(name: &str) -> bool {
    (1..=MAX_KEY).contains(&name.len()) && name.chars().all(is_key_char)
}

/// Without descriptions, defaults and titles.
fn without_words(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let is_word = |key: &str, value: &Value| {
                matches!((key, value), ("description" | "title", Value::String(_)))
                    || key == "default"
            };
            let kept = fields.into_iter().filter(|(key, value)| !is_word(key, value));
            Value::Object(kept.map(|(key, value)| (key, without_words(value))).collect())
        }
        Value::Array(values) => values.into_iter().map(without_words).collect(),
        value => value,
    }
}

/// The arguments with their types alone.
fn only_types(schema: &Value) -> Value {
    let typed = |property: &Value| match property.get("type") {
        Some(Value::String(kind)) if kind == "array" => json!({"type": "array", "items": {}}),
        Some(Value::String(kind)) => json!({"type": kind}),
        _ => json!({}),
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties: Map<String, Value> = properties
        .into_iter()
        .flatten()
        .map(|(name, property)| (name.clone(), typed(property)))
        .collect();
    let required = schema.get("required").cloned().unwrap_or_else(|| json!([]));
    json!({"type": "object", "properties": properties, "required": required})
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::mcp::schema::{MAX_BYTES, declared};

    fn schema(foreign: &Value) -> Value {
        declared(foreign.as_object().unwrap()).schema
    }

    #[test]
    fn what_is_no_schema_is_not_declared() {
        for wrong in [
            json!({"properties": {"x": {"type": "any"}}}),
            json!({"properties": {"x": "string"}}),
            json!({"properties": {"x": {"type": "number", "exclusiveMinimum": true}}}),
        ] {
            let schema = schema(&wrong);
            assert!(jsonschema::draft202012::meta::is_valid(&schema), "{schema}");
        }
        let many: serde_json::Map<String, Value> =
            (0..3_000).map(|n| (format!("{n}é"), json!({}))).collect();
        assert_eq!(schema(&json!({"properties": many})), crate::mcp::schema::any());
    }

    #[test]
    fn a_definition_at_the_root_is_taken() {
        let args = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let named = json!({"$ref": "#/definitions/Args", "definitions": {"Args": args}});
        assert_eq!(schema(&named)["properties"], args["properties"]);
    }

    #[test]
    fn a_plain_schema_passes_through() {
        let plain = json!({
            "type": "object",
            "properties": {
                "n": {"type": "integer", "minimum": 1, "default": 3, "description": "how many"},
                "to": {"$ref": "#/$defs/Place"},
            },
            "required": ["n"],
            "$defs": {"Place": {"enum": ["a", "b"], "title": "Place"}},
        });
        assert_eq!(schema(&plain), plain);
    }

    #[test]
    fn what_a_wire_refuses_is_taken_out() {
        assert_eq!(schema(&json!({})), json!({"type": "object", "properties": {}}));
        assert_eq!(
            schema(&json!({
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$id": "x",
                "properties": {
                    "list": {"type": "array"},
                    "away": {"$ref": "https://example.com/s.json"},
                    "$schema": {"type": "string"},
                },
                "anyOf": [{"required": ["list"]}, {"properties": {"more": {"type": "string"}}}],
            })),
            json!({
                "type": "object",
                "properties": {
                    "list": {"type": "array", "items": {}},
                    "away": {},
                    "_schema": {"type": "string"},
                    "more": {"type": "string"},
                },
            })
        );
    }

    #[test]
    fn arguments_with_strange_names_get_others_and_are_known_again() {
        let got = declared(
            json!({
                "type": "object",
                "properties": {"$filter": {}, "_filter": {}, "ok": {}, "a b": {}},
                "required": ["$filter", "ok"],
            })
            .as_object()
            .unwrap(),
        );
        assert_eq!(
            got.schema["properties"],
            json!({"_filter_2": {}, "_filter": {}, "ok": {}, "a_b": {}})
        );
        assert_eq!(got.schema["required"], json!(["_filter_2", "ok"]));
        assert_eq!(got.renamed["_filter_2"], "$filter");
        assert_eq!(got.renamed["a_b"], "a b");
    }

    #[test]
    fn a_giant_schema_becomes_small_and_keeps_its_arguments_as_long_as_it_can() {
        let wordy = json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x".repeat(MAX_BYTES)},
        }});
        assert_eq!(
            schema(&wordy),
            json!({"type": "object", "properties": {"a": {"type": "string"}}})
        );
        let choices: Vec<String> = (0..9_000).map(|number| format!("choice {number}")).collect();
        let wide =
            json!({"type": "object", "properties": {"a": {"type": "string", "enum": choices}}});
        assert_eq!(schema(&wide)["properties"]["a"], json!({"type": "string"}));
        let many: serde_json::Map<String, Value> =
            (0..9_000).map(|number| (format!("argument_{number}"), json!({}))).collect();
        let many = json!({"type": "object", "properties": many});
        assert_eq!(schema(&many), json!({"type": "object", "properties": {}}));
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        assert!(schema(&deep).to_string().len() < 1_000);
    }
}
