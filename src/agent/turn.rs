//! agent/turn
