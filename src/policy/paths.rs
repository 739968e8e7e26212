//! policy/paths
