//! The only way out of a run: connections to allowed hosts, checked by name and by address, and counted.
//!
//! Commands in the sandbox reach it through the relay (a proxy on the sandbox's loopback whose streams
//! end here), tools and MCP servers directly.

/// What a run may reach, and what it has reached.
#[derive(Debug, Default)]
pub struct Egress {}
