//! event/payload
