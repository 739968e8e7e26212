//! `patchwright apply-patch`: the patch engine on standard input.
//!
//! For scripts and for trying a patch out. The agent's tool is
//! [`patchwright_guest::tools::apply_patch`]; both are one engine.

use std::io::{Read, Write};
use std::path::PathBuf;

use patchwright_guest::patch::hosted::Operation;
use patchwright_guest::tool::{ToolError, ToolOutput};
use patchwright_guest::tools::apply_patch::{run_hosted, run_patch};
use patchwright_guest::tools::root::Root;

/// Apply a patch from standard input, all of it or nothing
///
/// Reads the `apply_patch` format (`*** Begin Patch` … `*** End Patch`) and changes files below DIR,
/// never outside. Prints what was changed. Exits with 1 and changes nothing when the patch does not
/// parse or does not fit the files.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder that the paths in the patch start at
    #[arg(long, env = "PATCHWRIGHT_DIR", value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,

    /// Read one hosted operation instead: JSON with `type` (`create_file`, `update_file` or
    /// `delete_file`), `path` and `diff`
    #[arg(long, env = "PATCHWRIGHT_HOSTED")]
    pub hosted: bool,
}

/// Largest patch, in bytes.
const MAX_INPUT: u64 = 256 << 20;

/// Exit codes: applied; does not parse or fit; wrong use.
const APPLIED: u8 = 0;
const FAILED: u8 = 1;
const USAGE: u8 = 2;

/// Runs the command and returns its exit code.
pub fn run(
    args: &Args,
    stdin: &mut dyn Read,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> u8 {
    let root = match Root::open(&args.dir) {
        Ok(root) => root,
        Err(err) => return usage(stderr, &format!("cannot open `{}`: {err}", args.dir.display())),
    };
    let mut input = Vec::new();
    if let Err(err) = stdin.take(MAX_INPUT + 1).read_to_end(&mut input) {
        return usage(stderr, &format!("cannot read standard input: {err}"));
    }
    if input.is_empty() {
        return usage(stderr, "there is no patch on standard input");
    }
    if input.len() as u64 > MAX_INPUT {
        return usage(stderr, &format!("the patch is larger than {MAX_INPUT} bytes"));
    }
    let result = if args.hosted {
        match serde_json::from_slice::<Operation>(&input) {
            Ok(operation) => run_hosted(&root, &operation),
            Err(err) => return usage(stderr, &format!("this is no hosted operation: {err}")),
        }
    } else {
        match std::str::from_utf8(&input) {
            Ok(patch) => run_patch(&root, patch, ""),
            Err(_) => Err(ToolError::tell(
                patchwright_guest::patch::parse::ParseError::NotUtf8.to_string(),
            )),
        }
    };
    report(result, stdout, stderr)
}

fn report(
    result: Result<ToolOutput, ToolError>,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> u8 {
    // A closed output stream does not change what happened to the files.
    match result {
        Ok(output) => {
            let _ = stdout.write_all(output.text.as_bytes()).and_then(|()| stdout.flush());
            APPLIED
        }
        Err(err) => {
            let _ = writeln!(stderr, "{err}");
            FAILED
        }
    }
}

fn usage(stderr: &mut dyn Write, message: &str) -> u8 {
    let _ = writeln!(stderr, "error: {message}");
    USAGE
}
