//! The world that tests run in: servers, engines and readers that we own. Each is real where it
//! matters; each file says what it stands for.

pub(crate) mod bench;
pub(crate) mod browser;
pub(crate) mod client_hello;
pub(crate) mod cloud;
pub(crate) mod collector;
pub(crate) mod crowd;
pub(crate) mod docker;
pub(crate) mod engines;
pub(crate) mod event_lines;
pub(crate) mod git_http;
pub(crate) mod git_quick;
pub(crate) mod git_repo;
pub(crate) mod github;
pub(crate) mod guest;
pub(crate) mod history;
pub(crate) mod kubernetes;
pub(crate) mod leaks;
pub(crate) mod mcp;
pub mod model;
pub(crate) mod outside;
pub(crate) mod packages;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod queue;
pub(crate) mod quoted;
pub(crate) mod real_diff;
pub(crate) mod registry;
pub(crate) mod scenario;
pub(crate) mod search;
pub(crate) mod sigv4;
pub(crate) mod tab;
pub(crate) mod tool_desk;
pub(crate) mod transcript;
pub(crate) mod websocket;
pub(crate) mod world;
