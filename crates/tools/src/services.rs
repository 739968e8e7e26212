//! What the tools of one run share besides the sandbox: made when the run's sandbox is up, before the
//! first request.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use tokio::sync::RwLock;

use crate::checkpoints::Checkpoints;
use crate::hooks::FailedHooks;
use crate::host::code_mode::Scripts;
use crate::host::js_repl::Kernel;
use crate::mcp::Servers;
use crate::mcp::updates::ToolUpdates;
use crate::rules::Rules;
use patchwright_config::tools::Tools;
use patchwright_sandbox::egress::Egress;

/// Shared by the calls of a run, those of its sub-agents too.
#[derive(Default)]
pub struct Services {
    pub config: Tools,
    /// Made of `config` when they are first asked for ([`Services::rules`]).
    pub rules: OnceLock<Rules>,
    /// The hooks of them that have failed.
    pub failed_hooks: FailedHooks,
    /// The way out, when hosts are allowed.
    pub egress: Option<Arc<Egress>>,
    /// The Node process of `js_repl`.
    pub kernel: Kernel,
    /// Scripts that have not ended, and what they stored.
    pub scripts: Scripts,
    /// The connected MCP servers.
    pub servers: Option<Arc<Servers>>,
    /// How their tools are declared again when they change.
    pub updates: Option<Arc<ToolUpdates>>,
    /// Reads share it, a write has it alone, whichever agent makes the call. It is fair, so calls pass in
    /// the order in which they were made.
    pub gate: RwLock<()>,
    /// Setup has run again: the run is to be resumed in a new sandbox before the model is asked again.
    pub has_new_setup: AtomicBool,
    /// Keeps what calls do to the workspace.
    pub checkpoints: Checkpoints,
}

impl Services {
    /// The operator's rules about calls.
    pub fn rules(&self) -> &Rules {
        self.rules.get_or_init(|| Rules::of(&self.config))
    }
}
