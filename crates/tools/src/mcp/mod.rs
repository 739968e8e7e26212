//! MCP servers: their tools as tools of the run, their resources, their ends.
//!
//! [`open()`] starts all servers of a configuration at once: those with a `command` inside the sandbox,
//! those with a `url` over streamable HTTP through the list of allowed hosts. [`connection`] speaks the
//! protocol (the Model Context Protocol, revisions 2024-11-05 to 2026-07-28, by `rmcp`), [`server`] starts
//! again what has ended, [`tools`] makes tools of what is offered, [`result`] outputs of what comes back.
//!
//! A server is foreign and may be hostile: names, descriptions and schemas are cleaned and bounded
//! before a model sees them ([`names`], [`schema`], [`text`]), results are bounded and marked as foreign,
//! what a server asks of us is declined ([`handler`]), floods end the connection. Tokens for servers over HTTP are
//! exchanged by [`oauth`].

mod call_failures;
mod connection;
mod fault;
mod handler;
pub mod headers;
pub mod names;
mod oauth;
pub mod offers;
pub mod open;
mod oversized;
pub mod prompts;
pub mod resources;
pub mod result;
pub mod schema;
pub mod server;
pub mod text;
mod tool_list;
mod tools;
pub mod updates;

use std::sync::Arc;

use futures_util::future::join_all;

pub use self::oauth::login;
pub use self::oauth::token::finish_exchanges;
pub use self::open::{Opened, Outside, open};
use self::server::Server;

/// The connected servers of a run, by name.
#[derive(Default)]
pub struct Servers {
    list: Vec<Arc<Server>>,
}

impl Servers {
    /// The server with this name.
    pub fn find(&self, name: &str) -> Option<&Arc<Server>> {
        self.list.iter().find(|server| server.name() == name)
    }

    /// In the order of their names.
    pub fn all(&self) -> &[Arc<Server>] {
        &self.list
    }

    /// What was used, for the report: a sentence a server that was called, and why it failed.
    pub fn used(&self) -> Vec<String> {
        let used = self.list.iter().filter(|server| server.calls() > 0);
        used.map(|server| {
            let (calls, what) = (server.calls(), server.place());
            let plural = if calls == 1 { "" } else { "s" };
            let failed = server.failures().words();
            let name = server.name();
            format!("the MCP server `{name}` ({what}) was asked {calls} time{plural}{failed}")
        })
        .collect()
    }

    /// Why there are no tokens for servers that want some, or none that suffice, for the report.
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles = Vec::new();
        for server in &self.list {
            let name = server.name();
            troubles.extend(server.trouble().map(|why| {
                format!("there is no token any more for the MCP server `{name}`: {why}")
            }));
            troubles.extend(
                server
                    .lacking()
                    .map(|why| format!("the MCP server `{name}` refused something: {why}")),
            );
        }
        troubles
    }

    /// Ends all of them, at once and in bounded time.
    pub async fn close(&self) {
        join_all(self.list.iter().map(|server| server.close())).await;
    }
}
