//! Lines of `--json` against the schema that `docs/` has of them, closed: a kind or a field that is not in it
//! fails, although readers are told to pass over what they do not know.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// The lines, each checked.
#[track_caller]
pub(crate) fn checked(stdout: &str) -> Vec<Value> {
    let validator = jsonschema::validator_for(&closed()).unwrap();
    let lines: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|err| panic!("{err}: {line}")))
        .collect();
    for line in &lines {
        if validator.is_valid(line) {
            continue;
        }
        let errors: Vec<String> = of_kind(line["is"].as_str().unwrap_or_default())
            .iter()
            .map(|schema| {
                let of_kind = jsonschema::validator_for(schema).unwrap();
                let errors = of_kind.iter_errors(line);
                errors
                    .map(|err| format!("{err} at {}", err.instance_path()))
                    .collect::<Vec<_>>()
                    .join("\n")
            })
            .collect();
        panic!("not in the schema: {line:#}\n{errors:#?}");
    }
    lines
}

/// Every kind that the schema has of runs, with how many forms it has.
pub(crate) fn kinds() -> Vec<String> {
    variants(&closed()["$defs"]["Event"]).iter().map(kind).collect()
}

fn kind(variant: &Value) -> String {
    variant["properties"]["is"]["const"].as_str().unwrap().to_owned()
}

fn variants(of: &Value) -> Vec<Value> {
    of["oneOf"].as_array().or(of["anyOf"].as_array()).unwrap().clone()
}

/// What a line of this kind may be, to say what is wrong with one.
fn of_kind(wanted: &str) -> Vec<Value> {
    let whole = closed();
    let all = ["Event", "CampaignEvent"].map(|name| variants(&whole["$defs"][name])).concat();
    let these = all.into_iter().filter(|variant| kind(variant) == wanted);
    these
        .map(|mut variant| {
            variant["$defs"] = whole["$defs"].clone();
            variant["$schema"] = whole["$schema"].clone();
            variant
        })
        .collect()
}

/// The schema without room for anything that it does not name.
fn closed() -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/events.schema.json");
    let mut schema: Value = serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
    let mut joined = BTreeSet::new();
    joins(&schema, &mut joined);
    for (name, definition) in schema["$defs"].as_object_mut().unwrap() {
        for list in ["oneOf", "anyOf"] {
            for variant in
                definition.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
            {
                close(variant);
            }
        }
        // What is a part of another object is closed there.
        if !joined.contains(&format!("#/$defs/{name}")) {
            close(definition);
        }
    }
    schema
}

fn close(schema: &mut Value) {
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema["unevaluatedProperties"] = json!(false);
    }
}

/// Definitions that stand beside fields of their own.
fn joins(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties")
                && let Some(Value::String(joined)) = fields.get("$ref")
            {
                found.insert(joined.clone());
            }
            for part in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
                if let Some(Value::String(joined)) = part.get("$ref") {
                    found.insert(joined.clone());
                }
            }
            fields.values().for_each(|value| joins(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| joins(value, found)),
        _ => {}
    }
}
