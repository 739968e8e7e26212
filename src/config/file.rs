//! config/file
