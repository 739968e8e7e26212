//! `batch run`: from a plan to targets, waves, and an end.
