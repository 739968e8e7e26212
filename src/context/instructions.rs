//! context/instructions
