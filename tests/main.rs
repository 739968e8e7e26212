//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]

mod file_tools; // read_file, list_dir, grep_files on a real folder
mod patches; // the apply_patch format, its hosted dialect, and the workspace boundary
