//! What happened on the forge.

pub mod access;
pub mod payload;
