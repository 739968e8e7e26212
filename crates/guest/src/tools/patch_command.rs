//! A command that is nothing but a patch: applied here instead of by a program, and answered as the program
//! would have answered.

use std::time::Instant;

use super::apply_patch::{self, Intercepted, intercept_script};
use super::{Call, ToolError, ToolOutput};
use crate::output::BoundedOutput;
use crate::programs::Patches;
use crate::tool::CommandOutput;

/// What became of it.
pub(super) struct Patched {
    pub command: CommandOutput,
    /// Paths that it changed, relative to the workspace.
    pub changed: Vec<String>,
}

/// The patch that a script is, where patches in commands are applied.
pub(super) fn in_script(patches: Patches, script: &str) -> Option<Intercepted> {
    if patches == Patches::Nowhere { None } else { intercept_script(script) }
}

/// Applies a patch where the command would have run: `workdir` is its folder, as the model writes one.
pub(super) fn apply(
    call: &Call<'_>,
    found: &Intercepted,
    workdir: &str,
    output_cap: usize,
) -> Result<Patched, ToolError> {
    let started = Instant::now();
    let folder = |path: &str, cwd: &str| call.root.clean(path, cwd).map_err(ToolError::Tell);
    let applied = folder(workdir, "")
        .and_then(|workdir| folder(found.cwd.as_deref().unwrap_or("."), &workdir))
        .and_then(|cwd| apply_patch::run_verified(call.root, &found.patch, &cwd));
    let (code, text, changed) = match applied {
        Ok(ToolOutput { text, changed, .. }) => (0, text, changed),
        Err(ToolError::Tell(why)) => (1, format!("{why}\n"), Vec::new()),
        Err(broken @ ToolError::Broken(_)) => return Err(broken),
    };
    let mut kept = BoundedOutput::new(output_cap);
    kept.push(text.as_bytes());
    let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(Patched { command: kept.finish(code, took), changed })
}

impl From<Patched> for ToolOutput {
    fn from(Patched { command, changed }: Patched) -> ToolOutput {
        ToolOutput {
            success: command.exit_code == 0,
            command: Some(command),
            changed,
            ..ToolOutput::default()
        }
    }
}
