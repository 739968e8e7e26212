//! What a repository's own files say about how it is set up and tested, and what test runners print.
//!
//! Functions from files and text to data: no process, no network, no sandbox. The tree is read through
//! [`files::Tree`], which the caller backs with a commit.

#![allow(
    clippy::format_push_string,
    clippy::assigning_clones,
    clippy::case_sensitive_file_extension_comparisons,
    clippy::format_collect,
    clippy::match_bool,
    reason = "short texts and short copies; two-sided choices read better as rows; names are compared as tools do"
)]

pub mod checks;
pub mod ci;
mod dependents;
pub mod files;
mod imports;
pub mod locks;
pub mod packages;
mod read;
pub mod registries;
pub mod results;
pub mod services;
pub mod setup;
