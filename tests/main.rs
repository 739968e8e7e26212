//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]

// Servers and worlds that the tests share.
mod support;

// Models over HTTP: the fault table, the catalogue, scripts.
mod providers;
// The protocols without a network: streams to replies, requests to bodies.
mod wires;
