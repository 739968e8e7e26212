//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]

// Servers and worlds that the tests share.
mod support;

// What users write after `--model`, and what a model costs.
mod catalogue;
// Models over HTTP: the fault table, and what leaves the process.
mod providers;
// Scripted models, and replies from a journal.
mod scripted;
// The protocols without a network: streams to replies, requests to bodies.
mod wires;
