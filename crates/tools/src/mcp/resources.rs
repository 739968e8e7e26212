//! `list_mcp_resources`, `list_mcp_resource_templates` and `read_mcp_resource`: what servers offer to read.
//! They are declared when a connected server has resources.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::server::Server;
use super::{Servers, result, text};
use crate::dynamic::DynamicTool;
use crate::host::HostCall;
use crate::schema;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};
use patchwright_guest::tools::parse_args;
use patchwright_prompt as prompt;

/// Most lines of one list.
const MAX_LINES: usize = 200;
/// Longest name, address or description, in bytes.
const MAX_WORD: usize = 500;
/// Longest word of a server for where its list goes on, in bytes.
const MAX_CURSOR: usize = 2_000;

#[derive(Deserialize, JsonSchema)]
struct ListArgs {
    /// Name of the MCP server; all of them when absent.
    server: Option<String>,
    /// From the answer before, for what follows it. Only with `server`.
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct ReadArgs {
    /// Name of the MCP server.
    server: String,
    /// Address of the resource, as it was listed.
    uri: String,
}

/// Which of the three a tool is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Resources,
    Templates,
    Read,
}

struct ResourceTool {
    kind: Kind,
    description: String,
    schema: Value,
    servers: Arc<Servers>,
}

/// The three tools.
///
/// # Errors
/// When a description is missing: a defect.
pub(super) fn tools(
    servers: &Arc<Servers>,
) -> patchwright_base::error::Result<Vec<Arc<dyn DynamicTool>>> {
    let kinds = [
        (Kind::Resources, schema::of::<ListArgs>()),
        (Kind::Templates, schema::of::<ListArgs>()),
        (Kind::Read, schema::of::<ReadArgs>()),
    ];
    let tool = |(kind, schema): (Kind, Value)| {
        let description = prompt::text(&format!("tools/{}.md", kind.name()))?.trim().to_owned();
        let tool = ResourceTool { kind, description, schema, servers: Arc::clone(servers) };
        Ok(Arc::new(tool) as Arc<dyn DynamicTool>)
    };
    kinds.into_iter().map(tool).collect()
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Resources => "list_mcp_resources",
            Kind::Templates => "list_mcp_resource_templates",
            Kind::Read => "read_mcp_resource",
        }
    }
}

#[async_trait]
impl DynamicTool for ResourceTool {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn schema(&self) -> &Value {
        &self.schema
    }

    /// Reading is all that the protocol lets them do.
    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn origin(&self) -> &'static str {
        "mcp"
    }

    /// Some servers are outside of the sandbox, and change with time.
    fn is_outside(&self) -> bool {
        true
    }

    async fn call(&self, _ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        if self.kind == Kind::Read {
            let args: ReadArgs = parse_args(self.name(), args)?;
            let server = self.server(&args.server)?;
            return Ok(result::of_resource(server.name(), server.read(&args.uri).await?));
        }
        let args: ListArgs = parse_args(self.name(), args)?;
        match &args.server {
            Some(name) => self.list(self.server(name)?, args.cursor).await,
            None if args.cursor.is_some() => {
                Err(ToolError::tell("a `cursor` belongs to one server: say which with `server`"))
            }
            None => self.list_all().await,
        }
    }
}

impl ResourceTool {
    fn server(&self, name: &str) -> Result<&Arc<Server>, ToolError> {
        self.servers.find(name).ok_or_else(|| {
            let names = self.servers.all().iter().map(|server| format!("`{}`", server.name()));
            ToolError::tell(format!(
                "there is no MCP server `{}`; there are {}",
                text::line(name, 64).replace('`', "'"),
                names.collect::<Vec<_>>().join(", ")
            ))
        })
    }

    async fn list_all(&self) -> Result<ToolOutput, ToolError> {
        let mut texts = Vec::new();
        for server in self.servers.all() {
            let text = match self.list(server, None).await {
                Ok(output) => output.text,
                Err(ToolError::Tell(why)) => why,
                Err(broken) => return Err(broken),
            };
            texts.push(format!("{}:\n{text}", server.name()));
        }
        Ok(ToolOutput::text(texts.join("\n\n")))
    }

    async fn list(&self, server: &Server, cursor: Option<String>) -> Result<ToolOutput, ToolError> {
        let (mut lines, next) = if self.kind == Kind::Templates {
            let (templates, next) = server.templates(cursor).await?;
            let line = |it: &rmcp::model::ResourceTemplate| {
                let about = it.description.as_deref().map(|about| format!(": {}", word(about)));
                format!(
                    "{} <{}>{}",
                    word(&it.name),
                    word(&it.uri_template),
                    about.unwrap_or_default()
                )
            };
            (templates.iter().take(MAX_LINES).map(line).collect::<Vec<_>>(), next)
        } else {
            let (resources, next) = server.resources(cursor).await?;
            (resources.iter().take(MAX_LINES).map(result::resource).collect(), next)
        };
        if lines.is_empty() {
            return Ok(ToolOutput::text("(none)"));
        }
        if let Some(next) = next.filter(|next| next.len() <= MAX_CURSOR) {
            lines.push(format!("There are more: call again with `cursor` {}", Value::from(next)));
        }
        Ok(ToolOutput::text(text::marked(server.name(), &lines.join("\n"))))
    }
}

fn word(text: &str) -> String {
    text::line(text, MAX_WORD)
}
