//! `apply_patch`

use super::{Effect, GuestTool, ToolError};

pub const APPLY_PATCH: GuestTool = GuestTool {
    name: "apply_patch",
    effect: Effect::Reads,
    #[cfg(feature = "host")]
    schema: || serde_json::Value::Null,
    run: |_, _| Err(ToolError::Broken(String::new())),
};
