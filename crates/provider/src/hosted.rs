//! Tools that the provider itself runs (web search, file search, code execution, remote MCP servers):
//! declared as the operator wrote them, behind our own.
//!
//! A declaration may need a secret. The configuration, the journal and every declaration hold a
//! reference to an environment variable (`${PATCHWRIGHT_TOOL_NAME}`) in its place; [`filled`] puts the secret in just
//! before a request is encoded, and only into these declarations, never into text of the conversation.

use std::collections::{BTreeMap, BTreeSet};

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use super::item::Wire;
use super::{ToolDeclaration, ToolForm};
use patchwright_base::env::{Env, TOOL_SECRET};
use patchwright_base::error::{Failure, Result};

/// Most hosted tools of one configuration.
const MAX_TOOLS: usize = 64;
/// How deep a declaration may be nested.
const MAX_DEPTH: usize = 16;

/// Secrets by the name of their environment variable.
pub type Secrets = BTreeMap<String, SecretString>;

/// Tools that are not the provider's to run, by wire and the beginning of their `type`.
const OURS: &[(Wire, &str)] = &[
    (Wire::Responses, "function"),
    (Wire::Responses, "custom"),
    (Wire::Responses, "local_shell"),
    (Wire::Responses, "apply_patch"),
    (Wire::Responses, "namespace"),
    (Wire::Messages, "custom"),
    (Wire::Messages, "bash_"),
    (Wire::Messages, "text_editor_"),
    (Wire::Messages, "memory_"),
];

/// Fields whose values are secrets wherever they stand.
const SECRET_FIELDS: &[&str] =
    &["authorization", "authorization_token", "api_key", "access_token", "token", "password"];

/// The declarations of a configuration's `hosted-tools`, with references in place of secrets.
///
/// # Errors
/// When an entry does not have the shape of the wire's hosted tools, or holds a secret itself.
pub fn declarations(entries: &[Value], wire: Wire) -> Result<Vec<ToolDeclaration>> {
    if entries.len() > MAX_TOOLS {
        return Err(Failure::usage(format!("`hosted-tools` has more than {MAX_TOOLS} entries")));
    }
    entries.iter().map(|entry| declaration(entry, wire)).collect()
}

fn declaration(entry: &Value, wire: Wire) -> Result<ToolDeclaration> {
    let Value::Object(fields) = entry else {
        return Err(Failure::usage("an entry of `hosted-tools` is not an object")
            .hint("write the provider's own tool object, for example `- type: web_search`"));
    };
    let name = match wire {
        Wire::Responses | Wire::Messages => typed(fields, wire)?,
        Wire::Gemini => single(fields)?,
        // Chat Completions knows function tools only; a hosted tool would be refused by the server.
        Wire::Chat => {
            return Err(Failure::usage("`hosted-tools` cannot be used on the `chat` wire")
                .hint("leave it out, or choose a model that is asked on the provider's own wire"));
        }
    };
    if wire == Wire::Responses && name == "mcp" {
        check_mcp(fields)?;
    }
    check_secrets(&name, entry, MAX_DEPTH)?;
    let form = ToolForm::Native { value: entry.clone() };
    Ok(ToolDeclaration { name, description: String::new(), form })
}

/// The `type` of a tool of the Responses and Messages wires.
fn typed(fields: &Map<String, Value>, wire: Wire) -> Result<String> {
    let kind = fields.get("type").and_then(Value::as_str).filter(|kind| !kind.is_empty());
    let Some(kind) = kind else {
        let example = if wire == Wire::Responses { "web_search" } else { "web_search_20260318" };
        return Err(Failure::usage("an entry of `hosted-tools` has no `type`").hint(format!(
            "this model's provider names its tools by type, for example `{example}`"
        )));
    };
    // OpenAI's `shell` has two forms; the local one asks us to run the commands.
    let is_local_shell = kind == "shell"
        && fields.get("environment").and_then(|it| it.get("type")) == Some(&Value::from("local"));
    let is_ours = OURS.iter().any(|(of, prefix)| {
        *of == wire && (kind == *prefix || (prefix.ends_with('_') && kind.starts_with(prefix)))
    });
    if is_ours || is_local_shell {
        return Err(Failure::usage(format!("`hosted-tools`: `{kind}` is not run by the provider"))
            .hint(
                "tools that work on the repository come with the model's tool profile (`profile`)",
            ));
    }
    if wire == Wire::Messages && !fields.get("name").is_some_and(Value::is_string) {
        return Err(Failure::usage(format!("`hosted-tools`: `{kind}` has no `name`")).hint(
            "the provider wants the tool's name beside its type, for example `name: web_search`",
        ));
    }
    Ok(kind.to_owned())
}

/// The one key of a tool of the Gemini wire.
fn single(fields: &Map<String, Value>) -> Result<String> {
    let mut keys = fields.keys();
    match (keys.next(), keys.next()) {
        (Some(key), None) if key != "functionDeclarations" && key != "type" => Ok(key.clone()),
        (Some(key), None) if key == "functionDeclarations" => {
            Err(Failure::usage("`hosted-tools`: functions are not run by the provider")
                .hint("tools that work on the repository come with the model's tool profile"))
        }
        _ => Err(Failure::usage("an entry of `hosted-tools` is not an object with one key").hint(
            "this model's provider names its tools by key, for example `- googleSearch: {}`",
        )),
    }
}

