//! Declared tools: names, and what OpenAI asks of strict schemas.

use serde_json::Value;

use super::{Problems, list};

/// Names are unique.
pub(super) fn unique<'a>(problems: &mut Problems, names: impl Iterator<Item = &'a str>) {
    let mut seen: Vec<&str> = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        problems.refuse_if(seen.contains(&name), || {
            format!("Tool names must be unique: '{name}' is declared twice.")
        });
        seen.push(name);
    }
}

/// The provider's rules for strict schemas.
pub(super) fn strict(problems: &mut Problems, tool: &str, schema: &Value) {
    let Some(fields) = schema.as_object() else { return };
    let invalid = |why: &str| format!("Invalid schema for function '{tool}': {why}");
    for word in ["allOf", "oneOf", "not", "if", "default", "patternProperties"] {
        problems.refuse_if(fields.contains_key(word), || {
            invalid(&format!("In context=(), '{word}' is not permitted."))
        });
    }
    if let Some(properties) = schema["properties"].as_object() {
        problems.refuse_if(schema["additionalProperties"] != false, || {
            invalid(
                "In context=(), 'additionalProperties' is required to be supplied and to be false.",
            )
        });
        let required = list(schema, "required");
        for (key, property) in properties {
            problems.refuse_if(!required.iter().any(|name| name == key), || {
                invalid(&format!("In context=(), 'required' is required to be supplied and to be an array including every key in properties. Missing '{key}'."))
            });
            strict(problems, tool, property);
        }
    }
    strict(problems, tool, &schema["items"]);
    for variant in list(schema, "anyOf") {
        strict(problems, tool, variant);
    }
}
