//! guest/transfer
