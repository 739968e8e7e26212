//! git/diff
