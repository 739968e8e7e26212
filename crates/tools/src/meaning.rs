//! Which tool a name most likely means that no tool has. By what its words say, not by its letters: of `edit_file`,
//! `write_file` is the nearest in spelling, and replaces the whole file. Pure.

use patchwright_provider::catalogue::distance;

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
    // A slip of the pen.
    if by_letters * 4 <= name.len() {
        return (0, by_letters);
    }
    let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
    let meant = MEANINGS.iter().find(|(said, _)| said.iter().any(|word| words.contains(word)));
    let is = |meant: &&str| *meant == tool || (*meant == SHELL && SHELLS.contains(&tool));
    let place = meant.and_then(|(_, tools)| tools.iter().position(is));
    (place.map_or(usize::MAX, |place| place + 1), by_letters)
}

#[cfg(test)]
mod tests {
    use crate::meaning::order;

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
