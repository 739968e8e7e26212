//! What other families say with one argument and the tool with another: ranges of lines, kinds of
//! answers, switches. Also what no tool here can do, with what to do instead. Pure.

use serde_json::{Map, Value, json};

use super::{SHELLS, ToolAlias};
use patchwright_base::lenient_json;
use patchwright_guest::edit_format::{self, Edit, What};

/// Tools that look at many files.
const WALKERS: &[&str] = &["list_dir", "glob", "grep_files", "read_many_files"];

/// Switches that cannot be on: the tools, the switch, what to do. Off, they say nothing.
const NEVER: &[(&[&str], &str, &str)] = &[
    (&["shell", "hosted_shell"], "run_in_background", BACKGROUND),
    (&["shell", "hosted_shell"], "is_background", BACKGROUND),
    (&["task"], "run_in_background", "call `spawn_agent`, which does not wait for its agent"),
    (SHELLS, UNSAFE, SANDBOXED),
    (&["exec_command"], UNSAFE, SANDBOXED),
    (
        &["grep_files"],
        "multiline",
        "lines are searched one by one: search for one of them, and show those around it",
    ),
];
const BACKGROUND: &str = "end the script with ` &` for what is to go on";
const UNSAFE: &str = "dangerouslyDisableSandbox";
const SANDBOXED: &str = "nobody can approve that in an unattended run: run it without";

/// Arguments that are lists, and that some models write as the JSON text of one.
const LISTS: &[&str] = &["paths", "files", "file_paths", "plan", "todos", "steps", "ids", "edits"];

/// Results of a search that sets no limit.
const UNLIMITED: u64 = 2_000;

/// Kinds of files by the names that searches have for them, and their globs.
const KINDS: &[(&str, &str)] = &[
    ("cpp", "*.{cpp,cc,cxx,hpp,hh,hxx,h,inl}"),
    ("c", "*.{c,h}"),
    ("cs", "*.cs"),
    ("csharp", "*.cs"),
    ("javascript", "*.{js,jsx,mjs,cjs}"),
    ("js", "*.{js,jsx,mjs,cjs}"),
    ("kotlin", "*.{kt,kts}"),
    ("markdown", "*.{md,markdown,mdx}"),
    ("md", "*.{md,markdown,mdx}"),
    ("py", "*.{py,pyi}"),
    ("python", "*.{py,pyi}"),
    ("ruby", "*.rb"),
    ("rust", "*.rs"),
    ("sh", "*.{sh,bash,zsh}"),
    ("ts", "*.{ts,tsx,mts,cts}"),
    ("typescript", "*.{ts,tsx,mts,cts}"),
    ("yaml", "*.{yaml,yml}"),
];

/// Brings values into the arguments of the tool, under its own names, where these are not given.
pub(super) fn own(alias: &ToolAlias, fields: &mut Map<String, Value>) {
    for (tools, name, _) in NEVER {
        if tools.contains(&alias.tool) && fields.get(*name) == Some(&json!(false)) {
            fields.shift_remove(*name);
        }
    }
    if WALKERS.contains(&alias.tool) {
        ignoring(fields);
    }
    for name in LISTS {
        list_as_text(fields, name);
    }
    match alias.tool {
        "read_file" => range(fields),
        "grep_files" => search(alias, fields),
        "list_dir" => list(fields, "ignore"),
        "text_edit" => edits(fields),
        "spawn_agent" | "task" | "send_input" => said(fields),
        "call_tool" => encoded(fields),
        "read_many_files" => {
            if !fields.contains_key("paths")
                && let Some(include) = fields.shift_remove("include")
            {
                fields.insert("paths".to_owned(), include);
            }
            for name in ["paths", "include", "exclude"] {
                list(fields, name);
            }
        }
        tool if SHELLS.contains(&tool) => no_limit(fields),
        _ => {}
    }
    if matches!(alias.tool, "read_file" | "list_dir" | "grep_files") {
        // Where lines are counted from 0, this is the first one too.
        drop_if(fields, "offset", &json!(0));
    }
}

