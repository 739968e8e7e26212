//! `apply_patch`: changes files by a patch, all of it or nothing.
//!
//! The engine is [`crate::patch`]; here a plan meets the disk. Models also write the call as a shell
//! command. A whole one is recognised by [`intercept`] and is not run; in the middle of a script it is a
//! [`program`] that commands find.

pub mod program;
mod shell_form;

use serde::Deserialize;
use serde_json::Value;

use super::root::{Below, Naming, Root};
use super::{Call, Effect, GuestTool, Power, ToolError, ToolOutput, parse_args};
use crate::patch::hosted::Operation;
use crate::patch::plan::{self, PatchError, Plan};
use crate::patch::{dialect, parse};

pub use self::shell_form::{Intercepted, NAMES, intercept, intercept_script};

pub const APPLY_PATCH: GuestTool = GuestTool {
    name: "apply_patch",
    effect: Effect::Writes,
    powers: &[Power::Edit],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| apply_patch(call, args),
};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
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
    run_verified(call.root, &input, "")
}

/// Applies a patch, all or nothing. Its relative paths start at `cwd`, a folder of the workspace (a
/// path as the model writes one; empty for the root).
pub fn run_patch(root: &Root, patch: &str, cwd: &str) -> Result<ToolOutput, ToolError> {
    let plan = planned(root, patch, cwd, Naming::AsWritten)?;
    let plan = plan.map_err(|err| ToolError::Tell(err.to_string()))?;
    carry_out(root, &plan)
}

/// Applies a patch and answers in the words of the program that models know: files by absolute paths, and what a text
/// is that is no patch.
pub fn run_named(root: &Root, patch: &str, cwd: &str) -> Result<ToolOutput, ToolError> {
    let plan = planned(root, patch, cwd, Naming::Absolute)?;
    let plan = plan.map_err(|err| ToolError::Tell(explained(patch, &err)))?;
    carry_out(root, &plan)
}

/// Applies a patch and answers in the words of the tool that models know.
pub fn run_verified(root: &Root, patch: &str, cwd: &str) -> Result<ToolOutput, ToolError> {
    let plan = planned(root, patch, cwd, Naming::Absolute)?.map_err(|err| {
        let why = explained(patch, &err);
        ToolError::Tell(format!("apply_patch verification failed: {why}"))
    })?;
    carry_out(root, &plan)
}

/// What a patch would do; the inner error is the patch's own.
fn planned(
    root: &Root,
    patch: &str,
    cwd: &str,
    naming: Naming,
) -> Result<Result<Plan, PatchError>, ToolError> {
    let cwd = root.clean(cwd, "").map_err(ToolError::Tell)?;
    let below = Below { root, cwd, naming };
    Ok(parse::parse(patch.as_bytes())
        .map_err(PatchError::from)
        .and_then(|patch| plan::plan(&patch, &below)))
}

fn explained(patch: &str, err: &PatchError) -> String {
    match dialect::advice(patch, err) {
        None => err.to_string(),
        Some(advice) => format!("{err}\n{advice}"),
    }
}

/// Carries out one operation of the hosted tool. Paths start at the root.
pub fn run_hosted(root: &Root, operation: &Operation) -> Result<ToolOutput, ToolError> {
    let below = Below { root, cwd: String::new(), naming: Naming::AsWritten };
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
