//! `apply_patch` as a program: what a script finds under that name. It takes a patch as its one argument
//! or on standard input, and does what the tool does, as the user of the command and below the workspace.
//!
//! Messages and exit codes are those of codex-cli's program, which models know.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::run_named;
use crate::patch::parse::ParseError;
use crate::tool::ToolError;
use crate::tools::root::Root;

/// Largest patch, in bytes.
const MAX_PATCH: u64 = 64 << 20;

/// Exit codes: applied; does not parse or fit; wrong use.
const APPLIED: u8 = 0;
const FAILED: u8 = 1;
const USAGE: u8 = 2;

/// Where the program runs.
#[derive(Debug)]
pub struct ProgramContext {
    /// The folder that no path may leave. Without one it is the current folder.
    pub workspace: Option<PathBuf>,
    /// Where relative paths start; absolute.
    pub cwd: PathBuf,
    /// Nothing is applied: the run has rules about patches, which only a whole command meets.
    pub is_closed: bool,
}

/// Runs the program; `args` are those behind its name. Returns the exit code.
pub fn run(
    args: &[OsString],
    place: &ProgramContext,
    stdin: &mut dyn Read,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> u8 {
    // A closed stream does not change what happened to the files.
    let mut fail = |code: u8, message: &str| {
        let _ = writeln!(stderr, "{message}");
        code
    };
    let patch = match patch(args, stdin) {
        Ok(patch) => patch,
        Err((code, message)) => return fail(code, &message),
    };
    if place.is_closed {
        return fail(
            FAILED,
            "apply_patch: nothing was changed. This run has rules about patches: call the tool \
             `apply_patch`, or make the patch the whole command",
        );
    }
    match applied(&patch, place) {
        Ok(text) => {
            let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
            APPLIED
        }
        Err(message) => fail(FAILED, &message),
    }
}

fn patch(args: &[OsString], stdin: &mut dyn Read) -> Result<String, (u8, String)> {
    match args {
        [] => from_stdin(stdin),
        [patch] => patch.clone().into_string().map_err(|_| {
            (FAILED, "Error: apply_patch requires a UTF-8 PATCH argument.".to_owned())
        }),
        _ => Err((USAGE, "Error: apply_patch accepts exactly one argument.".to_owned())),
    }
}

fn from_stdin(stdin: &mut dyn Read) -> Result<String, (u8, String)> {
    let mut bytes = Vec::new();
    if let Err(err) = stdin.take(MAX_PATCH + 1).read_to_end(&mut bytes) {
        return Err((FAILED, format!("Error: Failed to read PATCH from stdin.\n{err}")));
    }
    if bytes.is_empty() {
        let usage = "Usage: apply_patch 'PATCH'\n       echo 'PATCH' | apply_patch";
        return Err((USAGE, usage.to_owned()));
    }
    if bytes.len() as u64 > MAX_PATCH {
        return Err((FAILED, format!("Error: the patch is larger than {MAX_PATCH} bytes.")));
    }
    String::from_utf8(bytes).map_err(|_| (FAILED, ParseError::NotUtf8.to_string()))
}

fn applied(patch: &str, place: &ProgramContext) -> Result<String, String> {
    let workspace: &Path = place.workspace.as_deref().unwrap_or(&place.cwd);
    let root = Root::open(workspace)
        .map_err(|err| format!("Error: cannot open `{}`: {err}", workspace.display()))?;
    let cwd =
        place.cwd.to_str().ok_or("Error: the current folder has a name that is not UTF-8.")?;
    match run_named(&root, patch, cwd) {
        Ok(output) => Ok(output.text),
        Err(ToolError::Tell(why) | ToolError::Broken(why)) => Err(why),
    }
}
