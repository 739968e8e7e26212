//! From what a model wrote to the checked arguments of a tool, or a message that makes its next call
//! right. Pure; the guest checks once more, because it trusts nobody.

use jsonschema::error::ValidationErrorKind;
use serde_json::{Value, json};

use super::dispatch::{Fault, printable};
use super::registry::Known;
use super::{schema, spelling};
use crate::provider::item::Payload;

/// Most complaints about one call; the first ones are enough to go on.
const MAX_COMPLAINTS: usize = 8;

/// Why a call cannot be run as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub fault: Fault,
    /// For the model.
    pub message: String,
}

/// Parses and checks the arguments of a call of `tool`; they come out under the tool's own names.
pub fn parse(tool: &Known, payload: &Payload) -> Result<Value, Refusal> {
    shown(tool, payload).map(|args| own(tool, args))
}

/// The arguments of a call of `tool` as it shows them, checked.
pub fn shown(tool: &Known, payload: &Payload) -> Result<Value, Refusal> {
    let args = match (text_argument(tool), payload) {
        (Some(field), Payload::Freeform(text)) => json!({ field: text }),
        (_, Payload::Freeform(text) | Payload::Json(text) | Payload::Native(text)) => {
            from_json(tool, text)?
        }
    };
    checked(tool, args)
}

/// Arguments that are JSON already, as the tool shows them, checked.
pub fn checked(tool: &Known, mut args: Value) -> Result<Value, Refusal> {
    if let Some(face) = tool.face {
        spelling::shown(face, tool.schema(), &mut args);
    }
    check(tool, &args)?;
    Ok(args)
}

/// Checked arguments under the tool's own names.
pub fn own(tool: &Known, args: Value) -> Value {
    match tool.face {
        Some(face) => spelling::own(face, args),
        None => args,
    }
}

/// The argument of a tool whose calls can be one free text.
fn text_argument(tool: &Known) -> Option<&'static str> {
    Some(tool.face?.free.as_ref()?.argument)
}

fn from_json(tool: &Known, text: &str) -> Result<Value, Refusal> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    match serde_json::from_str(text) {
        Ok(Value::String(code)) if text_argument(tool) == Some("code") => {
            Ok(json!({ "code": code }))
        }
        // The name that free text has where there are only functions.
        Ok(Value::Object(mut fields))
            if text_argument(tool) == Some("code") && fields.contains_key("input") =>
        {
            if let Some(code) = fields.shift_remove("input") {
                fields.entry("code").or_insert(code);
            }
            Ok(Value::Object(fields))
        }
        // Some models encode their arguments twice.
        Ok(Value::String(inner)) if !is_patch(tool, &inner) => {
            Ok(serde_json::from_str(&inner).unwrap_or(Value::String(inner)))
        }
        Ok(Value::String(patch)) => Ok(json!({ "input": patch })),
        Ok(value) => Ok(value),
        Err(_) if is_patch(tool, text) => Ok(json!({ "input": text })),
        Err(_) if text_argument(tool) == Some("code") && !text.starts_with("{\"") => {
            Ok(json!({ "code": text }))
        }
        Err(err) => Err(Refusal {
            fault: Fault::NotJson,
            message: format!(
                "the arguments of `{}` are not valid JSON: {err}. Send one JSON object: {}",
                tool.name,
                schema::shape(tool.schema())
            ),
        }),
    }
}

fn is_patch(tool: &Known, text: &str) -> bool {
    tool.tool == "apply_patch" && text.trim_start().starts_with("*** Begin Patch")
}

fn check(tool: &Known, args: &Value) -> Result<(), Refusal> {
    let Some(validator) = tool.validator() else { return check_object(tool, args) };
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
            schema::shape(tool.schema())
        ),
    })
}

/// All that is known of arguments whose schema cannot be used: they are an object.
fn check_object(tool: &Known, args: &Value) -> Result<(), Refusal> {
    if args.is_object() {
        return Ok(());
    }
    Err(Refusal {
        fault: Fault::Arguments,
        message: format!(
            "the arguments of `{}` do not fit: they must be a JSON object, and are: {}",
            tool.name,
            kind_of(args)
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
