//! defaults → file → env → flags, each value knowing where it came from.

pub mod env;
pub mod file;
pub mod merge;
