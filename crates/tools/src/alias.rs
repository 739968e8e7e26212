//! Tool aliases: a tool under the name and with the argument names that a model family knows.
//!
//! The tools themselves are in [`patchwright_guest::tools`] and [`super::host`], each once. Here is who calls
//! them what: the aliases that profiles declare, and those that are understood without being declared.
//! Adding a name for a tool is one line.

use serde_json::{Map, Value, json};

use super::{host, schema};
use patchwright_base::error::{Failure, Result};
use patchwright_guest::tool::Power;
use patchwright_guest::tools as guest;

/// A tool as one family sees it.
#[derive(Debug)]
pub struct ToolAlias {
    /// What the model calls it.
    pub name: &'static str,
    /// The tool that runs.
    pub tool: &'static str,
    /// The description, a file in `prompts/tools/`.
    pub description: &'static str,
    /// The arguments that are shown, in order, as (the family's name, the tool's own name); empty for
    /// all of them under their own names.
    pub args: &'static [(&'static str, &'static str)],
    /// Names inside the elements of a list, as in `args`; what is not named keeps its name.
    pub items: &'static [(&'static str, &'static str)],
    /// Arguments that are always given: the tool's own name, and the value.
    pub preset: &'static [(&'static str, &'static str)],
    /// `None` for a tool that takes no free text.
    pub free: Option<FreeText>,
}

/// How a tool is declared where the wire has free text instead of JSON.
#[derive(Debug)]
pub struct FreeText {
    /// The grammar of the text, a file in `prompts/`.
    pub grammar: &'static str,
    /// The description, a file in `prompts/tools/`.
    pub description: &'static str,
    /// The tool's own argument that the text is.
    pub argument: &'static str,
}

const PLAIN: ToolAlias = ToolAlias {
    name: "",
    tool: "",
    description: "",
    args: &[],
    items: &[],
    preset: &[],
    free: None,
};

/// A tool under its own name.
const fn own(tool: &'static str) -> ToolAlias {
    ToolAlias { name: tool, tool, description: tool, ..PLAIN }
}

/// Another name for a tool, with the tool's own arguments.
const fn also(name: &'static str, tool: &'static str) -> ToolAlias {
    ToolAlias { name, tool, description: tool, ..PLAIN }
}

/// Code as free text, under a grammar and a description of the tool's name.
const fn code(grammar: &'static str, description: &'static str) -> FreeText {
    FreeText { grammar, description, argument: "code" }
}

const LINES: &[(&str, &str)] = &[("output", "lines")];

pub static SHELL_COMMAND: ToolAlias = ToolAlias {
    args: &[
        ("command", "command"),
        ("workdir", "workdir"),
        ("timeout_ms", "timeout_ms"),
        ("login", "login"),
        ("sandbox_permissions", "sandbox_permissions"),
        ("justification", "justification"),
    ],
    ..own("shell_command")
};
pub static EXEC_COMMAND: ToolAlias = own("exec_command");
pub static WRITE_STDIN: ToolAlias = own("write_stdin");
pub static SHELL: ToolAlias = ToolAlias {
    description: "shell_command",
    args: &[
        ("command", "command"),
        ("workdir", "workdir"),
        ("timeout_ms", "timeout_ms"),
        ("sandbox_permissions", "sandbox_permissions"),
        ("justification", "justification"),
    ],
    ..own("shell")
};
pub static LOCAL_SHELL: ToolAlias =
    ToolAlias { description: "shell_command", ..also("local_shell", "shell") };
pub static APPLY_PATCH: ToolAlias = ToolAlias {
    description: "apply_patch_function",
    free: Some(FreeText {
        grammar: "apply_patch.lark",
        description: "apply_patch",
        argument: "input",
    }),
    ..own("apply_patch")
};
pub static UPDATE_PLAN: ToolAlias = own("update_plan");
pub static READ_FILE: ToolAlias = own("read_file");
pub static LIST_DIR: ToolAlias = own("list_dir");
pub static GREP_FILES: ToolAlias = own("grep_files");
pub static VIEW_IMAGE: ToolAlias = own("view_image");

/// Declared where a run has more tools of servers and configuration than are declared.
pub static TOOL_SEARCH: ToolAlias = own("tool_search");
pub static CALL_TOOL: ToolAlias = own("call_tool");
pub static FINDING: &[&ToolAlias] = &[&TOOL_SEARCH, &CALL_TOOL];

/// Scripts that call the other tools, and waiting for those that go on.
pub static EXEC: ToolAlias = ToolAlias {
    description: "exec",
    free: Some(code("exec.lark", "exec")),
    ..also("exec", "code_mode")
};
pub static EXEC_WAIT: ToolAlias =
    ToolAlias { description: "exec_wait", ..also("wait", "code_mode_wait") };

