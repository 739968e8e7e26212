//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "tests say what they skip")]

mod support;

// Real containers: what they enforce, how they start, end and are swept.
mod sandboxes;
// The guest in the sandbox: commands, transfer, confinement, and hostile guests.
mod guest;
/// Who may set us to work: roles, bots, and every way in which the question can fail.
mod access;
/// Webhook payloads as GitHub sends them, what they become and what is decided.
mod events;
/// The forge contract on GitHub and on a folder; GitHub's traps; lost answers; limits.
mod forge;
/// Clones, upload tars, changes, patches and pushes against a real git server.
mod git;
/// Who and what the model is told: threads, hidden text, instructions, environment.
mod context;
/// What may leave the building.
mod policy;
/// Every word people read.
mod reports;
/// The Action and the workflows: linted, and the Action's steps run for real.
mod workflows;
/// The agent loop with a scripted model and the real guest: what the model sees, and how runs end.
mod agent;
/// The guest in the sandbox: commands, transfer, confinement, and hostile guests.
/// The journal file: what is written, what is read back, and bad disks.
mod journal;
/// Texts for models: every file is used, every template renders, the first request is small.
mod prompts;
/// `patchwright tools`: declarations as sent.
mod tools_cli;
// Servers and worlds that the tests share.
// Models over HTTP: the fault table, the catalogue, scripts.
// What users write after `--model`, and what a model costs.
mod catalogue;
// Endpoints that are hostile or absent.
mod endpoints;
// Models over HTTP: the fault table, and whole conversations.
mod providers;
// `docs/reliability.md` names tests that exist.
mod reliability;
// The protocols without a network: requests to bodies.
mod requests;
// Scripted models, and replies from a journal.
mod scripted;
// The protocols without a network: streams to replies.
mod wires;
mod file_tools; // read_file, list_dir, grep_files on a real folder
mod patches; // the apply_patch format, its hosted dialect, and the workspace boundary
mod guest; // commands through the real guest: results, limits, survivors, confinement
mod guest_hostile; // guests that lie to the client
mod guest_local;
mod guest_transfer;
mod patches; // the apply_patch format, its hosted dialect, and the workspace boundary // the tree into the guest and the changes out of it // the local sandbox: its walls, setup, sweep
mod guest_local; // the local sandbox: its walls, setup, sweep
mod guest_transfer; // the tree into the guest and the changes out of it
mod patches;
mod sandboxes; // the apply_patch format, its hosted dialect, and the workspace boundary
