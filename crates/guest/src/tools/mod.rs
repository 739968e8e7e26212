//! Tools that run inside the sandbox, on files and processes only.
//!
//! Each tool is one file with its arguments on top; [`ALL`] is the list. The host uses the list for
//! names, effects and schemas, the guest for the work.

pub mod apply_patch;
pub mod bash;
mod encoding;
pub mod exec_command;
pub mod glob;
pub mod grep_files;
pub mod hosted_patch;
pub mod hosted_shell;
pub mod list_dir;
pub mod long_line;
mod patch_command;
pub mod picture;
pub mod read_file;
pub mod read_many_files;
pub mod replace;
pub mod root;
pub mod shell;
mod substitute;
pub mod text_edit;
pub mod text_editor;
pub mod view_image;
mod walk;
pub mod write_file;
pub mod write_stdin;

use serde_json::Value;

use self::root::Root;
use crate::tool::{Effect, Power, ToolError, ToolOutput};

/// Every guest tool.
pub const ALL: &[GuestTool] = &[
    shell::SHELL_COMMAND,
    shell::SHELL,
    exec_command::EXEC_COMMAND,
    write_stdin::WRITE_STDIN,
    bash::BASH,
    hosted_shell::HOSTED_SHELL,
    apply_patch::APPLY_PATCH,
    hosted_patch::HOSTED_PATCH,
    replace::REPLACE,
    write_file::WRITE_FILE,
    text_editor::TEXT_EDITOR,
    read_file::READ_FILE,
    read_many_files::READ_MANY_FILES,
    list_dir::LIST_DIR,
    glob::GLOB,
    grep_files::GREP_FILES,
    view_image::VIEW_IMAGE,
    text_edit::TEXT_EDIT,
];

/// A tool that runs inside the sandbox.
#[derive(Clone, Copy)]
pub struct GuestTool {
    pub name: &'static str,
    pub effect: Effect,
    /// What it gives to the profile that declares it; the first one is what it needs.
    pub powers: &'static [Power],
    /// JSON Schema of the arguments, made from the doc comments of the tool's `Args`.
    pub schema: fn() -> Value,
    /// Does the work. `args` is already parsed JSON, but not yet checked against the schema here:
    /// the guest trusts nobody either.
    pub run: fn(&Call<'_>, Value) -> Result<ToolOutput, ToolError>,
}

/// What a guest tool gets besides its arguments.
pub struct Call<'a> {
    /// The workspace; the only way to make a path.
    pub root: &'a Root,
    /// Runs commands; owns their process groups.
    pub processes: &'a crate::process::Processes,
    /// Becomes true when the host cancels the call.
    pub cancelled: &'a std::sync::atomic::AtomicBool,
    /// Most bytes of command output to keep (head and tail).
    pub output_cap: usize,
}

/// The tool with this name.
pub fn find(name: &str) -> Option<&'static GuestTool> {
    ALL.iter().find(|tool| tool.name == name)
}

/// Parses arguments; the error tells the model what is wrong.
pub fn parse_args<T: serde::de::DeserializeOwned>(tool: &str, args: Value) -> Result<T, ToolError> {
    serde_json::from_value(args).map_err(|err| {
        ToolError::tell(format!(
            "the arguments of `{tool}` do not fit: {}",
            plain(&err.to_string())
        ))
    })
}

/// The words of the parser without the names that it has for kinds of numbers.
fn plain(words: &str) -> String {
    let Some((said, kind)) = words.rsplit_once(", expected ") else { return words.to_owned() };
    let (least, kind) = kind.strip_prefix("a nonzero ").map_or((0, kind), |kind| (1, kind));
    match kind {
        "u8" | "u16" | "u64" | "usize" => format!("{said}, expected a whole number from {least}"),
        "u32" => format!("{said}, expected a whole number from {least} to {}", u32::MAX),
        _ => words.to_owned(),
    }
}
