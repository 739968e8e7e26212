//! tools/profile
