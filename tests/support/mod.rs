//! The world that tests run in: small servers and real engines that we own.

pub(crate) mod docker;
pub(crate) mod guest;
