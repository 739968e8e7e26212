//! task/run
