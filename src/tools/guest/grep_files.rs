//! `grep_files`

use super::{Effect, GuestTool, ToolError};

pub const GREP_FILES: GuestTool = GuestTool {
    name: "grep_files",
    effect: Effect::Reads,
    #[cfg(feature = "host")]
    schema: || serde_json::Value::Null,
    run: |_, _| Err(ToolError::Broken(String::new())),
};