/// What is asked for and cannot be done here, and what to do instead.
pub(crate) fn impossible(alias: &ToolAlias, args: &Value) -> Option<String> {
    let (_, name, instead) = NEVER.iter().find(|(tools, name, _)| {
        tools.contains(&alias.tool) && args.get(*name) == Some(&Value::Bool(true))
    })?;
    Some(format!("not done: `{name}` cannot be true here; {instead}"))
}

/// A message in parts: what is text, and the addresses of what is not.
fn said(fields: &mut Map<String, Value>) {
    let Some(Value::Array(items)) = fields.get("items") else { return };
    let words: Vec<&str> = items
        .iter()
        .filter_map(|item| {
            let text = |name: &str| item.get(name).and_then(Value::as_str);
            ["text", "path", "image_url", "name"].into_iter().find_map(text)
        })
        .collect();
    let words = words.join("\n");
    fields.shift_remove("items");
    let is_said = ["message", "prompt", "task"].iter().any(|name| {
        fields.get(*name).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
    });
    if !is_said && !words.trim().is_empty() {
        fields.insert("message".to_owned(), json!(words));
    }
}

/// Takes the SEARCH/REPLACE blocks of one text apart, as Cline's `replace_in_file` has them. Any other text is
/// left as it is, and the check refuses it.
fn edits(fields: &mut Map<String, Value>) {
    let Some(diff) = fields.get("diff").and_then(Value::as_str) else { return };
    // The blocks need some name above them; the file is named beside them.
    let mut text = "file.txt\n".to_owned();
    for line in diff.lines() {
        let bare = line.trim_end();
        let marks = |sign: char| (5..=9).contains(&bare.chars().take_while(|c| *c == sign).count());
        text.push_str(match bare.trim_start_matches(['-', '+']) {
            " SEARCH" if marks('-') => "<<<<<<< SEARCH",
            " REPLACE" if marks('+') => ">>>>>>> REPLACE",
            _ => line,
        });
        text.push('\n');
    }
    let edits: Option<Vec<Edit>> = edit_format::read(&text)
        .into_iter()
        .map(|block| match block.what {
            What::Edit { edit: edit @ Edit::SearchReplace { .. }, .. } => Some(edit),
            _ => None,
        })
        .collect();
    if let Some(edits) = edits.filter(|edits| !edits.is_empty()) {
        fields.shift_remove("diff");
        add(fields, "edits", json!(edits));
    }
}

/// Arguments as JSON text in the arguments.
fn encoded(fields: &mut Map<String, Value>) {
    for value in fields.values_mut() {
        let Value::String(text) = &*value else { continue };
        if text.trim_start().starts_with('{')
            && let Ok(inner @ Value::Object(_)) = lenient_json::read(text)
        {
            *value = inner;
        }
    }
}

/// No limit is the usual one.
fn no_limit(fields: &mut Map<String, Value>) {
    for name in ["timeout_ms", "timeout"] {
        drop_if(fields, name, &json!(0));
    }
}

/// The JSON text of a list where the list belongs.
fn list_as_text(fields: &mut Map<String, Value>, name: &str) {
    let Some(value @ Value::String(_)) = fields.get_mut(name) else { return };
    let text = value.as_str().unwrap_or_default().trim();
    if text.starts_with('[')
        && let Ok(list @ Value::Array(_)) = serde_json::from_str(text)
    {
        *value = list;
    }
}

/// A single text where a list belongs.
fn list(fields: &mut Map<String, Value>, name: &str) {
    if let Some(one @ Value::String(_)) = fields.get_mut(name) {
        let text = one.take();
        *one = json!([text]);
    }
}

