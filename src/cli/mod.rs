//! One file per subcommand.

pub mod apply_patch;
pub mod tools;
