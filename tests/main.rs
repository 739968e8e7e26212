//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "tests say what they skip")]

mod support;

// Real containers: what they enforce, how they start, end and are swept.
mod sandboxes;

// The guest in the sandbox: commands, transfer, confinement, and hostile guests.
mod guest;
