//! A pull request, reviewed: read the change on the pinned head, find, place, post once.

pub mod admit;
pub mod desk;
pub mod earlier;
mod files;
pub mod hand_over;
pub mod outcome;
mod post;
pub mod publish;
pub mod run;
mod sticky;
mod threads;
mod verdict;
mod withhold;
