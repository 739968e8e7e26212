//! git/push
