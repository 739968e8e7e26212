//! What the model is told besides the task.

pub mod agents;
pub mod answers;
pub mod baseline;
pub mod environment;
pub mod hidden;
pub mod instructions;
pub mod log;
pub mod map;
pub mod memory;
pub mod pictures;
pub mod references;
pub mod reviews;
pub mod services;
pub mod setup;
pub mod skills;
pub mod thread;

mod formulas;
mod front_matter;
mod markup;
