//! The world that tests run in: servers and folders that behave like the real ones.

pub mod github;
