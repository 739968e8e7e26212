//! patch/parse
