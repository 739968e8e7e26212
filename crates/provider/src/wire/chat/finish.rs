//! Why a reply ended, in the words of the servers that speak this protocol.
//!
//! Called by [`super::decode`] alone.

use crate::item::{Item, Payload, StopReason, ToolCall};
use crate::wire::fault::{Fault, FaultKind};

/// What a `finish_reason` means. A word that is not known is a normal end: many servers have their own for it.
pub(super) fn stop_reason(reason: &str) -> Result<StopReason, Fault> {
    let broken = |kind, what: &str| Err(Fault::new(kind, format!("{what} (`{reason}`)")));
    let (word, _) = parts(reason);
    match word.to_ascii_lowercase().as_str() {
        "length" | "max_tokens" | "model_length" => Ok(StopReason::MaxOutput),
        "content_filter" | "sensitive" => Ok(StopReason::ContentFilter),
        "function_call_filter" | "malformed_function_call" => Ok(StopReason::MalformedCall),
        "error" => {
            let message = "the server ended the reply with an error";
            Err(Fault::new(FaultKind::Unavailable, message))
        }
        // DeepSeek, Z.ai, SGLang.
        "insufficient_system_resource" | "network_error" | "abort" | "aborted" => {
            broken(FaultKind::Unavailable, "the server broke the reply off")
        }
        "model_context_window_exceeded" => broken(
            FaultKind::ContextOverflow,
            "the reply was cut off where the model's context window ends",
        ),
        _ => Ok(StopReason::EndTurn),
    }
}

/// A call that the server could not read. It has no id, because nothing can answer it, and what the server says
/// about it stands for the arguments.
pub(super) fn unreadable_call(reason: &str) -> Item {
    let (word, detail) = parts(reason);
    let said = if detail.is_empty() { word } else { detail };
    let (id, name, payload) = (String::new(), String::new(), Payload::Json(said.to_owned()));
    Item::Call(ToolCall { id, name, payload, native: None })
}

/// Google's endpoint has its own reason behind the protocol's: `content_filter: RECITATION`.
fn parts(reason: &str) -> (&str, &str) {
    let (word, detail) = reason.split_once(':').unwrap_or((reason, ""));
    (word.trim(), detail.trim())
}

#[cfg(test)]
mod tests {
    use crate::item::StopReason;
    use crate::wire::chat::finish::stop_reason;
    use crate::wire::fault::FaultKind;

    #[test]
    fn a_reply_that_was_broken_off_is_no_end() {
        for (reason, stop) in [
            ("stop", StopReason::EndTurn),
            ("tool_calls", StopReason::EndTurn),
            ("eos", StopReason::EndTurn),
            ("length", StopReason::MaxOutput),
            ("model_length", StopReason::MaxOutput),
            ("MAX_TOKENS", StopReason::MaxOutput),
            ("content_filter", StopReason::ContentFilter),
            ("content_filter: RECITATION", StopReason::ContentFilter),
            ("sensitive", StopReason::ContentFilter),
            ("function_call_filter: MALFORMED_FUNCTION_CALL", StopReason::MalformedCall),
        ] {
            assert_eq!(stop_reason(reason), Ok(stop), "{reason}");
        }
        for (reason, kind) in [
            ("error", FaultKind::Unavailable),
            ("insufficient_system_resource", FaultKind::Unavailable),
            ("network_error", FaultKind::Unavailable),
            ("abort", FaultKind::Unavailable),
            ("model_context_window_exceeded", FaultKind::ContextOverflow),
        ] {
            assert_eq!(stop_reason(reason).unwrap_err().kind, kind, "{reason}");
        }
    }
}
