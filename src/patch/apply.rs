//! patch/apply