/// First and last line, counted from 1, as a first line and a number of lines.
fn range(fields: &mut Map<String, Value>) {
    let end = fields.get("end_line").cloned();
    if end == Some(json!(-1)) {
        fields.shift_remove("end_line");
    }
    let start = fields.get("start_line").and_then(Value::as_u64);
    let first = start.or_else(|| fields.get("offset")?.as_u64()).unwrap_or(1).max(1);
    if let Some(end) = end.as_ref().and_then(Value::as_u64).filter(|end| *end >= first) {
        fields.shift_remove("end_line");
        add(fields, "limit", json!(end - first + 1));
    }
    if start.is_some() {
        fields.shift_remove("start_line");
        add(fields, "offset", json!(first));
    }
}

/// Whether ignored files are left out. Rules of other programs than git are not looked at.
fn ignoring(fields: &mut Map<String, Value>) {
    if let Some(Value::Object(options)) = fields.shift_remove("file_filtering_options")
        && let Some(value) = options.get("respect_git_ignore")
    {
        add(fields, "respect_git_ignore", value.clone());
    }
    if let Some(Value::Bool(all)) = fields.get("no_ignore") {
        let value = json!(!*all);
        fields.shift_remove("no_ignore");
        add(fields, "respect_git_ignore", value);
    }
}

/// The switches of `grep` and of the tools that are named after it.
fn search(alias: &ToolAlias, fields: &mut Map<String, Value>) {
    let kind = match fields.get("output_mode").and_then(Value::as_str) {
        Some("content") => Some("lines"),
        Some("files_with_matches" | "files") => Some("files"),
        Some("count") => Some("count"),
        _ => None,
    };
    if let Some(kind) = kind {
        fields.shift_remove("output_mode");
        add(fields, "output", json!(kind));
    }
    if let Some(Value::Bool(only_names)) = fields.get("names_only").cloned() {
        fields.shift_remove("names_only");
        if only_names {
            add(fields, "output", json!("files"));
        }
    }
    for name in ["-i", "ignore_case", "case_insensitive"] {
        if let Some(Value::Bool(is_loose)) = fields.get(name).cloned() {
            fields.shift_remove(name);
            add(fields, "case_sensitive", json!(!is_loose));
        }
    }
    for name in ["head_limit", "total_max_matches"] {
        if let Some(most) = fields.get(name).and_then(Value::as_u64) {
            fields.shift_remove(name);
            let name = alias.theirs("limit").unwrap_or("limit");
            add(fields, name, json!(if most == 0 { UNLIMITED } else { most }));
        }
    }
    around(fields);
    if let Some(Value::String(kind)) = fields.get("type").cloned() {
        fields.shift_remove("type");
        let is_given =
            ["include", "glob", "include_pattern"].iter().any(|it| fields.contains_key(*it));
        if let Some(glob) = glob_of(&kind).filter(|_| !is_given) {
            add(fields, "include", json!(glob));
        }
    }
}

/// Who wants to see lines around a match wants to see the match.
fn around(fields: &mut Map<String, Value>) {
    for (name, sides) in [
        ("-A", &["after"][..]),
        ("after_context", &["after"][..]),
        ("-B", &["before"][..]),
        ("before_context", &["before"][..]),
        ("-C", &["before", "after"][..]),
        ("context", &["before", "after"][..]),
    ] {
        if let Some(lines) = fields.get(name).and_then(Value::as_u64) {
            fields.shift_remove(name);
            for side in sides {
                add(fields, side, json!(lines));
            }
        }
    }
    let some = |name: &str| fields.get(name).and_then(Value::as_u64).is_some_and(|lines| lines > 0);
    if some("before") || some("after") {
        add(fields, "output", json!("lines"));
    }
}

fn glob_of(kind: &str) -> Option<String> {
    let known = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, glob)| (*glob).to_owned());
    let is_ending = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    known.or_else(|| is_ending.then(|| format!("*.{kind}")))
}

fn add(fields: &mut Map<String, Value>, name: &str, value: Value) {
    fields.entry(name.to_owned()).or_insert(value);
}

fn drop_if(fields: &mut Map<String, Value>, name: &str, value: &Value) {
    if fields.get(name) == Some(value) {
        fields.shift_remove(name);
    }
}
