//! From what a model wrote to the checked arguments of a tool, or a message that makes its next call
//! right. Pure; the guest checks once more, because it trusts nobody.

use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value, json};

use super::dispatch::{Fault, printable};
use super::registry::Known;
use super::schema;
use crate::provider::item::Payload;

/// Most complaints about one call; the first ones are enough to go on.
const MAX_COMPLAINTS: usize = 8;

/// How deep arguments are looked into for fields that are `null`.
const MAX_DEPTH: usize = 16;

/// Why a call cannot be run as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub fault: Fault,
    /// For the model.
    pub message: String,
}

/// Parses and checks the arguments of a call of `tool`.
pub fn parse(tool: &Known, payload: &Payload) -> Result<Value, Refusal> {
    let mut args = match (tool.name, payload) {
        ("apply_patch", Payload::Freeform(text)) => json!({ "input": text }),
        (_, Payload::Freeform(text) | Payload::Json(text) | Payload::Native(text)) => {
            from_json(tool, text)?
        }
    };
    adapt(tool, &mut args);
    check(tool, &args)?;
    Ok(args)
}

fn from_json(tool: &Known, text: &str) -> Result<Value, Refusal> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    match serde_json::from_str(text) {
        // Some models encode their arguments twice.
        Ok(Value::String(inner)) if !is_patch(tool, &inner) => {
            Ok(serde_json::from_str(&inner).unwrap_or(Value::String(inner)))
        }
        Ok(Value::String(patch)) => Ok(json!({ "input": patch })),
        Ok(value) => Ok(value),
        Err(_) if is_patch(tool, text) => Ok(json!({ "input": text })),
        Err(err) => Err(Refusal {
            fault: Fault::NotJson,
            message: format!(
                "the arguments of `{}` are not valid JSON: {err}. Send one JSON object: {}",
                tool.name,
                schema::shape(&tool.schema)
            ),
        }),
    }
}

fn is_patch(tool: &Known, text: &str) -> bool {
    tool.name == "apply_patch" && text.trim_start().starts_with("*** Begin Patch")
}

/// Brings spellings that mean the same into the one that the tool takes.
fn adapt(tool: &Known, args: &mut Value) {
    let Value::Object(fields) = args else { return };
    if tool.name == "apply_patch" {
        for other in ["patch", "patchText"] {
            rename(fields, other, "input");
        }
    }
    if tool.is_shell() {
        adapt_command(tool, fields);
    }
    fields.values_mut().for_each(whole_numbers);
    drop_nulls(&tool.schema, args, MAX_DEPTH);
}

/// Commands come in several dialects. What says nothing to our tools is dropped; what asks for more
/// rights is kept, because the tool answers that.
fn adapt_command(tool: &Known, fields: &mut Map<String, Value>) {
    rename(fields, "working_directory", "workdir");
    rename(fields, "cwd", "workdir");
    rename(fields, "cmd", "command");
    let known = tool.schema.get("properties");
    for extra in ["sandbox_permissions", "justification", "prefix_rule", "description", "type"] {
        if known.is_none_or(|known| known.get(extra).is_none()) {
            fields.shift_remove(extra);
        }
    }
    let command = fields.get("command").cloned();
    match (tool.name, command) {
        ("shell", Some(Value::String(script))) => {
            fields.insert("command".to_owned(), json!(["sh", "-c", script]));
        }
        ("shell_command", Some(Value::Array(words))) => {
            if let Some(script) = script(&words) {
                fields.insert("command".to_owned(), Value::String(script));
            }
        }
        _ => {}
    }
}

/// `["bash", "-lc", "make"]` → `make`; other words are quoted.
fn script(words: &[Value]) -> Option<String> {
    let words = words.iter().map(Value::as_str).collect::<Option<Vec<&str>>>()?;
    match words.as_slice() {
        [shell, flags, script]
            if shell.ends_with("sh") && flags.starts_with('-') && flags.ends_with('c') =>
        {
            Some((*script).to_owned())
        }
        words => shlex::try_join(words.iter().copied()).ok(),
    }
}

/// An optional field that is `null` is one that was left out: strict mode has no other way to say so.
fn drop_nulls(schema: &Value, value: &mut Value, depth: usize) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(fields) => {
            let required = schema::required(schema);
            fields.retain(|name, value| !value.is_null() || required.contains(&name.as_str()));
            for (name, value) in fields {
                if let Some(inner) = schema.get("properties").and_then(|it| it.get(name.as_str())) {
                    drop_nulls(inner, value, depth - 1);
                }
            }
        }
        Value::Array(values) => {
            if let Some(items) = schema.get("items") {
                values.iter_mut().for_each(|value| drop_nulls(items, value, depth - 1));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if !fields.contains_key(to)
        && let Some(value) = fields.shift_remove(from)
    {
        fields.insert(to.to_owned(), value);
    }
}

/// `10.0` is a whole number in JSON Schema, but not to every reader.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let (None, None, Some(float)) = (number.as_i64(), number.as_u64(), number.as_f64())
                && float.fract() == 0.0
                && float.abs() < 9_007_199_254_740_992.0
            {
                #[expect(clippy::cast_possible_truncation, reason = "checked just above")]
                let whole = float as i64;
                *value = json!(whole);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn check(tool: &Known, args: &Value) -> Result<(), Refusal> {
    let Some(validator) = tool.validator() else { return Ok(()) };
    if validator.is_valid(args) {
        return Ok(());
    }
    let mut complaints: Vec<String> = validator
        .iter_errors(args)
        .take(MAX_COMPLAINTS)
        .map(|err| complaint(err.kind(), err.instance(), err.instance_path().as_str()))
        .collect();
    complaints.dedup();
    Err(Refusal {
        fault: Fault::Arguments,
        message: format!(
            "the arguments of `{}` do not fit:\n- {}\nexpected: {}",
            tool.name,
            complaints.join("\n- "),
            schema::shape(&tool.schema)
        ),
    })
}

fn complaint(kind: &ValidationErrorKind, instance: &Value, path: &str) -> String {
    let field = path.trim_start_matches('/').replace('/', ".");
    let place =
        if field.is_empty() { String::new() } else { format!(" in `{}`", printable(&field)) };
    match kind {
        ValidationErrorKind::Required { property } => {
            format!("missing{place}: `{}`", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names =
                unexpected.iter().take(MAX_COMPLAINTS).map(|name| format!("`{}`", printable(name)));
            format!("unexpected{place}: {}", names.collect::<Vec<_>>().join(", "))
        }
        ValidationErrorKind::Type { .. } | ValidationErrorKind::AnyOf { .. } => {
            format!("wrong type{place}: {}", kind_of(instance))
        }
        ValidationErrorKind::Enum { options } => {
            format!("unknown value{place}: it must be one of {options}")
        }
        ValidationErrorKind::Minimum { limit } => format!("too small{place}: at least {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("too large{place}: at most {limit}"),
        ValidationErrorKind::MinItems { limit } => {
            format!("too few items{place}: at least {limit}")
        }
        ValidationErrorKind::MinLength { limit } => format!("too short{place}: at least {limit}"),
        other => format!("`{}` is not met{place}", other.keyword()),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
