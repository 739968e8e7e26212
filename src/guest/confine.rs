//! guest/confine
