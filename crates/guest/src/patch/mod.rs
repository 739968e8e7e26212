//! The `apply_patch` format, pure: [`parse`] text to sections, [`apply`] to one
//! file (the places are found by [`crate::block`]), [`plan`] a whole patch against a [`tree::Tree`]; [`hosted`] is the second dialect, and
//! [`dialect`] knows others that are refused.
//!
//! Called by [`crate::tools::apply_patch`] and `patchwright apply-patch`. No file is touched
//! here: a plan is a list of operations, all computed before the first one is carried out, so that a
//! patch is applied as a whole or not at all.

pub mod apply;
pub mod dialect;
pub mod hosted;
pub mod parse;
pub mod plan;
pub mod tree;
