//! publication
