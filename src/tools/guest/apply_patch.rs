//! `apply_patch`: changes files by a patch, all of it or nothing.
//!
//! The engine is [`crate::patch`]; here a plan meets the disk. Models also write the call as a shell
//! command, which [`intercept`] recognises so that no such program is needed in the image.

mod shell_form;

use serde::Deserialize;
use serde_json::Value;

use super::root::{Below, Root};
use super::{Call, Effect, GuestTool, Power, ToolError, ToolOutput, parse_args};
use crate::patch::hosted::Operation;
use crate::patch::parse;
use crate::patch::plan::{self, PatchError, Plan};

pub use self::shell_form::{Intercepted, intercept, intercept_script};

pub const APPLY_PATCH: GuestTool = GuestTool {
    name: "apply_patch",
    effect: Effect::Writes,
    powers: &[Power::Edit],
    #[cfg(feature = "host")]
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| apply_patch(call, args),
};

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "host", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Args {
    /// The entire contents of the `apply_patch` command, from `*** Begin Patch` to `*** End Patch`.
    #[serde(alias = "patch")]
    input: String,
}

/// The freeform form of the tool sends the patch as a bare string.
fn apply_patch(call: &Call<'_>, args: Value) -> Result<ToolOutput, ToolError> {
    let input = match args {
        Value::String(input) => input,
        args => parse_args::<Args>("apply_patch", args)?.input,
    };
    run_patch(call.root, &input, "")
}

/// Applies a patch, all or nothing. Its relative paths start at `cwd`, a folder of the workspace (a
/// path as the model writes one; empty for the root).
pub fn run_patch(root: &Root, patch: &str, cwd: &str) -> Result<ToolOutput, ToolError> {
    let cwd = root.clean(cwd, "").map_err(ToolError::Tell)?;
    let below = Below { root, cwd };
    let plan = parse::parse(patch.as_bytes())
        .map_err(PatchError::from)
        .and_then(|patch| plan::plan(&patch, &below))
        .map_err(|err| ToolError::Tell(err.to_string()))?;
    carry_out(root, &plan)
}

/// Carries out one operation of the hosted tool. Paths start at the root.
pub fn run_hosted(root: &Root, operation: &Operation) -> Result<ToolOutput, ToolError> {
    let below = Below { root, cwd: String::new() };
    let plan =
        plan::plan_hosted(operation, &below).map_err(|err| ToolError::Tell(err.to_string()))?;
    carry_out(root, &plan)
}

fn carry_out(root: &Root, plan: &Plan) -> Result<ToolOutput, ToolError> {
    root.commit(&plan.ops).map_err(|err| {
        ToolError::tell(format!("Failed to write the patched files, nothing was changed: {err}"))
    })?;
    let changed = plan
        .ops
        .iter()
        .filter(|op| !matches!(op, plan::FileOp::MakeDir { .. }))
        .map(|op| op.path().to_owned())
        .collect();
    Ok(ToolOutput { changed, ..ToolOutput::text(plan.summary.text()) })
}
