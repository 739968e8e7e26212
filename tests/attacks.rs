//! What must not get out or be run, whatever a model or a repository does: attacks through the real
//! process, against a GitHub and a model that record everything, in real sandboxes. The model is a
//! script that obeys whoever attacks. Each attack has a twin without the defence that succeeds, so a
//! missing program or a skipped step cannot pass.

#![allow(clippy::format_push_string, reason = "scripts are put together line by line")]

mod arena;
mod budgets;
mod host;
mod publication;
mod secrets;
mod trees;
