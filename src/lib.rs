//! Patchwright: issue in, pull request out.
//!
//! The modules stand in reading order: what happened ([`event`]), what we decided to do ([`task`]),
//! who does it ([`agent`]) and with what. `ARCHITECTURE.md` has the map; `task/run.rs` is the place
//! to start reading.
//!
//! Without the `host` feature only the part that runs inside the sandbox is compiled.

#[cfg(feature = "host")]
pub mod batch;
#[cfg(feature = "host")]
pub mod cli;
#[cfg(feature = "host")]
pub mod config;
#[cfg(feature = "host")]
pub mod doctor;
#[cfg(feature = "host")]
pub mod error;
#[cfg(feature = "host")]
pub mod event;
#[cfg(feature = "host")]
pub mod server;
#[cfg(feature = "host")]
pub mod task;

#[cfg(feature = "host")]
pub mod agent;
#[cfg(feature = "host")]
pub mod context;
#[cfg(feature = "host")]
pub mod gfm;
#[cfg(feature = "host")]
pub mod prompt;
pub mod tools;

#[cfg(feature = "host")]
pub mod store;

#[cfg(feature = "host")]
pub mod egress;
#[cfg(feature = "host")]
pub mod forge;
#[cfg(feature = "host")]
pub mod git;
#[cfg(feature = "host")]
pub mod mcp;
#[cfg(feature = "host")]
pub mod policy;
#[cfg(feature = "host")]
pub mod report;
#[cfg(feature = "host")]
pub mod review;
#[cfg(feature = "host")]
pub mod verify;

pub mod edit_format;
pub mod guest;
pub mod patch;
#[cfg(feature = "host")]
pub mod provider;
#[cfg(feature = "host")]
pub mod sandbox;

#[cfg(feature = "host")]
pub mod clock;
#[cfg(feature = "host")]
pub mod redact;
#[cfg(feature = "host")]
pub mod telemetry;
#[cfg(feature = "host")]
pub mod world;

/// The version of this build, as in `--version`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
