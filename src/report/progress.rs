//! report/progress
