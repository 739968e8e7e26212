//! Errors of a provider behind `OpenRouter`: `{"message": "Provider returned error", "code": 400, "metadata":
//! {"provider_name": "…", "raw": "…"}}`, where only `raw` says what is wrong. It is the provider's whole answer, as
//! a text or as JSON in a text.

use serde_json::Value;

use super::word;

/// Characters of an answer in which no message is found.
const MAX_RAW: usize = 2000;

/// What the provider behind the router said.
pub(super) struct UpstreamError {
    provider: String,
    code: String,
    kind: String,
    message: String,
}

/// Reads the part of an error that a router adds; `None` for an error without one.
pub(super) fn read(error: &Value) -> Option<UpstreamError> {
    let metadata = error.get("metadata")?;
    let provider = word(metadata, "provider_name");
    let answer = match metadata.get("raw") {
        Some(Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Some(answer) => answer.clone(),
        None => Value::Null,
    };
    let answer = super::unlisted(answer);
    let inner = answer.get("error").filter(|inner| !inner.is_null()).unwrap_or(&answer);
    let message = match inner {
        Value::String(text) => text.clone(),
        inner => [(inner, "message"), (&answer, "message"), (&answer, "detail")]
            .iter()
            .map(|(place, name)| word(place, name))
            .find(|message| !message.is_empty())
            .unwrap_or_else(|| if answer.is_null() { String::new() } else { answer.to_string() }),
    };
    let message: String = if message.trim_start().starts_with('<') {
        super::HTML_PAGE.to_owned()
    } else {
        message.trim().chars().take(MAX_RAW).collect()
    };
    if provider.is_empty() && message.is_empty() {
        return None;
    }
    Some(UpstreamError { provider, code: word(inner, "code"), kind: word(inner, "type"), message })
}

impl UpstreamError {
    /// Adds it to what the router itself says.
    pub(super) fn amend(self, code: &mut String, kind: &mut String, message: &mut String) {
        // The router's own code is the HTTP status.
        if !self.code.is_empty() && code.parse::<u16>().is_ok() {
            *code = self.code;
        }
        if kind.is_empty() {
            *kind = self.kind;
        }
        let said = [self.provider, self.message];
        let said: Vec<String> = said.into_iter().filter(|text| !text.is_empty()).collect();
        *message = format!("{message} ({})", said.join(": "));
    }
}
