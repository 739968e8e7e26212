//! What the sections `tools`, `mcp` and `network.allow` of a configuration file may say, checked when
//! the file is read, the operator's and the repository's alike.

use std::collections::{BTreeMap, BTreeSet};

use globset::Glob;
use serde_json::Value;

use super::check::{between, entries};
use super::file::{File, Tools};
use super::tools::{CustomTool, Hook, McpAuth, McpServer, compiled};

const MOST_CUSTOM: usize = 100;
const MOST_HOOKS: usize = 50;
const MOST_SERVERS: usize = 50;
/// Prompts of one MCP server that runs are told.
const MOST_PROMPTS: usize = 8;
/// Bytes of a prompt's name and arguments.
const LONGEST_PROMPT: usize = 8_000;
const MOST_VARIABLES: usize = 100;
const LONGEST_DESCRIPTION: usize = 4_000;
const LONGEST_COMMAND: usize = 64 << 10;
const LONGEST_VALUE: usize = 32 << 10;
const LARGEST_SCHEMA: usize = 64 << 10;
const LONGEST_NAME: usize = 64;
/// Seconds that a custom tool, and a hook, may take.
const LONGEST_TOOL: u64 = 24 * 3_600;
const LONGEST_HOOK: u64 = 600;

/// What is wrong with the file, in a sentence that names the key.
pub(super) fn check(file: &File) -> Result<(), String> {
    tools(&file.tools)?;
    if file.mcp.as_ref().is_some_and(|servers| servers.len() > MOST_SERVERS) {
        return Err(format!("`mcp` has more than {MOST_SERVERS} servers"));
    }
    if let Some(search) = &file.web_search {
        search.check()?;
    }
    for (name, server) in file.mcp.iter().flatten() {
        self::server(name, server)?;
    }
    hosts(file.network.allow.as_deref().unwrap_or_default())
}

fn tools(tools: &Tools) -> Result<(), String> {
    patterns("tools.disabled", tools.disabled.as_deref())?;
    patterns("tools.untruncated", tools.untruncated.as_deref())?;
    between("tools.search-above", tools.search_above, 0, 1_000)?;
    between("tools.agents", tools.agents, 0, 64)?;
    entries("tools.agent-models", tools.agent_models.as_deref())?;
    if tools.custom.as_ref().is_some_and(|custom| custom.len() > MOST_CUSTOM) {
        return Err(format!("`tools.custom` has more than {MOST_CUSTOM} tools"));
    }
    for (name, tool) in tools.custom.iter().flatten() {
        custom(name, tool)?;
    }
    if tools.hooks.as_ref().is_some_and(|hooks| hooks.len() > MOST_HOOKS) {
        return Err(format!("`tools.hooks` has more than {MOST_HOOKS} hooks"));
    }
    tools.hooks.iter().flatten().try_for_each(hook)?;
    match &tools.shell_env {
        Some(env) => variables("tools.shell-env", env),
        None => Ok(()),
    }
}

fn custom(name: &str, tool: &CustomTool) -> Result<(), String> {
    let key = format!("tools.custom.{name}");
    if !is_tool_name(name) {
        return Err(format!(
            "`{key}`: the name of a tool has 1 to {LONGEST_NAME} letters, digits, `_` and `-`, and starts \
             with a letter"
        ));
    }
    if name.starts_with("mcp__") {
        return Err(format!("`{key}`: names that start with `mcp__` are those of MCP servers"));
    }
    let described = tool.description.trim();
    if described.is_empty() || described.len() > LONGEST_DESCRIPTION {
        return Err(format!("`{key}.description` must have 1 to {LONGEST_DESCRIPTION} bytes"));
    }
    command(&key, &tool.command)?;
    between(&format!("{key}.timeout-seconds"), tool.timeout_seconds, 1, LONGEST_TOOL)?;
    match &tool.parameters {
        Some(parameters) => schema(&format!("{key}.parameters"), parameters),
        None => Ok(()),
    }
}

fn schema(key: &str, schema: &Value) -> Result<(), String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(format!("`{key}` must be a JSON Schema with `type: object`"));
    }
    if schema.to_string().len() > LARGEST_SCHEMA {
        return Err(format!("`{key}` is larger than {LARGEST_SCHEMA} bytes"));
    }
    compiled(schema).map_err(|why| format!("`{key}` is not a usable JSON Schema: {why}"))?;
    let mut seen = BTreeSet::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    for name in properties.into_iter().flat_map(serde_json::Map::keys) {
        let variable: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if name.is_empty() || !seen.insert(variable.to_ascii_uppercase()) {
            return Err(format!("`{key}`: the argument `{name}` has the variable of another one"));
        }
    }
    Ok(())
}

