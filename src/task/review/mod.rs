//! A pull request, reviewed: read the change on the pinned head, find, place, post once.

pub mod admit;
pub mod brief;
pub mod decide;
pub mod earlier;
mod nearest;
pub mod open;
pub mod outcome;
pub mod publish;
pub mod run;
pub mod salvage;
pub mod scope;
pub mod written;
