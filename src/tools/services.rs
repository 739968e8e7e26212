//! What the tools of one run share besides the sandbox: made when the run's sandbox is up, before the
//! first request.

use std::sync::Arc;

use tokio::sync::RwLock;

use crate::config::tools::Tools;
use crate::egress::Egress;
use crate::mcp::Servers;
use crate::tools::host::code_mode::Scripts;
use crate::tools::host::js_repl::Kernel;

/// Shared by the calls of a run, those of its sub-agents too.
#[derive(Default)]
pub struct Services {
    pub config: Tools,
    /// The way out, when hosts are allowed.
    pub egress: Option<Arc<Egress>>,
    /// The Node process of `js_repl`.
    pub kernel: Kernel,
    /// Scripts that have not ended, and what they stored.
    pub scripts: Scripts,
    /// The connected MCP servers.
    pub servers: Option<Arc<Servers>>,
    /// Reads share it, a write has it alone, whichever agent makes the call. It is fair, so calls pass in
    /// the order in which they were made.
    pub gate: RwLock<()>,
}
