//! git/transport
