//! GitHub in memory, on a real port: state, rules, limits, faults, and real git repositories.
//!
//! ```ignore
//! let github = GitHub::new()
//!     .repository("acme/app", &[("README.md", "teh\n")])
//!     .user("alice", Role::Write)
//!     .issue("acme/app", 1, "Typo", "Please fix it").by("alice").label("patchwright")
//!     .start();
//! // … run something against github.api_url(), github.server_url(), github.token() …
//! assert_eq!(github.pulls().len(), 1);
//! ```
//! Every request is checked against GitHub's own description of its API, and so is every answer; a
//! request that GitHub would not know, or one sent while told to wait, fails the test when the server
//! is dropped. Git is served on the same port at `/{owner}/{name}.git`.

#![allow(dead_code, reason = "a world for all tests; no single one uses everything")]
#![allow(clippy::struct_excessive_bools, reason = "GitHub has that many switches")]
#![allow(
    clippy::format_collect,
    clippy::needless_pass_by_value,
    reason = "brevity in a test world"
)]
#![allow(clippy::result_large_err, clippy::unused_self, reason = "brevity in a test world")]
#![allow(clippy::too_many_arguments, clippy::unnecessary_wraps, reason = "brevity in a test world")]

mod app;
mod builder;
mod builder_fleet;
mod builder_pulls;
mod conversation;
mod diff;
mod events;
mod fault;
mod git;
mod governance;
mod hooks;
pub(crate) mod lfs;
mod of;
mod openapi;
mod pace;
mod people;
mod routes;
mod seen;
mod seen_reviews;
mod server;
mod shape;
mod shape_review;
mod troubles;
mod world;

pub(crate) use builder::{GitHub, TOKEN};
pub(crate) use builder_fleet::fleet_name;
pub(crate) use fault::{Fault, Kind};
#[allow(unused_imports, reason = "what tests may name")]
pub(crate) use server::{Recorded, Server};
#[allow(unused_imports, reason = "what tests may name")]
pub(crate) use world::{CheckRun, CommentSeen, Issue, Limits, PullSeen, Status, entries};
#[allow(unused_imports, reason = "what tests may name")]
pub(crate) use {
    conversation::Wanted,
    diff::{Diff, FileDiff},
    events::Event,
    openapi::webhooks,
    seen_reviews::{ReviewCommentSeen, ReviewSeen, ThreadSeen},
};
#[allow(unused_imports, reason = "what tests may name")]
pub(crate) use {
    hooks::{Delivery, Hook, Sent, Signing, signature},
    of::Of,
    pace::{Ceiling, Pace, Report as PaceReport},
    troubles::Trouble,
};
