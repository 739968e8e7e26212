//! tools/dispatch
