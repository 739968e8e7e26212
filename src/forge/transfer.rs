//! Fetching and pushing for a forge: runs the blocking git work on its own thread and says its
//! troubles in the forge's words.
//!
//! Called by both forges; what a remote is, and how tokens travel, is [`crate::git`]'s business.
