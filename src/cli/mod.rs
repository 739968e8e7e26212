//! One file per subcommand.

pub mod apply_patch;
