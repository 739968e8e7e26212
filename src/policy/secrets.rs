//! policy/secrets
