//! A pull request, reviewed: read the change on the pinned head, find, place, post once.

pub mod admit;
mod answered;
pub mod brief;
mod claim;
mod code_search;
pub mod decide;
pub mod earlier;
mod files;
pub mod final_message;
pub mod hand_over;
mod moved;
mod nearest;
pub mod open;
pub mod outbox;
mod plan;
mod post;
pub mod publish;
pub(crate) mod queue;
mod recalled;
pub mod run;
pub mod salvage;
pub mod scope;
pub(crate) mod second_look;
mod sticky;
mod threads;
mod verdict;
mod withhold;
