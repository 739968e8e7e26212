//! provider/retry
