//! Calls that a server could not read, and reports as an error of the request: Groq checks what the model writes
//! against the declared tools.

use serde_json::Value;

use super::{Fault, FaultKind, word};
use crate::Reply;
use crate::item::{Item, Payload, StopReason, ToolCall, Usage};

/// Characters of what the model wrote that are quoted.
const MAX_QUOTED: usize = 300;

impl Fault {
    /// The reply that the model meant to give, where it is only a call in it that could not be read: the model is
    /// told so, and goes on. Every other fault stays one.
    pub fn into_reply(self) -> Result<Reply, Fault> {
        if self.kind != FaultKind::UnreadableCall {
            return Err(self);
        }
        // It has no id, because nothing can answer it.
        let (id, name, payload) = (String::new(), String::new(), Payload::Json(self.message));
        Ok(Reply {
            items: vec![Item::Call(ToolCall { id, name, payload, native: None })],
            usage: self.usage.unwrap_or(Usage { estimated: true, ..Usage::default() }),
            stop: StopReason::MalformedCall,
            model: String::new(),
            id: None,
        })
    }
}

/// Adds what the model wrote, where the error has it.
pub(super) fn quote(error: &Value, message: &mut String) {
    let written = word(error, "failed_generation");
    if !written.trim().is_empty() {
        let written: String = written.trim().chars().take(MAX_QUOTED).collect();
        *message = format!("{message}; what was written: {written}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::item::StopReason;
    use crate::wire::fault::{ErrorObject, FaultKind};

    #[test]
    fn a_call_that_the_server_could_not_read_is_the_models_mistake() {
        let error = json!({
            "message": "call validation failed", "type": "invalid_request_error",
            "code": "tool_use_failed", "failed_generation": "{\"name\": \"raed\"}",
        });
        // In a stream, with its status, and through a router.
        let routed = json!({
            "message": "Provider returned error", "code": 400,
            "metadata": {"provider_name": "Groq", "raw": json!({"error": error}).to_string()},
        });
        for (status, error) in [(None, error.clone()), (Some(400), error), (None, routed)] {
            let fault = ErrorObject(error).fault_with(status, String::new);
            assert_eq!(fault.kind, FaultKind::UnreadableCall, "{fault:?}");
            assert!(!fault.may_pass() && fault.message.contains("call validation failed"));
            let reply = fault.into_reply().unwrap();
            assert_eq!((reply.stop, reply.items.len()), (StopReason::MalformedCall, 1));
        }
        let other = ErrorObject(json!({"code": "invalid_request_error"})).fault();
        assert_eq!(other.clone().into_reply().unwrap_err(), other);
    }
}
