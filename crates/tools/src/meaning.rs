//! Which tool a name most likely means that no tool has. By what its words say, not by its letters: of `edit_file`,
//! `write_file` is the nearest in spelling, and replaces the whole file. Pure.

use patchwright_base::nearby::distance;

/// Words of names, and the tools that do what they say, the likeliest first. The first line with a word of the name counts.
const MEANINGS: &[(&[&str], &[&str])] = &[
    (&["fetch", "browse", "url", "http", "web", "download"], &["web_fetch", "web_search"]),
    (&["plan", "todo", "todos"], &["update_plan"]),
    (
        &["search", "grep", "rg", "ripgrep", "find", "lookup", "query", "references"],
        &["grep_files", "glob", "tool_search", SHELL],
    ),
    (&["glob"], &["glob", "grep_files", "list_dir", SHELL]),
    (
        &["list", "ls", "tree", "dir", "directory", "folder", "explore"],
        &["list_dir", "glob", SHELL],
    ),
    (
        &["edit", "replace", "modify", "patch", "diff", "insert", "change", "update", "substitute"],
        &["replace", "apply_patch", "hosted_patch", "text_editor", "write_file", SHELL],
    ),
    (
        &["write", "create", "save", "append", "new", "add"],
        &["write_file", "text_editor", "apply_patch", "hosted_patch", SHELL],
    ),
    (&["image", "picture", "screenshot"], &["view_image", "read_file"]),
    (
        &["read", "open", "cat", "view", "show", "get"],
        &["read_file", "read_many_files", "text_editor", SHELL],
    ),
    (&["delete", "remove", "rm", "move", "rename", "copy", "mkdir"], &[SHELL, "apply_patch"]),
    (
        &[
            "run", "exec", "execute", "shell", "bash", "command", "terminal", "cmd", "python",
            "test",
        ],
        &[SHELL],
    ),
];

/// Whatever runs commands.
const SHELL: &str = "shell";
const SHELLS: &[&str] =
    &["shell_command", "exec_command", "bash", "shell", "hosted_shell", "code_mode"];

/// How far a tool is from what a name means: sorted by this, the likeliest comes first. `name` is in lower case; a tool
/// has its name in this run, and what it is.
pub(super) fn order(name: &str, (called, tool): (&str, &str)) -> (usize, usize) {
    let by_letters = distance(name, called);
    // A slip of the pen, or an MCP tool without what is in front of it.
    if by_letters * 4 <= name.len() || is_end_of_mcp_tool(name, called) {
        return (0, by_letters);
    }
    let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
    let meant = MEANINGS.iter().find(|(said, _)| said.iter().any(|word| words.contains(word)));
    let is = |meant: &&str| *meant == tool || (*meant == SHELL && SHELLS.contains(&tool));
    let place = meant.and_then(|(_, tools)| tools.iter().position(is));
    (place.map_or(usize::MAX, |place| place + 1), by_letters)
}

/// `github_get_issue`, `github.get_issue` and `get_issue` for `mcp__github__get_issue`.
fn is_end_of_mcp_tool(name: &str, called: &str) -> bool {
    let plain = |name: &str| name.replace("__", "_").replace(['-', '.'], "_");
    called.strip_prefix("mcp__").is_some_and(|called| {
        let before = plain(called).strip_suffix(&plain(name)).map(str::to_owned);
        before.is_some_and(|before| before.is_empty() || before.ends_with('_'))
    })
}

#[cfg(test)]
mod tests {
    use crate::meaning::order;

    #[test]
    fn a_tool_of_an_mcp_server_is_found_without_what_is_in_front() {
        let tools = [
            ("bash", "bash"),
            ("str_replace_based_edit_tool", "text_editor"),
            ("mcp__tracker__get", "mcp"),
            ("mcp__tracker__ticket_get", "mcp"),
            ("mcp__tracker__widget", "mcp"),
        ];
        for name in
            ["tracker_ticket_get", "tracker.ticket_get", "ticket_get", "tracker__ticket_get"]
        {
            let nearest = tools.iter().min_by_key(|tool| order(name, **tool)).unwrap();
            assert_eq!(nearest.0, "mcp__tracker__ticket_get", "{name}");
        }
    }

    #[test]
    fn the_nearest_tool_is_the_one_that_is_meant() {
        let generic = [
            ("run_shell_command", "shell_command"),
            ("read_file", "read_file"),
            ("read_many_files", "read_many_files"),
            ("list_dir", "list_dir"),
            ("glob", "glob"),
            ("search_file_content", "grep_files"),
            ("write_file", "write_file"),
            ("replace", "replace"),
            ("todo_write", "update_plan"),
        ];
        let codex = [
            ("shell_command", "shell_command"),
            ("apply_patch", "apply_patch"),
            ("update_plan", "update_plan"),
        ];
        for (name, in_generic, in_codex) in [
            ("modify_file", "replace", "apply_patch"),
            ("apply_diff", "replace", "apply_patch"),
            ("insert_content", "replace", "apply_patch"),
            ("codebase_search", "search_file_content", "shell_command"),
            ("search_in_files", "search_file_content", "shell_command"),
            ("list_code_definition_names", "list_dir", "shell_command"),
            ("add_file", "write_file", "apply_patch"),
            ("delete_file", "run_shell_command", "shell_command"),
            ("run_tests", "run_shell_command", "shell_command"),
            ("view_source", "read_file", "shell_command"),
            ("write_files", "write_file", "apply_patch"),
            ("manage_todo_list", "todo_write", "update_plan"),
        ] {
            for (tools, expected) in [(&generic[..], in_generic), (&codex[..], in_codex)] {
                let nearest = tools.iter().min_by_key(|tool| order(name, **tool)).unwrap();
                assert_eq!(nearest.0, expected, "{name}");
            }
        }
    }
}
