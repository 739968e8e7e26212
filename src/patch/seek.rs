//! patch/seek
