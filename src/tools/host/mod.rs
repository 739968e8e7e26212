//! Tools that run beside the agent and never touch the workspace.
//!
//! A host tool is one file with its arguments on top and one line in [`ALL`].

pub mod declined;
pub mod read_diff;
pub mod report_finding;
pub mod run_check;
pub mod update_plan;

use std::sync::Mutex;

use async_trait::async_trait;
use serde_json::Value;

use super::progress::AgentProgress;
use super::review::Desk;
use super::{Effect, ToolError, ToolOutput};
use crate::agent::journal::Journal;
use crate::guest::client::Client;
use crate::review::finding::Finding;
use crate::task::Limits;
use crate::task::plan::Plan;

/// Every host tool.
pub const ALL: &[&dyn Tool] = &[
    &update_plan::UpdatePlan,
    &report_finding::ReportFinding,
    &read_diff::ReadDiff,
    &run_check::RunCheck,
    &declined::McpApprovalRequest,
    &declined::Computer,
];

/// A tool that runs beside the agent.
#[async_trait]
pub trait Tool: Send + Sync {
    fn name(&self) -> &'static str;

    fn effect(&self) -> Effect;

    /// JSON Schema of the arguments, made from the doc comments of the tool's `Args`.
    fn schema(&self) -> Value;

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
    pub review: Option<&'a Desk<'a>>,
}

/// The tool with this name.
pub fn find(name: &str) -> Option<&'static dyn Tool> {
    ALL.iter().find(|tool| tool.name() == name).copied()
}

/// What is reviewed.
///
/// # Errors
/// For the model: this run reviews nothing.
fn desk<'a>(ctx: &HostCall<'a>) -> Result<&'a Desk<'a>, ToolError> {
    ctx.review.ok_or_else(|| ToolError::tell("nothing is reviewed in this run"))
}
