//! From what a model wrote to the checked arguments of a tool, or a message that makes its next call
//! right. Pure; the guest checks once more, because it trusts nobody.

use jsonschema::error::ValidationErrorKind;
use serde_json::{Value, json};

use super::dispatch::printable;
use super::registry::{ResolvedTool, ToolKind};
use super::{schema, spelling};
use patchwright_base::lenient_json;
use patchwright_provider::item::Payload;
use patchwright_types::calls::Fault;

/// Most complaints about one call; the first ones are enough to go on.
const MAX_COMPLAINTS: usize = 8;

/// Why a call cannot be run as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub fault: Fault,
    /// For the model.
    pub message: String,
}

/// Parses and checks the arguments of a call of `tool`; they come out under the tool's own names.
pub fn parse(tool: &ResolvedTool, payload: &Payload) -> Result<Value, Refusal> {
    shown(tool, payload).map(|args| own(tool, args))
}

/// The arguments of a call of `tool` as it shows them, checked.
pub fn shown(tool: &ResolvedTool, payload: &Payload) -> Result<Value, Refusal> {
    let args = match (text_argument(tool), payload) {
        (Some(field), Payload::Freeform(text)) => json!({ field: text }),
        (_, Payload::Freeform(text) | Payload::Json(text) | Payload::Native(text)) => {
            from_json(tool, text)?
        }
    };
    checked(tool, args)
}

/// Arguments that are JSON already, as the tool shows them, checked.
pub fn checked(tool: &ResolvedTool, mut args: Value) -> Result<Value, Refusal> {
    if let Some(alias) = tool.alias {
        spelling::shown(alias, tool.schema(), tool.understood(), &mut args);
        if let Some(message) = spelling::impossible(alias, &args) {
            return Err(Refusal { fault: Fault::Arguments, message });
        }
    }
    if let ToolKind::DynamicTool(extra) = &tool.place {
        args = extra
            .spelled(args)
            .map_err(|err| Refusal { fault: Fault::Arguments, message: err.to_string() })?;
    }
    check(tool, &args)?;
    Ok(args)
}

/// Checked arguments under the tool's own names.
pub fn own(tool: &ResolvedTool, args: Value) -> Value {
    match tool.alias {
        Some(alias) => spelling::own(alias, args),
        None => args,
    }
}

/// The argument of a tool whose calls can be one free text.
fn text_argument(tool: &ResolvedTool) -> Option<&'static str> {
    Some(tool.alias?.free.as_ref()?.argument)
}

fn from_json(tool: &ResolvedTool, text: &str) -> Result<Value, Refusal> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    let takes_code = text_argument(tool) == Some("code");
    let is_code = takes_code && !text.starts_with("{\"");
    let value = if is_code || is_patch(tool, text) {
        serde_json::from_str(text)
    } else {
        lenient_json::read(text)
    };
    match value {
        Ok(Value::String(code)) if takes_code => Ok(json!({ "code": code })),
        // The name that free text has where there are only functions.
        Ok(Value::Object(mut fields)) if takes_code && fields.contains_key("input") => {
            if let Some(code) = fields.shift_remove("input") {
                fields.entry("code").or_insert(code);
            }
            Ok(Value::Object(fields))
        }
        // Some models encode their arguments twice.
        Ok(Value::String(inner)) if !is_patch(tool, &inner) => {
            Ok(lenient_json::read(&inner).unwrap_or(Value::String(inner)))
        }
        Ok(Value::String(patch)) => Ok(json!({ "input": patch })),
        Ok(value) => Ok(value),
        Err(_) if is_patch(tool, text) => Ok(json!({ "input": text })),
        Err(_) if is_code => Ok(json!({ "code": text })),
        Err(err) => Err(Refusal {
            fault: Fault::NotJson,
            message: not_json(&tool.name, &err, tool.schema()),
        }),
    }
}

/// What the model is told of arguments that cannot be read.
pub fn not_json(name: &str, err: &serde_json::Error, schema: &Value) -> String {
    format!(
        "the arguments of `{name}` are not valid JSON: {err}. Send one JSON object: {}",
        schema::shape(schema)
    )
}

