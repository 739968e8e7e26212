//! Arguments as models spell them, brought into the names that the called tool shows, and from there
//! into its own. Pure, and lenient: what does not fit is left for the check to complain about.

mod values;

use serde_json::{Map, Value, json};

use super::alias::ToolAlias;
use super::schema;
use patchwright_review::finding::Priority;
pub(super) use values::impossible;

/// Other names of arguments: the tools that have them, the other name, the tool's own name.
const SYNONYMS: &[(&[&str], &str, &str)] = &[
    (SHELLS, "cmd", "command"),
    (SHELLS, "script", "command"),
    (&["shell_command", "bash"], "run_in_background", "is_background"),
    (&["shell_command", "bash"], "background", "is_background"),
    (SHELLS, "cwd", "workdir"),
    (SHELLS, "working_directory", "workdir"),
    (SHELLS, "dir_path", "workdir"),
    (SHELLS, "directory", "workdir"),
    (SHELLS, TIMEOUT, "timeout_ms"),
    (&["exec_command"], "command", "cmd"),
    (&["exec_command"], "script", "cmd"),
    (&["exec_command"], "cwd", "workdir"),
    (&["exec_command"], "working_directory", "workdir"),
    (&["exec_command"], "dir_path", "workdir"),
    (&["exec_command"], "directory", "workdir"),
    (&["exec_command"], "pty", "tty"),
    (SESSIONS, "timeout_ms", "yield_time_ms"),
    (SESSIONS, TIMEOUT, "yield_time_ms"),
    (SESSIONS, "max_tokens", "max_output_tokens"),
    (&["write_stdin"], "session", "session_id"),
    (&["write_stdin"], "id", "session_id"),
    (&["write_stdin"], "process_id", "session_id"),
    (&["write_stdin"], "input", "chars"),
    (&["write_stdin"], "text", "chars"),
    (&["write_stdin"], "data", "chars"),
    (&["apply_patch"], "patch", "input"),
    (&["apply_patch"], "patchText", "input"),
    (&["apply_patch"], "content", "input"),
    (FILES, "path", "file_path"),
    (FILES, "absolute_path", "file_path"),
    (FILES, "filePath", "file_path"),
    (FILES, "filename", "file_path"),
    (FILES, "filepath", "file_path"),
    (FILES, "target_file", "file_path"),
    (&["read_file"], "start_line_one_indexed", "start_line"),
    (&["read_file"], "end_line_one_indexed_inclusive", "end_line"),
    (&["write_file"], "contents", "content"),
    (&["write_file"], "file_text", "content"),
    (&["write_file"], "text", "content"),
    (&["replace"], "old_str", "old_string"),
    (&["replace"], "oldString", "old_string"),
    (&["replace"], "old_text", "old_string"),
    (&["replace"], "oldText", "old_string"),
    (&["replace"], "search", "old_string"),
    (&["replace"], "new_str", "new_string"),
    (&["replace"], "newString", "new_string"),
    (&["replace"], "new_text", "new_string"),
    (&["replace"], "newText", "new_string"),
    (&["replace"], "replace", "new_string"),
    (&["replace"], "replace_all", "allow_multiple"),
    (&["replace"], "replaceAll", "allow_multiple"),
    (&["text_editor"], "file_path", "path"),
    (&["text_editor"], "old_string", "old_str"),
    (&["text_editor"], "new_string", "new_str"),
    (&["text_editor"], "content", "file_text"),
    (&["text_edit"], "file_path", "path"),
    (&["text_edit"], "filePath", "path"),
    (&["text_edit"], "target_file", "path"),
    (&["read_many_files"], "files", "paths"),
    (&["read_many_files"], "file_paths", "paths"),
    (&["list_dir"], "path", "dir_path"),
    (&["list_dir"], "directory", "dir_path"),
    (&["list_dir"], "relative_workspace_path", "dir_path"),
    (SEARCHES, "query", "pattern"),
    (SEARCHES, "regex", "pattern"),
    (SEARCHES, "dir_path", "path"),
    (SEARCHES, "directory", "path"),
    (&["grep_files"], "glob", "include"),
    (&["grep_files"], "include_pattern", "include"),
    (&["grep_files"], "file_pattern", "include"),
    (SEARCHES, "max_matches", "limit"),
    (SEARCHES, "max_results", "limit"),
    (&["grep_files"], "literal", "fixed_strings"),
    (&["glob"], "head_limit", "limit"),
    (&["list_dir"], "ignore_patterns", "ignore"),
    (&["view_image"], "file_path", "path"),
    (&["update_plan"], "todos", "plan"),
    (&["update_plan"], "steps", "plan"),
    (&["spawn_agent"], "prompt", "message"),
    (&["spawn_agent"], "task", "message"),
    (&["spawn_agent"], "subagent_type", "agent_type"),
    (&["task"], "message", "message"),
    (&["send_input", "resume_agent", "close_agent"], "target", "id"),
    (&["send_input", "resume_agent", "close_agent"], "agent_id", "id"),
    (&["send_input"], "prompt", "message"),
    (&["wait"], "targets", "ids"),
    (&["wait"], "agent_ids", "ids"),
    (&["tool_search"], "q", "query"),
    (&["tool_search"], "keywords", "query"),
    (&["tool_search"], "max_results", "limit"),
    (&["tool_search"], "top_k", "limit"),
    (&["call_tool"], "tool_name", "name"),
    (&["call_tool"], "tool", "name"),
    (&["call_tool"], "args", "arguments"),
    (&["call_tool"], "input", "arguments"),
    (&["call_tool"], "parameters", "arguments"),
    (&["call_tool"], "params", "arguments"),
];

