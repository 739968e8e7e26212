//! forge/local