fn is_patch(tool: &ResolvedTool, text: &str) -> bool {
    tool.tool == "apply_patch" && text.trim_start().starts_with("*** Begin Patch")
}

fn check(tool: &ResolvedTool, args: &Value) -> Result<(), Refusal> {
    let Some(validator) = tool.validator() else { return check_object(tool, args) };
    if validator.is_valid(args) {
        return Ok(());
    }
    let mut complaints: Vec<String> = validator
        .iter_errors(args)
        .take(MAX_COMPLAINTS)
        .map(|err| complaint(err.kind(), err.instance(), err.instance_path().as_str()))
        .collect();
    complaints.dedup();
    Err(Refusal {
        fault: Fault::Arguments,
        message: format!(
            "the arguments of `{}` do not fit:\n- {}\nexpected: {}",
            tool.name,
            complaints.join("\n- "),
            schema::shape(tool.schema())
        ),
    })
}

/// All that is known of arguments whose schema cannot be used: they are an object.
fn check_object(tool: &ResolvedTool, args: &Value) -> Result<(), Refusal> {
    if args.is_object() {
        return Ok(());
    }
    Err(Refusal {
        fault: Fault::Arguments,
        message: format!(
            "the arguments of `{}` do not fit: they must be a JSON object, and are: {}",
            tool.name,
            kind_of(args)
        ),
    })
}