fn hook(hook: &Hook) -> Result<(), String> {
    patterns("tools.hooks.tools", Some(&hook.tools))?;
    command("tools.hooks", &hook.command)?;
    between("tools.hooks.timeout-seconds", hook.timeout_seconds, 1, LONGEST_HOOK)
}

fn command(key: &str, command: &str) -> Result<(), String> {
    if command.trim().is_empty() || command.len() > LONGEST_COMMAND || command.contains('\0') {
        return Err(format!("`{key}.command` must have 1 to {LONGEST_COMMAND} bytes"));
    }
    Ok(())
}

fn server(name: &str, server: &McpServer) -> Result<(), String> {
    let key = format!("mcp.{name}");
    if !is_tool_name(name) {
        return Err(format!(
            "`{key}`: the name of a server has 1 to {LONGEST_NAME} letters, digits, `_` and `-`, and \
             starts with a letter"
        ));
    }
    if !server.command.is_empty() && server.url.is_some() {
        return Err(format!("`{key}` has both `command` and `url`; a server has one of them"));
    }
    if server.auth.is_some() && server.url.is_none() {
        return Err(format!("`{key}.auth` is for servers with `url`"));
    }
    let has_own = server.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    if server.auth.is_some() && has_own {
        return Err(format!(
            "`{key}` has both `auth` and a header `Authorization`; a request has one of them"
        ));
    }
    let has_both = |auth: &McpAuth| auth.refresh_token.is_some() && auth.token_file.is_some();
    if server.auth.as_ref().is_some_and(has_both) {
        return Err(format!(
            "`{key}.auth` has both `refresh-token` and `token-file`; there is one refresh token"
        ));
    }
    patterns(&format!("{key}.tools"), Some(&server.tools))?;
    variables(&format!("{key}.env"), &server.env)?;
    prompts(&format!("{key}.prompts"), &server.prompts)?;
    between(&format!("{key}.start-timeout-seconds"), server.start_timeout_seconds, 1, 3_600)?;
    between(&format!("{key}.timeout-seconds"), server.timeout_seconds, 1, LONGEST_TOOL)
}

fn prompts(key: &str, all: &BTreeMap<String, BTreeMap<String, String>>) -> Result<(), String> {
    if all.len() > MOST_PROMPTS {
        return Err(format!("`{key}` has more than {MOST_PROMPTS} prompts"));
    }
    for (name, arguments) in all {
        let size: usize = arguments.iter().map(|(name, value)| name.len() + value.len()).sum();
        if name.is_empty() || name.len() + size > LONGEST_PROMPT {
            return Err(format!(
                "`{key}`: a prompt has a name, and at most {LONGEST_PROMPT} bytes with its arguments"
            ));
        }
    }
    Ok(())
}

/// Globs of tool names.
fn patterns(key: &str, globs: Option<&[String]>) -> Result<(), String> {
    entries(key, globs)?;
    for glob in globs.unwrap_or_default() {
        Glob::new(glob)
            .map_err(|err| format!("`{glob}` in `{key}` is not a valid pattern: {err}"))?;
    }
    Ok(())
}

fn variables(key: &str, env: &BTreeMap<String, String>) -> Result<(), String> {
    if env.len() > MOST_VARIABLES {
        return Err(format!("`{key}` has more than {MOST_VARIABLES} variables"));
    }
    for (name, value) in env {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_named = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !is_named || !name.chars().all(plain) {
            return Err(format!("`{name}` in `{key}` is no name of a variable"));
        }
        if value.len() > LONGEST_VALUE || value.contains('\0') {
            return Err(format!(
                "`{key}.{name}` is longer than {LONGEST_VALUE} bytes, or has a NUL"
            ));
        }
    }
    Ok(())
}

fn hosts(hosts: &[String]) -> Result<(), String> {
    entries("network.allow", Some(hosts))?;
    let is_address = |host: &str| host.contains("://") || host.contains('/');
    match hosts.iter().find(|host| *host == "*" || is_address(host)) {
        Some(host) => Err(format!(
            "`{host}` in `network.allow` is no host; write its name, such as `docs.rs`, or `*.docs.rs` for \
             everything below it"
        )),
        None => Ok(()),
    }
}

fn is_tool_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(plain)
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
}
