//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

/// Who may set us to work: roles, bots, and every way in which the question can fail.
mod access;
/// Webhook payloads as GitHub sends them, what they become and what is decided.
mod events;
/// The forge contract on GitHub and on a folder; GitHub's traps; lost answers; limits.
mod forge;
/// Clones, upload tars, changes, patches and pushes against a real git server.
mod git;
