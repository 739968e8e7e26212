//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

/// Clones, upload tars, changes, patches and pushes against a real git server.
mod git;
