//! The base of every other crate: [`error`]s for people, secrets ([`redact`]), the [`clock`], the log
//! ([`telemetry`]) and its [`panics`], the environment ([`env`]), who a [`process`] is, whose a folder is ([`ownership`]), files that people name ([`named_file`]), names that are [`nearby`] another, the certificates of
//! HTTP clients ([`roots`]), clean [`text`], GitHub's Markdown ([`gfm`]), the [`host`] of an address, JSON with slips in it ([`lenient_json`]), the printer ([`ui`]) and its thread ([`printing`]), and what it says of
//! [`waits`] for servers.

pub mod clock;
pub mod credentials;
pub mod duration;
pub mod env;
pub mod error;
pub mod gfm;
pub mod github;
pub mod host;
pub mod invisible;
pub mod lenient_json;
pub mod named_file;
pub mod nearby;
pub mod ownership;
pub mod panics;
pub mod printing;
pub mod process;
pub mod proxies;
pub mod redact;
pub mod roots;
pub mod telemetry;
pub mod text;
pub mod ui;
pub mod waits;

/// The version of this build, as in `--version`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
