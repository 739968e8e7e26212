//! task/workspace
