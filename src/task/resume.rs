//! task/resume
