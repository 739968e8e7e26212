//! Requests against `tests/fixtures/schemas`, with each complaint in the provider's words.

use std::sync::OnceLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use patchwright_provider::item::Wire;
use serde_json::Value;

/// What is wrong with a body; empty when nothing is.
pub(super) fn check(wire: Wire, body: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    for error in validator(wire).iter_errors(body) {
        collect(&error, &mut complaints);
    }
    complaints.iter().map(|complaint| complaint.words(wire)).collect()
}

/// The compiled schema of a wire.
pub(super) fn validator(wire: Wire) -> &'static Validator {
    static VALIDATORS: [OnceLock<Validator>; 4] = [const { OnceLock::new() }; 4];
    let (slot, source) = match wire {
        Wire::Responses => (0, include_str!("../../../fixtures/schemas/responses.json")),
        Wire::Chat => (1, include_str!("../../../fixtures/schemas/chat.json")),
        Wire::Messages => (2, include_str!("../../../fixtures/schemas/messages.json")),
        Wire::Gemini => (3, include_str!("../../../fixtures/schemas/gemini.json")),
    };
    VALIDATORS[slot].get_or_init(|| {
        let schema: Value = serde_json::from_str(source).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    })
}

struct Complaint {
    path: Vec<String>,
    what: What,
}

enum What {
    Unknown(String),
    Missing(String),
    Invalid(String),
}

fn collect(error: &ValidationError<'_>, complaints: &mut Vec<Complaint>) {
    let pointer = error.instance_path().to_string();
    let path = || pointer.split('/').skip(1).map(str::to_owned).collect::<Vec<String>>();
    let mut add = |what| complaints.push(Complaint { path: path(), what });
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            for name in unexpected {
                add(What::Unknown(name.clone()));
            }
        }
        ValidationErrorKind::Required { property } => {
            add(What::Missing(property.as_str().unwrap_or_default().to_owned()));
        }
        // Of the alternatives, the one that the value was meant to be.
        ValidationErrorKind::AnyOf { context } => {
            let meant = context.iter().min_by_key(|errors| distance(&pointer, errors));
            for error in meant.into_iter().flatten() {
                collect(error, complaints);
            }
        }
        _ => add(What::Invalid(error.to_string().chars().take(300).collect())),
    }
}

/// How far a value at `pointer` is from an alternative: the wrong `type` is further than any
/// number of wrong fields, and another JSON type further still.
fn distance(pointer: &str, errors: &[ValidationError<'_>]) -> usize {
    let of = |error: &ValidationError<'_>| {
        let at = error.instance_path().to_string();
        let below = at.strip_prefix(pointer).unwrap_or_default();
        match error.kind() {
            ValidationErrorKind::Type { .. } if below.is_empty() => 100_000,
            ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. }
                if below == "/type" || below == "/role" =>
            {
                1000
            }
            _ => 1,
        }
    };
    errors.iter().map(of).sum()
}

impl Complaint {
    fn words(&self, wire: Wire) -> String {
        let brackets = |path: &[String]| {
            let mut out = String::new();
            for step in path {
                if step.parse::<usize>().is_ok() {
                    for part in ["[", step, "]"] {
                        out.push_str(part);
                    }
                } else {
                    out.push_str(if out.is_empty() { "" } else { "." });
                    out.push_str(step);
                }
            }
            out
        };
        let with = |name: &String| {
            let mut path = self.path.clone();
            path.push(name.clone());
            path
        };
        match (wire, &self.what) {
            (Wire::Responses | Wire::Chat, What::Unknown(name)) => {
                format!("Unknown parameter: '{}'.", brackets(&with(name)))
            }
            (Wire::Responses | Wire::Chat, What::Missing(name)) => {
                format!("Missing required parameter: '{}'.", brackets(&with(name)))
            }
            (Wire::Responses | Wire::Chat, What::Invalid(why)) => {
                format!("Invalid value for '{}': {why}", brackets(&self.path))
            }
            (Wire::Messages, What::Unknown(name)) => {
                format!("{}: Extra inputs are not permitted", with(name).join("."))
            }
            (Wire::Messages, What::Missing(name)) => {
                format!("{}: Field required", with(name).join("."))
            }
            (Wire::Messages, What::Invalid(why)) => format!("{}: {why}", self.path.join(".")),
            (Wire::Gemini, What::Unknown(name)) => format!(
                "Invalid JSON payload received. Unknown name \"{name}\" at '{}': Cannot find field.",
                brackets(&self.path)
            ),
            (Wire::Gemini, What::Missing(name)) => {
                format!("* GenerateContentRequest.{}: must be specified", brackets(&with(name)))
            }
            (Wire::Gemini, What::Invalid(why)) => {
                format!("Invalid value at '{}': {why}", brackets(&self.path))
            }
        }
    }
}
