//! tools/schema
