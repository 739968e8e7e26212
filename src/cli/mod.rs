//! One file per subcommand.

pub mod tools;
