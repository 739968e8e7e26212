//! `list_dir`

use super::{Effect, GuestTool, ToolError};

pub const LIST_DIR: GuestTool = GuestTool {
    name: "list_dir",
    effect: Effect::Reads,
    #[cfg(feature = "host")]
    schema: || serde_json::Value::Null,
    run: |_, _| Err(ToolError::Broken(String::new())),
};
