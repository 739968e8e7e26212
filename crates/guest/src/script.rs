//! Scripts of the model, run inside the sandbox: `patchwright-guest script` evaluates one script and
//! speaks [`lines`] with the host over its standard input and output.
//!
//! A script is JavaScript and nothing else: no modules, no files, no network, no processes. What it does
//! to the world it does by calling tools, which the host runs. `engine` is the interpreter; the host's
//! side is `tools/host/code_mode`.

pub mod lines;

/// The argument that makes the guest binary run a script.
pub const SCRIPT: &str = "script";
