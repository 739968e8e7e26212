//! The apply_patch format, pure: [`parse`] text to sections, [`seek`] the place, [`apply`] in memory.
//! No file is touched here; [`crate::tools::guest::apply_patch`] does that.

pub mod apply;
pub mod hosted;
pub mod parse;
pub mod seek;
