//! provider/sse
