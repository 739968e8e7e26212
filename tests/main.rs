//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]

// The guest in the sandbox: commands, transfer, confinement, and hostile guests.
mod guest;
