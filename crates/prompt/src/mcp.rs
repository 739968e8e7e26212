//! What a model is told about MCP servers besides what they say themselves.

use minijinja::context;

use super::{list, render, tag_of};
use patchwright_base::error::Result;

/// A prompt of a server that the operator has chosen.
pub fn mcp_prompt(server: &str, name: &str, text: &str) -> Result<String> {
    let tag = tag_of(&[server, name, text]);
    render("context/mcp_prompt.md", context! { server, name, text, tag })
}

/// What a server says of itself when it is connected.
pub fn mcp_instructions(server: &str, text: &str) -> Result<String> {
    let tag = tag_of(&[server, text]);
    render("context/mcp_instructions.md", context! { server, text, tag })
}

/// The tools of servers have changed.
pub fn tools_changed(new: &[String], gone: &[String]) -> Result<String> {
    render("task/tools_changed.md", context! { new => list(new), gone => list(gone) })
}
