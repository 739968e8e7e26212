//! git/commit