fn complaint(kind: &ValidationErrorKind, instance: &Value, path: &str) -> String {
    let field = path.trim_start_matches('/').replace('/', ".");
    let place =
        if field.is_empty() { String::new() } else { format!(" in `{}`", printable(&field)) };
    match kind {
        ValidationErrorKind::Required { property } => {
            format!("missing{place}: `{}`", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names =
                unexpected.iter().take(MAX_COMPLAINTS).map(|name| format!("`{}`", printable(name)));
            format!("unexpected{place}: {}", names.collect::<Vec<_>>().join(", "))
        }
        ValidationErrorKind::Type { .. } | ValidationErrorKind::AnyOf { .. } => {
            format!("wrong type{place}: {}", kind_of(instance))
        }
        ValidationErrorKind::Enum { options } => {
            format!("unknown value{place}: it must be one of {options}")
        }
        ValidationErrorKind::Minimum { limit } if limit.as_u64() == Some(0) => {
            format!("below zero{place}: it must be a whole number from 0")
        }
        ValidationErrorKind::Minimum { limit } => format!("too small{place}: at least {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("too large{place}: at most {limit}"),
        ValidationErrorKind::MinItems { limit } => {
            format!("too few items{place}: at least {limit}")
        }
        ValidationErrorKind::MinLength { limit } => format!("too short{place}: at least {limit}"),
        other => format!("`{}` is not met{place}", other.keyword()),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use crate::alias;
    use crate::arguments::*;

    /// What a call of the tool behind an alias becomes, or the words for the model.
    fn parsed(name: &str, args: &Value) -> Result<Value, String> {
        let aliases = [
            &alias::GEMINI_SHELL,
            &alias::GEMINI_READ,
            &alias::READ_MANY,
            &alias::GEMINI_LIST,
            &alias::GEMINI_GLOB,
            &alias::GEMINI_GREP,
            &alias::GREP,
            &alias::BASH,
            &alias::READ_FILE,
            &alias::EXEC_COMMAND,
            &alias::WRITE_STDIN,
            &alias::SPAWN_AGENT,
            &alias::SEND_INPUT,
            &alias::CALL_TOOL,
            &alias::TOOL_SEARCH,
        ];
        let aliases = aliases.into_iter().chain(alias::UNDERSTOOD.iter().copied());
        let alias = aliases.into_iter().find(|alias| alias.name == name).unwrap();
        let tool = ResolvedTool::new(alias).unwrap();
        parse(&tool, &Payload::Json(args.to_string())).map_err(|refusal| refusal.message)
    }

    /// Calls in the words of a family, and what they mean.
    fn check(rows: &[(&str, Value, Value)]) {
        for (name, given, own) in rows {
            assert_eq!(parsed(name, given).as_ref(), Ok(own), "{name} {given}");
        }
    }

    /// Every argument that a family publishes for its tool is understood.
    #[test]
    fn what_families_publish_for_files_is_understood() {
        check(&[
            (
                "list_directory",
                json!({"dir_path": ".", "ignore": ["*.o"], "respect_git_ignore": true,
                    "file_filtering_options": {"respect_gemini_ignore": true}}),
                json!({"dir_path": ".", "ignore": ["*.o"]}),
            ),
            (
                "glob",
                json!({"pattern": "*", "respect_git_ignore": false, "case_sensitive": true}),
                json!({"pattern": "*", "respect_git_ignore": false, "case_sensitive": true}),
            ),
            (
                "read_file",
                json!({"file_path": "a", "start_line": 3, "end_line": 5}),
                json!({"file_path": "a", "offset": 3, "limit": 3, "form": "raw"}),
            ),
            (
                "read_file",
                json!({"file_path": "a", "offset": 0, "pages": "1-2"}),
                json!({"file_path": "a", "form": "raw"}),
            ),
            (
                "read_file",
                json!({"file_path": "a", "start_line": 3, "end_line": -1}),
                json!({"file_path": "a", "offset": 3, "form": "raw"}),
            ),
            (
                "read_many_files",
                json!({"include": "*.rs", "recursive": true, "useDefaultExcludes": true,
                    "file_filtering_options": {"respect_git_ignore": false}}),
                json!({"paths": ["*.rs"], "respect_git_ignore": false}),
            ),
            // A list as its JSON text, and a single name.
            (
                "read_many_files",
                json!({"paths": "[\"a.png\", \"b c\"]"}),
                json!({"paths": ["a.png", "b c"]}),
            ),
            ("read_many_files", json!({"paths": "[ab].py"}), json!({"paths": ["[ab].py"]})),
        ]);
    }

    #[test]
    fn what_families_publish_for_searches_is_understood() {
        check(&[
            (
                "grep_search",
                json!({"pattern": "a", "dir_path": "src", "case_sensitive": false, "context": 2,
                    "fixed_strings": true, "no_ignore": true, "total_max_matches": 5,
                    "exclude_pattern": "", "max_matches_per_file": 1}),
                json!({"pattern": "a", "path": "src", "case_sensitive": false, "before": 2,
                    "after": 2, "fixed_strings": true, "respect_git_ignore": false, "limit": 5,
                    "output": "lines"}),
            ),
            (
                "grep_search",
                json!({"pattern": "a", "names_only": true}),
                json!({"pattern": "a", "output": "files"}),
            ),
            (
                "grep",
                json!({"pattern": "a", "output_mode": "content", "-A": 1, "-n": true, "-i": true,
                    "type": "rust", "head_limit": 0, "multiline": false, "offset": 0}),
                json!({"pattern": "a", "output": "lines", "after": 1, "case_sensitive": false,
                    "include": "*.rs", "limit": 2000}),
            ),
            (
                "grep",
                json!({"pattern": "a", "output_mode": "count", "glob": "*.c", "type": "py"}),
                json!({"pattern": "a", "output": "count", "include": "*.c"}),
            ),
        ]);
    }

    #[test]
    fn what_families_publish_for_commands_and_calls_is_understood() {
        check(&[
            (
                "run_shell_command",
                json!({"command": "make", "is_background": false, "delay_ms": 200,
                    "timeout_ms": 0, "directory": "src"}),
                json!({"command": "make", "workdir": "src", "is_background": false}),
            ),
            (
                "bash",
                json!({"command": "make", "run_in_background": false, "description": "Builds",
                    "dangerouslyDisableSandbox": false, "timeout": 0}),
                json!({"command": "make", "is_background": false}),
            ),
            (
                "spawn_agent",
                json!({"items": [{"type": "text", "text": "Look."}, {"type": "skill", "path": "a"}],
                    "fork_context": false}),
                json!({"message": "Look.\na"}),
            ),
            (
                "send_input",
                json!({"id": "1", "message": "Go.", "items": []}),
                json!({"id": "1", "message": "Go."}),
            ),
            (
                "call_tool",
                json!({"tool_name": "a", "args": "{\"b\": 1}"}),
                json!({"name": "a", "arguments": {"b": 1}}),
            ),
            ("tool_search", json!({"q": "a b", "top_k": 3}), json!({"query": "a b", "limit": 3})),
        ]);
    }

    #[test]
    fn what_editors_publish_for_their_agents_is_understood() {
        check(&[
            (
                "write_to_file",
                json!({"path": "a", "content": "b", "line_count": 1}),
                json!({"file_path": "a", "content": "b"}),
            ),
            ("list_files", json!({"path": "src", "recursive": true}), json!({"dir_path": "src"})),
            (
                "search_files",
                json!({"path": "src", "regex": "a.b", "file_pattern": "*.rs"}),
                json!({"path": "src", "pattern": "a.b", "include": "*.rs", "output": "lines"}),
            ),
            (
                "replace_in_file",
                json!({"path": "a", "diff": "------- SEARCH\nb\n=======\nc\n+++++++ REPLACE\n\n\
                    <<<<<<< SEARCH\nd\n=======\n>>>>>>> REPLACE"}),
                json!({"path": "a", "edits": [
                    {"format": "search-replace", "search": "b\n", "replace": "c\n"},
                    {"format": "search-replace", "search": "d\n", "replace": ""},
                ]}),
            ),
            (
                "edit_file",
                json!({"target_file": "a", "old_text": "b", "new_text": "c", "instructions": "d"}),
                json!({"file_path": "a", "old_string": "b", "new_string": "c"}),
            ),
            (
                "search_replace",
                json!({"file_path": "a", "old_string": "b", "new_string": "c"}),
                json!({"file_path": "a", "old_string": "b", "new_string": "c"}),
            ),
            (
                "search_and_replace",
                json!({"path": "a", "search": "b", "replace": "c"}),
                json!({"file_path": "a", "old_string": "b", "new_string": "c"}),
            ),
            (
                "run_terminal_cmd",
                json!({"command": "make", "is_background": false, "explanation": "Builds"}),
                json!({"command": "make", "is_background": false}),
            ),
            (
                "execute_command",
                json!({"command": "make", "requires_approval": false}),
                json!({"command": "make"}),
            ),
        ]);
        for (name, given, says) in [
            ("edit_file", json!({"target_file": "a", "code_edit": "b"}), "missing: `old_string`"),
            ("replace_in_file", json!({"path": "a", "diff": "-b\n+c"}), "missing: `edits`"),
        ] {
            let text = parsed(name, &given).unwrap_err();
            assert!(text.contains(says), "{name} {given}: {text}");
        }
    }

    #[test]
    fn what_is_neither_shown_nor_understood_is_told() {
        for (name, given, says) in [
            ("bash", json!({"command": "a", "dangerouslyDisableSandbox": true}), "nobody can"),
            ("grep", json!({"pattern": "a", "multiline": true}), "one by one"),
            ("grep", json!({"pattern": "a", "output_mode": "tree"}), "unexpected: `output_mode`"),
            (
                "grep",
                json!({"pattern": "a", "case_sensitive": "no"}),
                "in `case_sensitive`: string",
            ),
            ("bash", json!({"command": "a", "colour": 1}), "unexpected: `colour`"),
        ] {
            let text = parsed(name, &given).unwrap_err();
            assert!(text.contains(says), "{name} {given}: {text}");
        }
        // What is understood is not shown.
        let text = parsed("grep", &json!({"patern": "a"})).unwrap_err();
        assert!(text.contains("\"limit\"?") && !text.contains("case_sensitive"), "{text}");
    }

    #[test]
    fn numbers_below_zero_are_told_in_plain_words() {
        for (name, given, field) in [
            ("exec_command", json!({"cmd": "a", "yield_time_ms": -5}), "yield_time_ms"),
            ("write_stdin", json!({"session_id": -1}), "session_id"),
            ("bash", json!({"command": "a", "timeout_ms": -1}), "timeout_ms"),
        ] {
            let text = parsed(name, &given).unwrap_err();
            let says = format!("below zero in `{field}`: it must be a whole number from 0");
            assert!(text.contains(&says) && text.contains("expected: {"), "{text}");
            assert!(!text.contains("u64") && !text.contains("u32"), "{text}");
        }
        let schema = alias::WRITE_STDIN.schema().unwrap().to_string();
        assert!(!schema.contains("minimum"), "{schema}");
    }
}
