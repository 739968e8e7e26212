//! A pull request, reviewed: read the change on the pinned head, find, place, post once.

pub mod admit;
pub mod earlier;
pub mod outcome;
pub mod publish;
pub mod run;