/// Nobody is there to approve a call, so that a server whose calls all wait for that is useless.
fn check_mcp(fields: &Map<String, Value>) -> Result<()> {
    if !fields.get("server_label").is_some_and(Value::is_string) {
        return Err(Failure::usage("`hosted-tools`: an `mcp` server has no `server_label`"));
    }
    match fields.get("require_approval") {
        Some(Value::String(word)) if word == "never" => Ok(()),
        // An object lists tools that need approval and tools that never do. Calls of the former are
        // declined.
        Some(Value::Object(_)) => Ok(()),
        _ => Err(Failure::usage(
            "`hosted-tools`: the calls of an `mcp` server would wait for an approval, and nobody is asked",
        )
        .hint("write `require_approval: never`, and name the tools you trust in `allowed_tools`")),
    }
}

/// Refuses secrets that are written out.
fn check_secrets(tool: &str, value: &Value, depth: usize) -> Result<()> {
    if depth == 0 {
        return Err(Failure::usage(format!("`hosted-tools`: `{tool}` is nested too deeply")));
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                // A written-out secret would end up in the journal and in reports, which show
                // declarations.
                if is_secret(key, fields) && !value.is_null() {
                    check_reference(tool, key, value)?;
                }
                if let ("headers", Value::Object(headers)) = (key.as_str(), value) {
                    for (name, value) in headers.iter().filter(|(name, _)| is_secret_header(name)) {
                        check_reference(tool, name, value)?;
                    }
                }
                check_secrets(tool, value, depth - 1)?;
            }
            Ok(())
        }
        Value::Array(values) => {
            values.iter().try_for_each(|value| check_secrets(tool, value, depth - 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// A field that holds a secret: by its name, or the value of a `domain_secrets` entry.
fn is_secret(key: &str, fields: &Map<String, Value>) -> bool {
    SECRET_FIELDS.contains(&key)
        || (key == "value" && fields.contains_key("domain") && fields.contains_key("name"))
}

fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["authorization", "key", "token", "secret", "cookie"].iter().any(|word| name.contains(word))
}

fn check_reference(tool: &str, key: &str, value: &Value) -> Result<()> {
    let Value::String(text) = value else {
        return Err(Failure::usage(format!("`hosted-tools`: `{key}` of `{tool}` is not a text"))
            .hint(way(key)));
    };
    if names_in(text).is_empty() {
        return Err(Failure::usage(format!(
            "`hosted-tools`: `{key}` of `{tool}` refers to no secret in the environment"
        ))
        .hint(way(key)));
    }
    Ok(())
}

fn way(key: &str) -> String {
    format!(
        "write `{key}: ${{{TOOL_SECRET}NAME}}`, and put the secret into that environment variable"
    )
}

/// The names of tool secrets in `${NAME}` references of a text; other references are only text.
fn names_in(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        if is_name(name) {
            names.push(name);
            rest = behind;
        } else {
            rest = after;
        }
    }
    names
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.strip_prefix(TOOL_SECRET).is_some_and(|rest| !rest.is_empty() && rest.chars().all(fits))
}

/// The secrets that the declarations refer to, from the environment.
///
/// # Errors
/// When a variable is not set.
pub fn secrets(entries: &[Value], env: &Env) -> Result<Secrets> {
    let mut names = BTreeSet::new();
    for entry in entries {
        collect(entry, &mut names);
    }
    let secret = |name: String| match env.secret(&name) {
        Some(secret) => Ok((name, secret)),
        None => Err(Failure::usage(format!(
            "`hosted-tools` refers to `{name}`, which is not set in the environment"
        ))
        .hint(format!("set `{name}`, or leave the tool out"))),
    };
    names.into_iter().map(secret).collect()
}

fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => names.extend(names_in(text).into_iter().map(str::to_owned)),
        Value::Array(values) => values.iter().for_each(|value| collect(value, names)),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The declarations with the secrets in place of their references: for the wire, and nothing else.
pub fn filled(tools: &[ToolDeclaration], secrets: &Secrets) -> Vec<ToolDeclaration> {
    let fill_one = |tool: &ToolDeclaration| {
        let mut tool = tool.clone();
        if let ToolForm::Native { value } = &mut tool.form {
            fill(value, secrets);
        }
        tool
    };
    tools.iter().map(fill_one).collect()
}

fn fill(value: &mut Value, secrets: &Secrets) {
    match value {
        Value::String(text) => {
            // Only references of the declaration are replaced. A secret that itself contains `${…}`
            // is inserted as it is.
            let names: Vec<String> = names_in(text).into_iter().map(str::to_owned).collect();
            let mut whole = String::with_capacity(text.len());
            let mut rest = text.as_str();
            for name in &names {
                let reference = format!("${{{name}}}");
                if let (Some(secret), Some((before, after))) =
                    (secrets.get(name), rest.split_once(&reference))
                {
                    whole.push_str(before);
                    whole.push_str(secret.expose_secret());
                    rest = after;
                }
            }
            whole.push_str(rest);
            *text = whole;
        }
        Value::Array(values) => values.iter_mut().for_each(|value| fill(value, secrets)),
        Value::Object(fields) => fields.values_mut().for_each(|value| fill(value, secrets)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
