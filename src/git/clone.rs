//! git/clone
