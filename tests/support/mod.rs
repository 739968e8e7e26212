//! The world that tests run in: small servers and real engines that we own.

pub(crate) mod docker;
//! Servers and worlds that the tests share. Each is real where it matters and small.
pub(crate) mod git_http;
//! What tests share: servers, builders and readers. Each file says what it stands for.
pub(crate) mod transcript;
//! Servers and worlds that the tests share.
pub mod model;
pub(crate) mod git_repo;
pub(crate) mod github;
pub(crate) mod guest;
