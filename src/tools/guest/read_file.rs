//! `read_file`

use super::{Effect, GuestTool, ToolError};

pub const READ_FILE: GuestTool = GuestTool {
    name: "read_file",
    effect: Effect::Reads,
    #[cfg(feature = "host")]
    schema: || serde_json::Value::Null,
    run: |_, _| Err(ToolError::Broken(String::new())),
};
