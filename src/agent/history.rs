//! agent/history
