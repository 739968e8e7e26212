//! A row for each name that a profile declares: a call that works, what is seen of it in the next
//! request and in the change; and one that does not, with the words for the model.

use serde_json::{Value, json};

/// A declared tool.
pub(super) struct Row {
    pub(super) tool: &'static str,
    /// For the form that the provider defines, where a function has the same name.
    pub(super) is_hosted: bool,
    pub(super) good: fn() -> Value,
    /// In the answer to the call that works, as the request has it.
    pub(super) shows: &'static str,
    pub(super) bad: fn() -> Value,
    /// In the answer to the other one.
    pub(super) says: &'static str,
    /// A line of the change; `NAME` is the tool's.
    pub(super) leaves: Option<&'static str>,
    /// There is no call that works by itself: the first one fails as well.
    pub(super) needs_more: bool,
    /// The argument that is the whole input of a call in free text.
    pub(super) freeform: &'static str,
}

/// Arguments with several names.
pub(super) const SAME: &[&[&str]] = &[
    &["file_path", "absolute_path", "path", "dir_path"],
    &["include", "paths"],
    &["plan", "todos"],
    &["step", "description", "content"],
];

pub(super) const FILES: &[(&str, &[u8])] = &[
    ("alpha.txt", b"first line of alpha\nsecond line\n"),
    ("beta.txt", b"only line of beta\n"),
    ("dot.png", include_bytes!("dot.png")),
];

const PLAIN: Row = Row {
    tool: "",
    is_hosted: false,
    good: || json!({}),
    shows: "",
    bad: || json!({}),
    says: "",
    leaves: None,
    needs_more: false,
    freeform: "input",
};

const RUN: &str = "echo it ran; echo by shell > by-shell.txt";
const RAN: Option<&str> = Some("+by shell");
/// A command that fails after it has said something.
const FAIL: &str = "echo it failed; exit 3";

/// A shell that takes a text.
const fn shell(tool: &'static str) -> Row {
    Row {
        tool,
        good: || json!({"command": RUN}),
        shows: "it ran",
        bad: || json!({"command": FAIL}),
        says: "it failed",
        leaves: RAN,
        ..PLAIN
    }
}

const fn reads(tool: &'static str) -> Row {
    Row {
        tool,
        good: || json!({"file_path": "alpha.txt"}),
        shows: "second line",
        bad: || json!({"file_path": "nowhere.txt"}),
        says: "there is no such file",
        ..PLAIN
    }
}

const fn lists(tool: &'static str) -> Row {
    Row {
        tool,
        good: || json!({"dir_path": "."}),
        shows: "beta.txt",
        bad: || json!({"dir_path": "alpha.txt"}),
        says: "it is a file",
        ..PLAIN
    }
}

const fn greps(tool: &'static str) -> Row {
    Row {
        tool,
        good: || json!({"pattern": "only l[a-z]+ of"}),
        shows: "beta.txt",
        bad: || json!({"pattern": "("}),
        says: "the pattern is not valid",
        ..PLAIN
    }
}

const fn globs(tool: &'static str) -> Row {
    Row {
        tool,
        good: || json!({"pattern": "b*.txt"}),
        shows: "beta.txt",
        bad: || json!({"pattern": "["}),
        says: "the pattern is not valid",
        ..PLAIN
    }
}

const fn plans(tool: &'static str) -> Row {
    Row {
        tool,
        good: || json!({"plan": [{"step": "Call it", "status": "in_progress"}]}),
        shows: "lan",
        bad: || json!({"plan": [{"step": "Call it", "status": "perhaps"}]}),
        says: "it must be one of",
        ..PLAIN
    }
}

