//! cli/ui
