//! Tools that run beside the agent and never touch the workspace.

pub mod update_plan;
