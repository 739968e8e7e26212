//! From what a reviewer says to where it stands: findings, their places on the diff, and what became
//! of earlier ones. Pure; `task/review` does the work around it.

pub mod anchor;
mod code;
pub mod distinct;
pub mod finding;
pub mod fingerprint;
pub mod incremental;
mod lines;
pub mod most_known;
mod occurrences;
pub mod overall;
mod part;
mod path;
mod quote;
pub mod suggested;
pub mod suggestion;
pub mod threads;
pub mod title;
pub mod unread;
