//! What the model can call.
//!
//! A tool is defined once, by what it does. *Guest tools* ([`guest`]) work on files and processes and
//! run inside the sandbox; *host tools* ([`host`]) run beside the agent and reach the workspace only
//! through commands in the sandbox. A [`profile`] says under which name and in which wire form a model family gets a tool;
//! [`dispatch`] runs calls.

pub mod alias;
pub mod arguments;
pub mod checkpoints;
mod command_timeout;
pub mod custom;
pub mod dispatch;
pub mod dynamic;
pub mod fault;
pub mod format;
pub mod hooks;
pub mod host;
mod long_output;
pub mod mcp;
mod meaning;
pub mod metrics;
pub mod narrow;
pub mod nested;
pub mod offer;
pub mod patches;
pub mod piped;
pub mod profile;
pub mod progress;
pub mod registry;
pub mod requirement;
pub mod review;
pub mod rules;
pub mod schema;
pub mod scripted;
pub mod search;
mod selection;
pub mod services;
pub mod spelling;
pub mod truncate;
