//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

/// The agent loop with a scripted model and the real guest: what the model sees, and how runs end.
mod agent;
/// The guest in the sandbox: commands, transfer, confinement, and hostile guests.
mod guest;
/// The journal file: what is written, what is read back, and bad disks.
mod journal;
/// Texts for models: every file is used, every template renders, the first request is small.
mod prompts;
/// `patchwright tools`: declarations as sent.
mod tools_cli;
