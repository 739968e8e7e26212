//! config/env