pub static JS_REPL: ToolAlias =
    ToolAlias { free: Some(code("js_repl.lark", "js_repl")), ..own("js_repl") };
pub static JS_REPL_RESET: ToolAlias = own("js_repl_reset");

pub static REPORT_FINDING: ToolAlias = own("report_finding");
pub static CONFIRM_FINDING: ToolAlias = own("confirm_finding");
pub static WITHDRAW_FINDING: ToolAlias = own("withdraw_finding");
pub static READ_DIFF: ToolAlias = own("read_diff");
pub static RUN_CHECK: ToolAlias = own("run_check");

pub static SPAWN_AGENT: ToolAlias = own("spawn_agent");
pub static SEND_INPUT: ToolAlias = own("send_input");
pub static RESUME_AGENT: ToolAlias = own("resume_agent");
pub static WAIT: ToolAlias = own("wait");
pub static WAIT_AGENT: ToolAlias = also("wait_agent", "wait");
pub static CLOSE_AGENT: ToolAlias = own("close_agent");

pub static HOSTED_SHELL: ToolAlias =
    ToolAlias { description: "shell_command", ..also("shell", "hosted_shell") };
pub static HOSTED_PATCH: ToolAlias =
    ToolAlias { description: "apply_patch_function", ..also("apply_patch", "hosted_patch") };

/// OpenAI's hosted tools by the kinds of their items, where a profile has other tools under those names.
pub static SHELL_CALL: ToolAlias =
    ToolAlias { description: "shell_command", ..also("shell_call", "hosted_shell") };
pub static APPLY_PATCH_CALL: ToolAlias =
    ToolAlias { description: "apply_patch_function", ..also("apply_patch_call", "hosted_patch") };

pub static BASH: ToolAlias = own("bash");
pub static TEXT_EDITOR: ToolAlias = also("str_replace_based_edit_tool", "text_editor");
pub static GREP: ToolAlias = ToolAlias {
    args: &[
        ("pattern", "pattern"),
        ("path", "path"),
        ("glob", "include"),
        ("output", "output"),
        ("limit", "limit"),
    ],
    ..also("grep", "grep_files")
};
pub static GLOB: ToolAlias = own("glob");

pub static GEMINI_SHELL: ToolAlias = ToolAlias {
    args: &[
        ("command", "command"),
        ("description", "description"),
        ("dir_path", "workdir"),
        ("is_background", "is_background"),
        ("timeout_ms", "timeout_ms"),
    ],
    ..also("run_shell_command", "shell_command")
};
pub static GEMINI_READ: ToolAlias = ToolAlias {
    description: "read_text",
    args: &[("file_path", "file_path"), ("start_line", "start_line"), ("end_line", "end_line")],
    preset: &[("form", "raw")],
    ..own("read_file")
};
pub static WRITE_FILE: ToolAlias = own("write_file");
pub static GEMINI_REPLACE: ToolAlias = ToolAlias {
    args: &[
        ("file_path", "file_path"),
        ("instruction", "instruction"),
        ("old_string", "old_string"),
        ("new_string", "new_string"),
        ("allow_multiple", "allow_multiple"),
    ],
    ..own("replace")
};
pub static GEMINI_LIST: ToolAlias =
    ToolAlias { args: &[("dir_path", "dir_path")], ..also("list_directory", "list_dir") };
pub static GEMINI_GLOB: ToolAlias = ToolAlias {
    args: &[("pattern", "pattern"), ("dir_path", "path"), ("case_sensitive", "case_sensitive")],
    ..own("glob")
};
pub static GEMINI_GREP: ToolAlias = ToolAlias {
    description: "search_lines",
    args: &[
        ("pattern", "pattern"),
        ("dir_path", "path"),
        ("include_pattern", "include"),
        ("total_max_matches", "limit"),
    ],
    preset: LINES,
    ..also("grep_search", "grep_files")
};
pub static GEMINI_TODOS: ToolAlias = ToolAlias {
    args: &[("todos", "plan")],
    items: &[("description", "step")],
    ..also("write_todos", "update_plan")
};

pub static GENERIC_READ: ToolAlias = ToolAlias {
    description: "read_lines",
    args: &[("absolute_path", "file_path"), ("offset", "offset"), ("limit", "limit")],
    ..own("read_file")
};
pub static READ_MANY: ToolAlias = own("read_many_files");
pub static GENERIC_REPLACE: ToolAlias = ToolAlias {
    args: &[
        ("file_path", "file_path"),
        ("old_string", "old_string"),
        ("new_string", "new_string"),
        ("expected_replacements", "expected_replacements"),
    ],
    ..own("replace")
};
pub static GENERIC_SEARCH: ToolAlias = ToolAlias {
    description: "search_lines",
    args: &[
        ("pattern", "pattern"),
        ("path", "path"),
        ("include", "include"),
        ("max_matches", "limit"),
    ],
    preset: LINES,
    ..also("search_file_content", "grep_files")
};

