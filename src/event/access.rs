//! event/access
