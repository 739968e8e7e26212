//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod support;

mod agent; // the agent loop with a scripted model and the real guest
mod file_tools; // read_file, list_dir, grep_files on a real folder
mod guest; // commands through the real guest: results, limits, survivors, confinement
mod guest_hostile; // guests that lie to the client
mod guest_transfer; // the tree into the guest and the changes out of it
mod journal; // the journal file: what is written, what is read back, and bad disks
mod patches; // the apply_patch format, its hosted dialect, and the workspace boundary
mod prompts; // texts for models: every template renders, the first request is small
mod stops; // budgets, failures and crashes of the agent loop
mod tools_cli; // `patchwright tools`: declarations as sent
mod guest_local;
