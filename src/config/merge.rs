//! config/merge
