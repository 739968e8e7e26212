//! Our own secrets, taken out of every text of a line before it is written.

use serde_json::Value;

use super::Redact;

/// Applies it to every string of a value.
pub fn redact_strings(value: &mut Value, redact: &Redact) {
    match value {
        Value::String(text) => {
            let clean = redact(text);
            if clean != *text {
                *text = clean;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| redact_strings(value, redact)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| redact_strings(value, redact));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
