//! Parse, run the command, print the failure, exit with its code.

fn main() {}
