//! `shell_command` and `shell`.

use super::{Effect, GuestTool, ToolError};

pub const SHELL_COMMAND: GuestTool = GuestTool {
    name: "shell_command",
    effect: Effect::Writes,
    #[cfg(feature = "host")]
    schema: || serde_json::Value::Null,
    run: |_, _| Err(ToolError::Broken(String::new())),
};

pub const SHELL: GuestTool = GuestTool {
    name: "shell",
    effect: Effect::Writes,
    #[cfg(feature = "host")]
    schema: || serde_json::Value::Null,
    run: |_, _| Err(ToolError::Broken(String::new())),
};
