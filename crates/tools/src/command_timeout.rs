//! How long a command of a tool may take.

use std::time::Duration;

use serde_json::{Value, json};

use super::registry::ResolvedTool;

/// Sets the time limit of a command: what the run allows, or less where the model asks for that.
pub(super) fn bound(tool: &ResolvedTool, args: &mut Value, most: Duration) {
    let limit = if tool.is_session() {
        // How long they wait is theirs to say; the command goes on.
        most
    } else if tool.is_shell() {
        let asked = ["timeout_ms", "yield_time_ms"];
        let asked = asked.iter().find_map(|name| args.get(*name)?.as_u64());
        asked.map_or(most, |asked| most.min(Duration::from_millis(asked)))
    } else {
        return;
    };
    if let Value::Object(fields) = args {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        fields.insert("timeout_ms".to_owned(), json!(limit));
    }
}
