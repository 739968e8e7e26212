//! task/publish
