//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]

// Servers and worlds that the tests share.
mod support;

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
