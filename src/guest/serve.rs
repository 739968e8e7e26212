//! guest/serve
