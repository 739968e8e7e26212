//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]

/// Who and what the model is told: threads, hidden text, instructions, environment.
mod context;
/// What may leave the building.
mod policy;
/// Every word people read.
mod reports;
/// The Action and the workflows: linted, and the Action's steps run for real.
mod workflows;