pub(super) const ROWS: &[Row] = &[
    shell("shell_command"),
    shell("run_shell_command"),
    shell("bash"),
    Row {
        good: || json!({"command": ["sh", "-c", RUN]}),
        bad: || json!({"command": ["sh", "-c", FAIL]}),
        ..shell("shell")
    },
    Row {
        is_hosted: true,
        good: || json!({"commands": [RUN]}),
        bad: || json!({"commands": [FAIL]}),
        ..shell("shell")
    },
    Row {
        good: || json!({"command": ["sh", "-c", RUN]}),
        bad: || json!({"command": ["sh", "-c", FAIL]}),
        ..shell("local_shell")
    },
    Row { good: || json!({"cmd": RUN}), bad: || json!({"cmd": FAIL}), ..shell("exec_command") },
    Row {
        tool: "write_stdin",
        // The session ended with its command.
        needs_more: true,
        good: || json!({"session_id": 1, "chars": ""}),
        shows: "session",
        bad: || json!({"session_id": "none"}),
        says: "session_id",
        ..PLAIN
    },
    Row {
        tool: "apply_patch",
        good: || json!({"input": "*** Begin Patch\n*** Update File: edit-apply_patch.txt\n@@\n-before\n+after apply_patch\n*** End Patch"}),
        shows: "edit-apply_patch.txt",
        bad: || json!({"input": "*** Begin Patch\n*** Update File: alpha.txt\n@@\n-no such line\n+x\n*** End Patch"}),
        says: "no such line",
        leaves: Some("+after NAME"),
        ..PLAIN
    },
    Row {
        tool: "apply_patch",
        is_hosted: true,
        good: || json!({"type": "update_file", "path": "edit-apply_patch.txt", "diff": "@@\n-before\n+after apply_patch"}),
        shows: "completed",
        bad: || json!({"type": "update_file", "path": "alpha.txt", "diff": "@@\n-no such line\n+x"}),
        says: "no such line",
        leaves: Some("+after NAME"),
        ..PLAIN
    },
    Row {
        tool: "str_replace_based_edit_tool",
        good: || json!({"command": "str_replace", "path": "edit-str_replace_based_edit_tool.txt", "old_str": "before", "new_str": "after str_replace_based_edit_tool"}),
        shows: "edit-str_replace_based_edit_tool.txt",
        bad: || json!({"command": "str_replace", "path": "alpha.txt", "old_str": "no such text", "new_str": "x"}),
        says: "not in it",
        leaves: Some("+after NAME"),
        ..PLAIN
    },
    Row {
        tool: "replace",
        good: || json!({"file_path": "edit-replace.txt", "old_string": "before", "new_string": "after replace"}),
        shows: "edit-replace.txt",
        bad: || json!({"file_path": "alpha.txt", "old_string": "line", "new_string": "x"}),
        says: "2",
        leaves: Some("+after NAME"),
        ..PLAIN
    },
    Row {
        tool: "write_file",
        good: || json!({"file_path": "made/new.txt", "content": "after write_file\n"}),
        shows: "made/new.txt",
        bad: || json!({"file_path": "../outside.txt", "content": "x"}),
        says: "outside the workspace",
        leaves: Some("+after NAME"),
        ..PLAIN
    },
    reads("read_file"),
    Row {
        tool: "read_many_files",
        good: || json!({"paths": ["beta.txt", "a*.txt"]}),
        shows: "--- alpha.txt ---",
        bad: || json!({"paths": ["nowhere.txt"]}),
        says: "there is no such file",
        ..PLAIN
    },
    lists("list_dir"),
    lists("list_directory"),
    greps("grep_files"),
    greps("grep"),
    greps("grep_search"),
    greps("search_file_content"),
    globs("glob"),
    Row {
        tool: "view_image",
        good: || json!({"path": "dot.png"}),
        shows: "iVBORw0K",
        bad: || json!({"path": "alpha.txt"}),
        says: "no PNG, JPEG, GIF or WebP picture",
        ..PLAIN
    },
    plans("update_plan"),
    plans("write_todos"),
];

/// Where tools are called that only some runs have.
pub(super) const ELSEWHERE: &[(&str, &str)] = &[
    ("tool_search", "tests/tool_system.rs"),
    ("js_repl", "tests/js_repl.rs"),
    ("js_repl_reset", "tests/js_repl.rs"),
    ("exec", "tests/code_mode.rs"),
    ("wait", "tests/agents.rs"),
    ("spawn_agent", "tests/agents.rs"),
    ("send_input", "tests/agents.rs"),
    ("resume_agent", "tests/agents.rs"),
    ("close_agent", "tests/agents.rs"),
    ("web_fetch", "tests/egress.rs"),
    ("list_mcp_resources", "tests/mcp.rs"),
    ("list_mcp_resource_templates", "tests/mcp.rs"),
    ("read_mcp_resource", "tests/mcp.rs"),
];

/// A call in the provider's own form, which is an item of Responses.
pub(super) fn native(kind: &str, args: &Value) -> Value {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let call_id = format!("call_n{id}");
    match kind {
        "local_shell" => json!({
            "id": format!("lsh_{id}"), "type": "local_shell_call", "call_id": call_id,
            "status": "completed",
            "action": {"type": "exec", "command": args["command"], "env": {}},
        }),
        "shell" => json!({
            "id": format!("sh_{id}"), "type": "shell_call", "call_id": call_id,
            "status": "completed", "action": args,
        }),
        "apply_patch" => json!({
            "id": format!("apc_{id}"), "type": "apply_patch_call", "call_id": call_id,
            "status": "completed", "operation": args,
        }),
        other => panic!("how is `{other}` called?"),
    }
}
