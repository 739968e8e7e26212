//! MCP servers: their tools as tools of the run, their resources, their ends.

/// The connected servers of a run.
#[derive(Debug, Default)]
pub struct Servers {}
