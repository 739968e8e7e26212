//! forge/github/mod
