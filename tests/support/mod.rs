//! Servers and worlds that the tests share.

pub mod model;