const SHELLS: &[&str] = &["shell_command", "shell", "bash", "hosted_shell"];
const SESSIONS: &[&str] = &["exec_command", "write_stdin"];
const FILES: &[&str] = &["read_file", "write_file", "replace"];
const SEARCHES: &[&str] = &["grep_files", "glob"];

/// In milliseconds in some families, in seconds in others.
const TIMEOUT: &str = "timeout";
/// A smaller time limit is one in seconds.
const LEAST_MS: u64 = 1_000;

/// What other families show and no tool of ours needs. It is dropped where it is not shown.
const IGNORED_ARGS: &[&str] = &[
    "sandbox_permissions",
    "justification",
    "prefix_rule",
    "description",
    "instruction",
    "type",
    "wait_for_previous",
    "respect_gemini_ignore",
    "explanation",
    "instructions",
    "requires_approval",
    "task_progress",
];

/// What the families of these tools show and they do not need: hints, what they always do, and limits of
/// their own.
const IGNORED_ARGS_BY_TOOL: &[(&[&str], &[&str])] = &[
    (SHELLS, &["delay_ms", "max_output_tokens", "yield_time_ms", "tty"]),
    (&["exec_command"], &["run_in_background", "is_background", "environment_id"]),
    (&["read_file"], &["pages", "should_read_entire_file"]),
    (&["write_file"], &["modified_by_user", "ai_proposed_content", "overwrite", "line_count"]),
    (&["replace"], &["modified_by_user", "ai_proposed_content"]),
    (&["read_many_files"], &["recursive", "useDefaultExcludes"]),
    (&["list_dir"], &["respect_git_ignore", "recursive", "show_hidden"]),
    (SEARCHES, &["-n", "show_line_numbers", "max_matches_per_file", "exclude_pattern"]),
    (&["view_image"], &["detail"]),
    (&["update_plan"], &["merge"]),
    (
        &["spawn_agent", "task"],
        &["fork_context", "fork_turns", "model", "reasoning_effort", "task_name", "isolation"],
    ),
];

/// How deep arguments are looked into for fields that are `null`.
const MAX_DEPTH: usize = 16;

/// Names of a step's text in other families' plans.
const STEP_TEXTS: &[&str] = &["step", "description", "content", "title", "text"];

/// Brings the arguments into the names that the alias shows, or understands; what says nothing is dropped.
/// What asks for more rights is kept where it is shown, because the tool answers that.
pub fn shown(alias: &ToolAlias, schema: &Value, understood: &Value, args: &mut Value) {
    let Value::Object(fields) = args else { return };
    let has = |schema: &Value, name: &str| {
        schema.get("properties").is_some_and(|properties| properties.get(name).is_some())
    };
    let is_shown = |name: &str| has(schema, name);
    let is_idle = |name: &str| {
        let of_tool = IGNORED_ARGS_BY_TOOL.iter().filter(|(tools, _)| tools.contains(&alias.tool));
        IGNORED_ARGS.contains(&name)
            || of_tool.flat_map(|(_, names)| *names).any(|idle| *idle == name)
    };
    fields.values_mut().for_each(whole_numbers);
    values::own(alias, fields);
    let names: Vec<String> = fields.keys().filter(|name| !is_shown(name)).cloned().collect();
    for name in names {
        let synonym = SYNONYMS
            .iter()
            .find(|(tools, other, _)| tools.contains(&alias.tool) && *other == name)
            .map(|(_, _, ours)| *ours);
        let ours = synonym.unwrap_or(&name);
        let theirs = alias.theirs(ours).unwrap_or(ours);
        match Some(theirs).filter(|it| has(understood, it) && !fields.contains_key(*it)) {
            Some(target) => {
                let target = target.to_owned();
                let value = fields.shift_remove(&name).unwrap_or_default();
                let value = if name == TIMEOUT { in_milliseconds(value) } else { value };
                fields.insert(target, value);
            }
            None if is_idle(&name) => {
                fields.shift_remove(&name);
            }
            None => {}
        }
    }
    match alias.tool {
        "shell_command" | "bash" => words_to_script(fields, "command"),
        "exec_command" => words_to_script(fields, "cmd"),
        "shell" => script_to_words(fields),
        "update_plan" => plan(alias, fields),
        "report_finding" => {
            priority(fields);
            confidence(fields);
            number(fields, "line");
        }
        "confirm_finding" | "withdraw_finding" => number(fields, "finding"),
        _ => {}
    }
    drop_nulls(understood, args, MAX_DEPTH);
}

