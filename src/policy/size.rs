//! policy/size
