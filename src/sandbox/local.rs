//! sandbox/local