/// Declared behind the tools of every profile that has any, when what they need is there (see
/// [`super::need`]), in this order.
pub static OPTIONAL: &[&ToolAlias] = &[&JS_REPL, &JS_REPL_RESET];

/// What providers ask for on behalf of tools that they run, and questions to the user under the names
/// of several families; always understood, never declared.
pub static DECLINED: &[&ToolAlias] = &[
    &APPROVAL,
    &COMPUTER,
    &own("ask_user"),
    &also("request_user_input", "ask_user"),
    &also("request_user_input_async", "ask_user"),
    &also("AskUserQuestion", "ask_user"),
    &also("ask_user_question", "ask_user"),
    &also("ask_followup_question", "ask_user"),
];

/// Other names of the call that finds tools, understood where that is declared.
pub static SEARCHING: &[&ToolAlias] =
    &[&also("search_tool_bm25", "tool_search"), &also("search_tools", "tool_search")];

/// Understood wherever a model of OpenAI's is at work: one that resumes a run may have begun it in
/// scripts, or the other way round.
pub static SCRIPTS: &[&ToolAlias] = &[&EXEC, &EXEC_WAIT];

/// Other names of the calls for sub-agents, understood where those are declared.
pub static DELEGATING: &[&ToolAlias] = &[
    &WAIT_AGENT,
    &TASK,
    &ToolAlias { ..also_task("agent") },
    &ToolAlias {
        args: &[("prompt", "message"), ("agent_name", "agent_type")],
        ..also_task("invoke_agent")
    },
];

static TASK: ToolAlias = also_task("task");

/// A name under which other agent programs start an agent and wait for it.
const fn also_task(name: &'static str) -> ToolAlias {
    ToolAlias {
        args: &[("prompt", "message"), ("subagent_type", "agent_type")],
        ..also(name, "task")
    }
}

/// What replies of models without tool calls are turned into.
pub static WRITTEN: &[&ToolAlias] = &[&SHELL_COMMAND, &TEXT_EDIT, &UPDATE_PLAN];

static TEXT_EDIT: ToolAlias = own("text_edit");
static APPROVAL: ToolAlias = own("mcp_approval_request");
static COMPUTER: ToolAlias = own("computer");

/// Names that are understood where the profile has the power: those of other families and of widely
/// used agents. A declared name wins.
pub static UNDERSTOOD: &[&ToolAlias] = &[
    &SHELL_COMMAND,
    &SHELL,
    &LOCAL_SHELL,
    &also("container.exec", "shell"),
    &SHELL_CALL,
    &EXEC_COMMAND,
    &WRITE_STDIN,
    &GEMINI_SHELL,
    &also("bash", "shell_command"),
    &also("execute_command", "shell_command"),
    &also("run_command", "shell_command"),
    &also("run_terminal_cmd", "shell_command"),
    &also("run_terminal_command", "shell_command"),
    &also("terminal", "shell_command"),
    &APPLY_PATCH,
    &APPLY_PATCH_CALL,
    &TEXT_EDITOR,
    &also("str_replace_editor", "text_editor"),
    &WRITE_FILE,
    &also("write", "write_file"),
    &also("create_file", "write_file"),
    &also("create_new_file", "write_file"),
    &also("write_to_file", "write_file"),
    &GEMINI_REPLACE,
    &also("edit", "replace"),
    &also("edit_file", "replace"),
    &also("edit_existing_file", "replace"),
    &also("search_and_replace", "replace"),
    &also("search_replace", "replace"),
    &also("str_replace", "replace"),
    &also("replace_in_file", "text_edit"),
    &READ_FILE,
    &also("open_file", "read_file"),
    &also("read", "read_file"),
    &also("view_file", "read_file"),
    &READ_MANY,
    &LIST_DIR,
    &also("list_directory", "list_dir"),
    &also("list", "list_dir"),
    &also("list_files", "list_dir"),
    &also("ls", "list_dir"),
    &GREP_FILES,
    &GREP,
    &GENERIC_SEARCH,
    &GEMINI_GREP,
    &ToolAlias { preset: LINES, ..also("search_files", "grep_files") },
    &GLOB,
    &also("file_glob_search", "glob"),
    &also("find_files", "glob"),
    &VIEW_IMAGE,
    &UPDATE_PLAN,
    &GEMINI_TODOS,
    &ToolAlias {
        args: &[("todos", "plan")],
        items: &[("content", "step")],
        ..also("todowrite", "update_plan")
    },
    &ToolAlias {
        args: &[("todos", "plan")],
        items: &[("content", "step")],
        ..also("todo_write", "update_plan")
    },
];

