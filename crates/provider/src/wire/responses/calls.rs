//! Calls as elements of the `input` array.
//!
//! Called by [`super::input`] alone.

use serde_json::{Value, json};

use super::input::{Entry, Input, RoundTripFields, ToolName, ours};
use crate::item::{OutputForm, Payload, ToolCall};

/// The element that a call goes back as.
pub(super) fn tool_call(call: &ToolCall) -> Entry<'_> {
    let kept = || RoundTripFields::from_native(call.native.as_ref()).without_content();
    let (call_id, name) = (call.id.as_str(), ToolName(&call.name));
    match &call.payload {
        Payload::Json(arguments) => {
            Entry::Typed(Input::FunctionCall { kept: kept(), call_id, name, arguments })
        }
        Payload::Freeform(input) => {
            // The description gives this item no status.
            let kept = kept().without_status();
            Entry::Typed(Input::CustomToolCall { kept, call_id, name, input })
        }
        Payload::Native(arguments) => match call.native.as_ref().and_then(ours) {
            Some(value) => received_call(call, value),
            None => built_call(call, arguments),
        },
    }
}

/// A call of a provider-defined tool as it came, under the id that the conversation has for it: that of
/// the provider, unless another call had that before.
fn received_call<'a>(call: &ToolCall, value: &'a Value) -> Entry<'a> {
    let is_approval = call.output_form() == OutputForm::McpApproval;
    let key = if is_approval { "id" } else { "call_id" };
    if value.get(key).and_then(Value::as_str) == Some(call.id.as_str()) {
        return Entry::Raw(value);
    }
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.insert(key.to_owned(), Value::from(call.id.as_str()));
    }
    Entry::Built(value)
}

/// A call of a provider-defined tool that did not come from this wire (a script, another wire).
fn built_call<'a>(call: &'a ToolCall, arguments: &'a str) -> Entry<'a> {
    // Arguments that are no JSON were refused when the call was made; here it only keeps its place.
    let args: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
    let id = &call.id;
    Entry::Built(match call.output_form() {
        OutputForm::LocalShell => {
            let mut action = json!({
                "type": "exec",
                "command": args.get("command").cloned().unwrap_or_else(|| json!([])),
                "env": args.get("env").cloned().unwrap_or_else(|| json!({})),
            });
            for (ours, theirs) in [("workdir", "working_directory"), ("timeout_ms", "timeout_ms")] {
                if let Some(value) = args.get(ours) {
                    action[theirs] = value.clone();
                }
            }
            json!({"type": "local_shell_call", "id": id, "call_id": id, "action": action, "status": "completed"})
        }
        OutputForm::Shell => {
            json!({"type": "shell_call", "call_id": id, "action": args, "status": "completed"})
        }
        OutputForm::ApplyPatch => json!({
            "type": "apply_patch_call", "call_id": id, "operation": args, "status": "completed",
        }),
        OutputForm::Computer => {
            let mut item = json!({"type": "computer_call", "id": id, "call_id": id});
            for key in ["action", "actions"] {
                if let Some(value) = args.get(key) {
                    item[key] = value.clone();
                }
            }
            item["pending_safety_checks"] = json!([]);
            item["status"] = json!("completed");
            item
        }
        OutputForm::McpApproval => {
            let text = |key: &str| args.get(key).and_then(Value::as_str).unwrap_or_default();
            json!({
                "type": "mcp_approval_request", "id": id, "server_label": text("server_label"),
                "name": text("name"), "arguments": text("arguments"),
            })
        }
        OutputForm::ToolSearch => json!({
            "type": "tool_search_call", "call_id": id, "execution": "client", "arguments": args,
            "status": "completed",
        }),
        OutputForm::Function | OutputForm::Custom => {
            let kept = RoundTripFields::default();
            let name = ToolName(&call.name);
            return Entry::Typed(Input::FunctionCall { kept, call_id: id, name, arguments });
        }
    })
}
