//! The agent: turns of model reply and tool calls until the model is done or a budget is used up.

pub mod budget;
pub mod doom_loop;
pub mod history;
pub mod journal;
pub mod turn;
