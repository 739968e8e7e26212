//! What the model can call besides its profile's own tools, and what surrounds calls.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jsonschema::{PatternOptions, Retrieve, Uri, Validator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Tools of the configuration, and what surrounds calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Tools {
    /// Tools that are neither declared nor run, by the name that the model sees; globs.
    pub disabled: Vec<String>,
    /// Tools whose outputs are not shortened for the model (the sandbox's own bound stays); globs. A name
    /// for commands stands for all of them, as in `disabled`.
    pub untruncated: Vec<String>,
    /// With more tools from servers and configuration than this, they are found with `tool_search`
    /// instead of being declared. 30 when absent.
    pub search_above: Option<usize>,
    /// Commands that the model can call as tools, by name.
    pub custom: BTreeMap<String, CustomTool>,
    /// Commands that run before or after calls, in order.
    pub hooks: Vec<Hook>,
    /// Added to the environment of every command that the model runs.
    pub shell_env: BTreeMap<String, String>,
    /// Sub-agents: how many may work at the same time (0 for none; 4 when absent).
    pub agents: Option<usize>,
    /// A folder with agent files of the operator's own, besides those of the repository.
    pub agent_files: Option<PathBuf>,
    /// Models that agent files of the repository may choose, as after `--model`; at the same provider as
    /// the run's.
    pub agent_models: Vec<String>,
    /// Offer `js_repl` where the sandbox has Node. False when absent.
    pub js_repl: Option<bool>,
}

/// A command that is offered as a tool. It runs in the sandbox, with the arguments as JSON on standard
/// input and as `TOOL_<NAME>` variables; what it prints is the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CustomTool {
    /// For the model: what it does, and when to use it.
    pub description: String,
    /// Run by the sandbox's shell.
    pub command: String,
    /// JSON Schema of the arguments, an object; none when absent.
    #[serde(default)]
    pub parameters: Option<Value>,
    /// It changes nothing, so it may run beside other reading calls, and in plan mode.
    #[serde(default)]
    pub reads: bool,
    /// Seconds; the run's command limit when absent.
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
}

/// A command around calls. It gets the call as JSON on standard input and may answer with JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Hook {
    pub when: When,
    /// Names of tools that it is about, as the model sees them; globs. Every tool when absent.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Run by the sandbox's shell.
    pub command: String,
    /// Seconds; 30 when absent. A hook that fails or takes longer denies the call (before) or is noted
    /// (after).
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// May change the arguments or deny the call.
    Before,
    /// May add a note to the result.
    After,
}

/// An MCP server: `command` for one that is started in the sandbox, `url` for one that is reached over
/// HTTP through the list of allowed hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct McpServer {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Its environment, besides the sandbox's own.
    pub env: BTreeMap<String, String>,
    /// Address of its streamable HTTP endpoint.
    pub url: Option<String>,
    /// Sent with every request; `${NAME}` stands for an environment variable of Patchwright's own, whose
    /// value is in no journal.
    pub headers: BTreeMap<String, String>,
    /// How tokens for it are had.
    pub auth: Option<McpAuth>,
    /// Which of its tools are offered; globs, all when empty.
    pub tools: Vec<String>,
    /// Those of its prompts that every run is told, by name, with their arguments.
    pub prompts: BTreeMap<String, BTreeMap<String, String>>,
    /// For the start and for a call, each; 30 and 120 when absent.
    pub start_timeout_seconds: Option<u64>,
    pub timeout_seconds: Option<u64>,
}

/// Tokens by OAuth 2 for a server over HTTP, from what the operator has: nobody logs in during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct McpAuth {
    /// The authorization server, as it names itself.
    pub issuer: String,
    /// Under which the client is registered there; empty where `patchwright mcp login` registers one.
    pub client_id: String,
    /// `${NAME}` stands for an environment variable of Patchwright's own.
    pub client_secret: Option<String>,
    /// `${NAME}` stands for an environment variable of Patchwright's own. Without a refresh token the client's own
    /// credentials are used.
    pub refresh_token: Option<String>,
    /// A file of the operator's with a refresh token, which is replaced there when the server replaces it. A client that
    /// was registered for it is there, too.
    pub token_file: Option<PathBuf>,
    pub scopes: Vec<String>,
}

/// A schema, ready to check arguments. It is never looked up anywhere, and its patterns take linear time.
///
/// # Errors
/// Why it cannot be used, in a sentence.
pub fn compiled(schema: &Value) -> Result<Validator, String> {
    jsonschema::options()
        .with_retriever(NoRemoteSchemas)
        .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN))
        .build(schema)
        .map_err(|err| err.to_string())
}

/// Bytes of a compiled pattern.
const MAX_PATTERN: usize = 1 << 20;

/// Schemas that refer to other places are not followed there.
struct NoRemoteSchemas;

impl Retrieve for NoRemoteSchemas {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("`{uri}` is not looked up").into())
    }
}

impl CustomTool {
    /// How long it may run, when it says so.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_seconds.map(Duration::from_secs)
    }
}
