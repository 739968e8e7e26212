//! sandbox/image
