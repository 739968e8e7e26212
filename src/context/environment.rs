//! context/environment
