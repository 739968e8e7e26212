//! tools/registry
