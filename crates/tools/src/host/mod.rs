//! Tools that run beside the agent, in our own process. None opens a file of the workspace itself: what one
//! does there (a check, a script, a command of the operator) is a command in the sandbox.
//!
//! A host tool is one file with its arguments on top and one line in [`ALL`].

pub mod agents;
pub mod code_mode;
pub mod confirm_finding;
pub mod declined;
pub mod install_dependencies;
pub mod js_repl;
mod line_writer;
pub mod read_diff;
pub mod report_finding;
pub mod run_check;
mod script_text;
pub mod tool_search;
pub mod update_plan;
pub mod web_fetch;
pub mod web_search;
pub mod withdraw_finding;

use parking_lot::Mutex;

use async_trait::async_trait;
use serde_json::Value;

use super::progress::AgentProgress;
use super::requirement::Requirement;
use super::review::ReviewContext;
use super::services::Services;
use patchwright_guest::tool::{Effect, Power, ToolError, ToolOutput};
use patchwright_journal::Journal;
use patchwright_provider::ToolDeclaration;
use patchwright_review::finding::Finding;
use patchwright_sandbox::client::Client;
use patchwright_types::plan::Plan;
use patchwright_types::task::Limits;

/// Every host tool.
pub const ALL: &[&dyn Tool] = &[
    &update_plan::UpdatePlan,
    &report_finding::ReportFinding,
    &confirm_finding::ConfirmFinding,
    &withdraw_finding::WithdrawFinding,
    &read_diff::ReadDiff,
    &run_check::RunCheck,
    &declined::McpApprovalRequest,
    &declined::Computer,
    &declined::AskUser,
    &js_repl::JsRepl,
    &js_repl::Reset,
    &code_mode::Exec,
    &code_mode::Wait,
    &agents::SPAWN_AGENT,
    &agents::SEND_INPUT,
    &agents::RESUME_AGENT,
    &agents::WAIT,
    &agents::CLOSE_AGENT,
    &agents::TASK,
    &tool_search::ToolSearch,
    &tool_search::CallTool,
];

/// A tool that runs beside the agent.
#[async_trait]
pub trait Tool: Send + Sync {
    fn name(&self) -> &'static str;

    fn effect(&self) -> Effect;

    /// What it gives to the profile that declares it; the first one is what it needs. Most host tools have
    /// one name and stand for nothing but themselves.
    fn powers(&self) -> &'static [Power] {
        &[]
    }

    /// JSON Schema of the arguments, made from the doc comments of the tool's `Args`.
    fn schema(&self) -> Value;

    /// A call passes the gate, together with other reads or alone. Not for tools that make calls
    /// themselves or wait for agents that do: those pass it one by one.
    fn takes_gate(&self) -> bool {
        true
    }

    /// What must be there; the tool withdraws from a run that lacks any of it.
    fn needs(&self) -> &'static [Requirement] {
        &[]
    }

    /// A call that was interrupted can simply be made again, and has changed nothing in the workspace.
    fn is_repeatable(&self) -> bool {
        self.effect() == Effect::Reads
    }

    /// Does the work. The arguments have been checked against the schema.
    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError>;
}

/// What a host tool may use.
pub struct HostCall<'a> {
    pub plan: &'a Mutex<Plan>,
    /// What a review has found so far.
    pub findings: &'a Mutex<Vec<Finding>>,
    pub journal: &'a Journal,
    pub progress: &'a dyn AgentProgress,
    /// The sandbox, for what runs there without being a guest tool.
    pub client: &'a Client,
    pub limits: &'a Limits,
    /// What is reviewed, in a review.
    pub review: Option<&'a ReviewContext<'a>>,
    pub services: &'a Services,
    /// For tools that call tools.
    pub nested: &'a dyn Nested,
    /// For tools that start agents; none in a sub-agent of the deepest level.
    pub agents: Option<&'a dyn Agents>,
    /// The call that is being run, for tools that care about its id or its form.
    pub id: &'a str,
    /// Another call makes it, not the model.
    pub is_nested: bool,
}

/// Calls from inside a call: the same seven steps, journalled as part of the outer one.
#[async_trait]
pub trait Nested: Send + Sync {
    /// Runs a tool by the name that the model would call.
    async fn call(&self, name: &str, args: Value) -> Result<ToolOutput, ToolError>;

    /// What can be called, as it would be declared to a model with functions: also those that are
    /// found by searching.
    fn tools(&self) -> Vec<ToolDeclaration>;

    /// Those that are found by searching.
    fn deferred(&self) -> Vec<ToolDeclaration>;
}

/// The sub-agents of a run.
#[async_trait]
pub trait Agents: Send + Sync {
    /// Does one of the calls `spawn_agent`, `send_input`, `resume_agent`, `wait`, `close_agent` and `task`.
    /// A call with an id that has been seen before does nothing twice.
    async fn call(
        &self,
        tool: &str,
        ctx: &HostCall<'_>,
        args: Value,
    ) -> Result<ToolOutput, ToolError>;
}

/// The tool with this name.
pub fn find(name: &str) -> Option<&'static dyn Tool> {
    ALL.iter().find(|tool| tool.name() == name).copied()
}

/// What is reviewed.
///
/// # Errors
/// For the model: this run reviews nothing.
fn review_context<'a>(ctx: &HostCall<'a>) -> Result<&'a ReviewContext<'a>, ToolError> {
    ctx.review.ok_or_else(|| ToolError::tell("nothing is reviewed in this run"))
}
