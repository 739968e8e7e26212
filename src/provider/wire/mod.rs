//! The four protocols, each a pure `encode` and an incremental `decode`.

pub mod responses;