/// A priority as reviews write it, `P1`, or as text.
fn priority(fields: &mut Map<String, Value>) {
    let Some(said @ Value::String(_)) = fields.get_mut("priority") else { return };
    if let Some(number) = said.as_str().and_then(Priority::spelled) {
        *said = json!(number.number());
    }
}

/// A confidence in percent, or as text. What might be of a scale to 5 or 10 is left as it is.
fn confidence(fields: &mut Map<String, Value>) {
    let Some(said) = fields.get_mut("confidence") else { return };
    let spelled = said.as_str().map(|text| text.trim().trim_end_matches('%'));
    let is_percent = said.as_str().is_some_and(|text| text.trim().ends_with('%'));
    let value = match spelled {
        Some(text) => text.trim_end().parse::<f64>().ok(),
        None => said.as_f64(),
    };
    let Some(value) = value.filter(|value| (0.0..=100.0).contains(value)) else { return };
    *said = json!(if is_percent || value > 10.0 { value / 100.0 } else { value });
}

/// A number as text.
fn number(fields: &mut Map<String, Value>, name: &str) {
    let Some(said @ Value::String(_)) = fields.get_mut(name) else { return };
    if let Some(number) = said.as_str().and_then(|text| text.trim().parse::<u32>().ok()) {
        *said = json!(number);
    }
}

/// An optional field that is `null` is one that was left out: strict mode has no other way to say so.
fn drop_nulls(schema: &Value, value: &mut Value, depth: usize) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(fields) => {
            let required = schema::required(schema);
            fields.retain(|name, value| !value.is_null() || required.contains(&name.as_str()));
            for (name, value) in fields {
                if let Some(inner) = schema.get("properties").and_then(|it| it.get(name.as_str())) {
                    drop_nulls(inner, value, depth - 1);
                }
            }
        }
        Value::Array(values) => {
            if let Some(items) = schema.get("items") {
                for value in values {
                    drop_nulls(items, value, depth - 1);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// From the names that the alias shows to the tool's own, with what the alias always gives.
pub fn own(alias: &ToolAlias, args: Value) -> Value {
    let Value::Object(fields) = args else { return args };
    let mut own = Map::new();
    for (name, mut value) in fields {
        if let Value::Array(items) = &mut value {
            items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| {
                for (theirs, ours) in alias.items {
                    rename(item, theirs, ours);
                }
            });
        }
        let ours = alias.args.iter().find(|(theirs, _)| *theirs == name);
        own.insert(ours.map_or(name, |(_, ours)| (*ours).to_owned()), value);
    }
    for (name, value) in alias.preset {
        own.entry(*name).or_insert_with(|| json!(value));
    }
    Value::Object(own)
}

fn in_milliseconds(value: Value) -> Value {
    match value.as_u64() {
        Some(seconds) if seconds < LEAST_MS => json!(seconds * LEAST_MS),
        Some(_) | None => value,
    }
}

fn words_to_script(fields: &mut Map<String, Value>, name: &str) {
    if let Some(Value::Array(words)) = fields.get(name)
        && let Some(script) = script(words)
    {
        fields.insert(name.to_owned(), Value::String(script));
    }
}

fn script_to_words(fields: &mut Map<String, Value>) {
    if let Some(Value::String(script)) = fields.get("command") {
        let words = json!(["sh", "-c", script]);
        fields.insert("command".to_owned(), words);
    }
}

/// `["bash", "-lc", "make"]` → `make`; other words are quoted.
fn script(words: &[Value]) -> Option<String> {
    let words = words.iter().map(Value::as_str).collect::<Option<Vec<&str>>>()?;
    match words.as_slice() {
        [shell, flags, script]
            if shell.ends_with("sh") && flags.starts_with('-') && flags.ends_with('c') =>
        {
            Some((*script).to_owned())
        }
        words => shlex::try_join(words.iter().copied()).ok(),
    }
}

/// Steps under whatever name, without what only other families keep of them. A cancelled step is no
/// step any more.
fn plan(alias: &ToolAlias, fields: &mut Map<String, Value>) {
    let name = alias.theirs("plan").unwrap_or("plan");
    let text = alias.items.iter().find(|(_, ours)| *ours == "step").map_or("step", |(it, _)| it);
    let Some(Value::Array(steps)) = fields.get_mut(name) else { return };
    steps.retain(|step| step.get("status").and_then(Value::as_str) != Some("cancelled"));
    for step in steps.iter_mut().filter_map(Value::as_object_mut) {
        for other in STEP_TEXTS {
            rename(step, other, text);
        }
        for idle in ["id", "priority", "activeForm"] {
            step.shift_remove(idle);
        }
    }
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if !fields.contains_key(to)
        && let Some(value) = fields.shift_remove(from)
    {
        fields.insert(to.to_owned(), value);
    }
}

/// `10.0` is a whole number in JSON Schema, but not to every reader.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let (None, None, Some(float)) = (number.as_i64(), number.as_u64(), number.as_f64())
                && float.fract() == 0.0
                && float.abs() < 9_007_199_254_740_992.0
            {
                #[expect(clippy::cast_possible_truncation, reason = "checked just above")]
                let whole = float as i64;
                *value = json!(whole);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