/// The powers that a tool of ours gives to the profile that declares it; the first one is what it needs.
pub fn powers(tool: &str) -> &'static [Power] {
    let guest = guest::find(tool).map(|tool| tool.powers);
    guest.or_else(|| host::find(tool).map(host::Tool::powers)).unwrap_or_default()
}

/// What tools with these powers give together: who runs commands can look at files, too.
pub fn granted<'a>(powers: impl Iterator<Item = &'a [Power]>) -> Vec<Power> {
    let mut granted: Vec<Power> = powers.flatten().copied().collect();
    if granted.contains(&Power::Run) {
        granted.push(Power::Read);
    }
    granted
}

/// Names under which models run commands; typing into one that runs is not among them.
pub fn shells() -> impl Iterator<Item = &'static str> {
    let runs = |alias: &&&ToolAlias| {
        powers(alias.tool).contains(&Power::Run) && alias.tool != WRITE_STDIN.tool
    };
    UNDERSTOOD.iter().filter(runs).map(|alias| alias.name)
}

/// The tool opens files, pictures too; one that only lists and searches has no eye for those.
pub fn opens_files(powers: &[Power]) -> bool {
    powers.contains(&Power::Read) && powers.contains(&Power::See)
}

/// The tool can look at files and do nothing else.
pub fn only_reads(powers: &[Power]) -> bool {
    !powers.is_empty() && powers.iter().all(|power| matches!(power, Power::Read | Power::See))
}

impl ToolAlias {
    /// The family's name of one of the tool's arguments; `None` when it is not shown.
    pub fn theirs(&self, ours: &str) -> Option<&str> {
        self.args.iter().find(|(_, own)| *own == ours).map(|(theirs, _)| *theirs)
    }

    /// The cleaned schema of the arguments, under the family's names.
    ///
    /// # Errors
    /// When there is no such tool, which is a defect.
    pub fn schema(&self) -> Result<Value> {
        Ok(self.shown(&schema::clean_with(&self.own()?, &|ours| self.theirs(ours).is_some())))
    }

    /// The full schema: besides the exposed arguments, the tool's hidden ones, under
    /// their own names.
    ///
    /// # Errors
    /// As [`ToolAlias::schema`].
    pub fn understood(&self) -> Result<Value> {
        let own = schema::whole(&self.own()?);
        let mut all = self.shown(&own);
        if let Some(Value::Object(properties)) = all.get_mut("properties") {
            let others = own.get("properties").and_then(Value::as_object).into_iter().flatten();
            for (name, property) in others.filter(|(name, _)| self.theirs(name).is_none()) {
                properties.entry(name.clone()).or_insert_with(|| property.clone());
            }
        }
        Ok(all)
    }

    fn own(&self) -> Result<Value> {
        let tool = self.tool;
        let guest = guest::find(tool).map(|tool| (tool.schema)());
        let own = guest.or_else(|| host::find(tool).map(host::Tool::schema));
        own.ok_or_else(|| Failure::internal(format!("there is no tool `{tool}`")))
    }

    fn shown(&self, own: &Value) -> Value {
        if self.args.is_empty() {
            return own.clone();
        }
        let required = schema::required(own);
        let mut properties = Map::new();
        let mut needed = Vec::new();
        for (theirs, ours) in self.args {
            let Some(property) = own.get("properties").and_then(|all| all.get(*ours)) else {
                continue;
            };
            properties.insert((*theirs).to_owned(), self.shown_items(property));
            if required.contains(ours) {
                needed.push(*theirs);
            }
        }
        json!({
            "type": "object", "properties": properties, "required": needed,
            "additionalProperties": false,
        })
    }

    fn shown_items(&self, property: &Value) -> Value {
        let mut property = property.clone();
        let Some(item) = property.get_mut("items").filter(|_| !self.items.is_empty()) else {
            return property;
        };
        let theirs = |ours: &str| {
            let found = self.items.iter().find(|(_, own)| *own == ours);
            found.map_or(ours, |(theirs, _)| *theirs).to_owned()
        };
        if let Some(Value::Object(fields)) = item.get_mut("properties") {
            let renamed = std::mem::take(fields);
            *fields = renamed.into_iter().map(|(name, it)| (theirs(&name), it)).collect();
        }
        if let Some(Value::Array(required)) = item.get_mut("required") {
            for name in required {
                *name = Value::String(theirs(name.as_str().unwrap_or_default()));
            }
        }
        property
    }

    /// A text about the tool with the family's names in it.
    pub fn in_their_words(&self, text: &str) -> String {
        self.args
            .iter()
            .filter(|(theirs, ours)| theirs != ours)
            .fold(text.to_owned(), |text, (theirs, ours)| {
                text.replace(&format!("`{ours}`"), &format!("`{theirs}`"))
            })
    }
}
