//! Servers and worlds that the tests share. Each is real where it matters and small.

pub(crate) mod bench;
pub(crate) mod guest;
pub mod model;
pub(crate) mod transcript;
