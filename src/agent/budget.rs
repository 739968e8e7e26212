//! agent/budget
