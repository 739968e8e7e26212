//! What the model is told besides the task.

pub mod environment;
pub mod instructions;
pub mod thread;
