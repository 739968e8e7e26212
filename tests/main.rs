//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "tests say what they skip")]

mod support;

// Real containers: what they enforce, how they start, end and are swept.
mod file_tools; // read_file, list_dir, grep_files on a real folder
mod guest; // commands through the real guest: results, limits, survivors, confinement
mod guest_hostile; // guests that lie to the client
mod guest_local; // the local sandbox: its walls, setup, sweep
mod guest_transfer; // the tree into the guest and the changes out of it
mod patches;
mod sandboxes; // the apply_patch format, its hosted dialect, and the workspace boundary
