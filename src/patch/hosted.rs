//! patch/hosted
