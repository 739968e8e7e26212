//! MCP servers: real ones that nobody here wrote and bad ones of our own, in the guest, over HTTP, and in
//! whole runs.

mod changes;
mod hostile;
mod http;
mod interrupted;
mod login;
mod oauth;
mod prompts;
mod real;
mod run;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use patchwright_base::clock::Clock;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_config::tools::McpServer;
use patchwright_guest::tool::{ToolError, ToolOutput};
use patchwright_journal::Journal;
use patchwright_provider::ToolDeclaration;
use patchwright_sandbox::client::Client;
use patchwright_tools::dynamic::DynamicTool;
use patchwright_tools::host::{HostCall, Nested};
use patchwright_tools::mcp::headers::Headers;
use patchwright_tools::mcp::{self, Opened, Outside};
use patchwright_tools::progress::AgentEvent;
use patchwright_tools::services::Services;
use patchwright_types::plan::Plan;
use serde_json::Value;

use crate::support::bench::limits;

/// What the operator has in the environment.
const SECRETS: [(&str, &str); 4] = [
    ("TEST_TOKEN", "quiet-6f1c77"),
    ("TEST_REFRESH", "refresh-5d20c1-quiet"),
    ("TEST_SECRET", "client-secret-9ab3-quiet"),
    ("TEST_STALE", "refresh-stale-40-quiet"),
];

/// Starts servers for a guest; HTTP reaches everything.
async fn open(client: &Client, servers: &BTreeMap<String, McpServer>) -> Result<Opened> {
    let headers = Headers::look_up(servers, &Env::from_pairs(SECRETS));
    let http = Arc::new(|_: &url::Url| patchwright_provider::http::client());
    mcp::open(servers, &Outside { client, http, headers: &headers }).await
}

/// The failure of a start.
async fn failure(client: &Client, servers: &BTreeMap<String, McpServer>) -> Failure {
    match open(client, servers).await {
        Ok(opened) => panic!("it started, with {} tools", opened.extras.len()),
        Err(failure) => failure,
    }
}

fn names(opened: &Opened) -> Vec<&str> {
    opened.extras.iter().map(|extra| extra.name()).collect()
}

fn find<'a>(opened: &'a Opened, name: &str) -> &'a dyn DynamicTool {
    let found = opened.extras.iter().find(|extra| extra.name() == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {:?}", names(opened))).as_ref()
}

/// Calls nothing.
struct Alone;

#[async_trait::async_trait]
impl Nested for Alone {
    async fn call(&self, name: &str, _args: Value) -> Result<ToolOutput, ToolError> {
        Err(ToolError::tell(format!("`{name}` is not called in this test")))
    }

    fn tools(&self) -> Vec<ToolDeclaration> {
        Vec::new()
    }

    fn deferred(&self) -> Vec<ToolDeclaration> {
        Vec::new()
    }
}

/// Calls a tool.
async fn call(
    client: &Client,
    opened: &Opened,
    name: &str,
    args: Value,
) -> Result<ToolOutput, ToolError> {
    let folder = tempfile::tempdir().unwrap();
    let redact = std::sync::Arc::new(|text: &str| text.to_owned());
    let clock = Clock::new(&Env::default()).unwrap();
    let journal = Journal::create(folder.path(), clock, redact).unwrap();
    let (plan, findings) = (Mutex::new(Plan::default()), Mutex::new(Vec::new()));
    let context = HostCall {
        plan: &plan,
        findings: &findings,
        journal: &journal,
        progress: &|_: AgentEvent<'_>| {},
        client,
        limits: &limits(),
        review: None,
        services: &Services::default(),
        nested: &Alone,
        agents: None,
        id: "call-1",
        is_nested: false,
    };
    find(opened, name).call(&context, args).await
}

/// The words of a result without the tags around them.
fn words(output: &ToolOutput) -> String {
    let foreign = |line: &&str| !line.contains("mcp-");
    output.text.lines().filter(foreign).collect::<Vec<_>>().join("\n")
}

/// What the model is told instead of a result.
fn told(result: Result<ToolOutput, ToolError>) -> String {
    match result {
        Err(ToolError::Tell(text)) => text,
        other => panic!("{other:?}"),
    }
}
