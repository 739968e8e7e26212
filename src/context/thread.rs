//! context/thread
